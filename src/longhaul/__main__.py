"""`python -m longhaul` is the `longhaul` command."""

from longhaul.cli.main import main

main()

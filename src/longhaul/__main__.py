"""`python -m longhaul` is the `longhaul` command, and so is the installed script."""

from __future__ import annotations

import signal
import sys

ENDED = 128
"""Added to the number of the signal that ended a command, as in shells."""


def main() -> None:
    """Run the command; a signal while it is still being imported ends it by its documented code.

    Nothing has begun by then. Imports take most of a second, on a busy machine many.
    """
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(ENDED + number))
    try:
        from longhaul.cli.main import main as command  # after the handler, because it is slow

        command()
    except KeyboardInterrupt:
        sys.exit(ENDED + signal.SIGINT)


if __name__ == "__main__":
    main()

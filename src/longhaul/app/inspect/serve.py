"""The live page of a folder of runs."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from pathlib import Path

from longhaul.core.errors import ConfigError


def serve_runs(
    root: Path,
    notify: Callable[[str], None],
    *,
    host: str,
    port: int,
    token: str,
    allowed_hosts: Sequence[str],
) -> None:
    """Serve the page until a signal; its address is passed to `notify`."""
    missing = [name for name in ("starlette", "uvicorn") if not importlib.util.find_spec(name)]
    if missing:
        raise ConfigError(
            f"the live page needs {' and '.join(missing)}; install the extra: "
            "pip install 'longhaul-rl[web]'"
        )
    from longhaul.web.server import Address, Service, serve

    def show_address(address: Address) -> None:
        notify(f"the page of {root}: {address.as_text()}")
        notify("stop it with Ctrl-C; the runs are not affected")

    serve(Service(root, host, port, token, tuple(allowed_hosts)), show_address)

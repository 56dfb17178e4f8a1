"""Files that hold what environments print."""

from __future__ import annotations

import os
from pathlib import Path

from longhaul.core.errors import without_controls

FOLDER = "env-output"
"""The folder of a run that holds them, one for each process."""


def open_log(path: Path) -> int | None:
    """Return a descriptor that appends to a plain file, None if there cannot be one."""
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        folder = os.open(path.parent, os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return os.open(path.name, flags, 0o644, dir_fd=folder)
    except OSError:
        return None
    finally:
        os.close(folder)


def printable(text: str) -> str:
    """Return a text in one line, without anything that a terminal would obey."""
    return " ".join(without_controls(text).split("\n")).strip()

"""Errors a user can act on, each with the exit code the command ends with."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import ClassVar


class LonghaulError(Exception):
    """A failure explained to the user; the command line prints it without a traceback."""

    exit_code: ClassVar[int] = 1


class ConfigError(LonghaulError):
    """A config, argument or file the user gave is wrong."""

    exit_code = 2


class EnvError(LonghaulError):
    """The environment cannot run."""

    exit_code = 3


class NumericalError(LonghaulError):
    """A number that must be finite is not."""

    exit_code = 4


class CheckpointError(LonghaulError):
    """No checkpoint can be used."""

    exit_code = 5


class ResourceError(LonghaulError):
    """The machine ran out of disk or memory."""

    exit_code = 6


class MemoryShortageError(ResourceError):
    """The machine or its device has too little memory for the run."""


class LockedError(LonghaulError):
    """Another trainer holds the run directory."""

    exit_code = 7


EXIT_CODES: dict[int, str] = {
    0: "done",
    2: "config or usage error",
    3: "the environment cannot run",
    4: "numerically broken: a value that must be finite is not",
    5: "no usable checkpoint",
    6: "out of disk or memory",
    7: "the run directory is locked by another trainer",
    130: "stopped by SIGINT (Ctrl-C), with everything saved to go on",
    143: "stopped by SIGTERM, with everything saved to go on",
}


def suggestion(name: str, known: Iterable[str]) -> str:
    """Return `; did you mean 'x'?` for the nearest known name, or the empty string."""
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f"; did you mean {close[0]!r}?" if close else ""


def without_controls(text: str) -> str:
    """Return a text whose escape codes a terminal shows instead of obeying; lines stay lines.

    Names in files from elsewhere end up in messages.
    """
    return "".join(c if c.isprintable() or c == "\n" else repr(c)[1:-1] for c in text)

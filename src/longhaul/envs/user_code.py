"""Where in the user's own code an exception was raised."""

from __future__ import annotations

import sysconfig
import traceback
from pathlib import Path
from types import TracebackType

from longhaul.core.errors import EnvError

_OURS = str(Path(__file__).resolve().parents[1])
_PYTHON = tuple(sysconfig.get_paths()[name] for name in ("stdlib", "platstdlib"))
_INSTALLED = ("site-packages", "dist-packages")
_NOT_THE_USERS = ("gymnasium", "numpy", "torch", "longhaul")


LONGEST_TRACE = 8000


def trace_of(error: BaseException) -> str:
    """Return the traceback of an exception as text that fits into a log, its end if need be."""
    return "".join(traceback.format_exception(error, limit=-20))[-LONGEST_TRACE:]


def with_trace(words: str, trace: str) -> EnvError:
    """Return an error that carries the traceback of another process beside its words."""
    error = EnvError(words)
    if trace:
        error.add_note(trace)
    return error


def words_of(error: BaseException) -> str:
    """Return kind, text and place of an exception: `KeyError: 'x' at my_envs.py:70 in step`."""
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - the text is made by code of the user's
        text = "(its text cannot be made)"
    name = type(error).__name__
    words = f"{name}: {text}" if text else name
    place = user_line(error.__traceback__)
    return f"{words} at {place}" if place else words


def user_line(trace: TracebackType | None) -> str:
    """Return the innermost line of the user's own file, empty if there is none in the trace.

    A package that is installed beside longhaul counts if no other file takes part.
    """
    lines = [line for line in traceback.extract_tb(trace) if _may_be_the_users(line.filename)]
    own = [line for line in lines if not _is_installed(line.filename)]
    for line in reversed(own or lines):
        return f"{Path(line.filename).name}:{line.lineno} in {line.name}"
    return ""


def _may_be_the_users(file: str) -> bool:
    if file.startswith("<") or _is_below(file, (_OURS,)):
        return False
    if _is_installed(file):
        parts = Path(file).parts
        package = next((parts[at + 1] for at, part in enumerate(parts) if part in _INSTALLED), "")
        return package not in _NOT_THE_USERS
    return not _is_below(file, _PYTHON)


def _is_installed(file: str) -> bool:
    return any(part in _INSTALLED for part in Path(file).parts)


def _is_below(file: str, folders: tuple[str, ...]) -> bool:
    return any(file.startswith(f"{folder}/") for folder in folders)

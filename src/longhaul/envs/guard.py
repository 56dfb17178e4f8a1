"""Checks of what environments return: over all rows at once, and at the end of an episode."""

from __future__ import annotations

import json
import math
import os
import sysconfig
import traceback
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from longhaul.core.env import Array, Bools, Ending, StepBuffers
from longhaul.core.errors import EnvError, without_controls
from longhaul.core.spaces import EnvSpec

LONGEST_REASON = 200
MOST_METRICS = 100
LONGEST_FACTS = 100_000


@dataclass(frozen=True, slots=True)
class BadRow:
    """A row with an invalid value, and the problem."""

    row: int
    problem: str


class SlotGuard:
    """Looks for non-finite numbers and impossible masks in the slots of a vector env.

    One pass over each whole array: a check per env would cost as much as a small env's step.
    """

    def __init__(self, spec: EnvSpec, slots: StepBuffers) -> None:
        numbers = {
            **{f"observation {name!r}": part for name, part in slots.obs.items()},
            "reward": slots.reward,
            **{f"reward term {name!r}": term for name, term in slots.terms.items()},
            **{f"measure {name!r}": part for name, part in slots.measures.items()},
        }
        self._checked = [
            (name, part, np.ones(part.shape, np.bool_), part.size)
            for name, part in numbers.items()
            if np.issubdtype(part.dtype, np.floating)
        ]
        self._mask = slots.mask
        self._active = slots.active
        counts = spec.action.counts
        self._heads = np.cumsum([0, *counts[:-1]])

    def fault(self) -> BadRow | None:
        """Return the first fault there is, or None."""
        for name, part, finite, size in self._checked:
            np.isfinite(part, out=finite)
            if np.count_nonzero(finite) != size:
                return _non_finite(name, part, finite)
        return None if self._mask is None else self._impossible_mask(self._mask)

    def _impossible_mask(self, mask: Bools) -> BadRow | None:
        allowed = np.logical_or.reduceat(mask, self._heads, axis=1)  # [rows, heads]
        if allowed.all():
            return None
        blocked = np.flatnonzero(~allowed.all(axis=1) & self._active)
        if blocked.size == 0:
            return None
        row = int(blocked[0])
        head = int(np.flatnonzero(~allowed[row])[0])
        which = f" in choice {head}" if len(self._heads) > 1 else ""
        return BadRow(row, f"the action mask allows nothing{which}")


def _non_finite(name: str, part: Array, finite: Bools) -> BadRow:
    position: NDArray[np.int64] = np.argwhere(~finite)[0]
    value = part[tuple(position)]
    row, *inside = (int(index) for index in position)
    where = f" at {inside}" if inside else ""
    return BadRow(row, f"{name} is {value}{where}")


def loose_row(spec: EnvSpec, active: Bools, ended: Bools, over: list[int]) -> BadRow | None:
    """Return a row whose episode stops without an end, or continues after it; `over` are envs.

    Either would let a value be learned across two episodes.
    """
    if spec.rows == 1 and np.count_nonzero(ended) == len(over) and ended[over].all():
        return None
    is_over = np.zeros(len(active) // spec.rows, np.bool_)
    is_over[over] = True
    loose = np.flatnonzero(active & (ended ^ np.repeat(is_over, spec.rows)))
    if loose.size == 0:
        return None
    row = int(loose[0])
    env, own = divmod(row, spec.rows)
    problem = (
        f"the episode is over, but row {own} is neither terminated, truncated nor inactive"
        if is_over[env]
        else f"row {own} ended, but stays active in an episode that continues"
    )
    return BadRow(row, problem)


def bounded(ending: Ending) -> Ending:
    """Return the ending with plain numbers; refuse texts and facts too long for the logs."""
    if len(ending.reason) > LONGEST_REASON:
        raise EnvError(
            f"the reason of the episode's end has {len(ending.reason)} characters, "
            f"more than {LONGEST_REASON}"
        )
    if len(ending.metrics) > MOST_METRICS:
        raise EnvError(
            f"the episode ended with {len(ending.metrics)} metrics, more than {MOST_METRICS}"
        )
    metrics = {str(name): float(value) for name, value in ending.metrics.items()}
    for name, value in metrics.items():
        if not math.isfinite(value):
            raise EnvError(f"the episode's metric {name!r} is {value}")
    if ending.facts:
        _refuse_long_facts(ending.facts)
    return replace(ending, metrics=metrics)


def _refuse_long_facts(facts: dict[str, Any]) -> None:
    try:
        length = len(json.dumps(facts, allow_nan=False))
    except (TypeError, ValueError) as error:
        raise EnvError(f"the episode's facts cannot be written as JSON: {error}") from error
    if length > LONGEST_FACTS:
        raise EnvError(
            f"the episode's facts have {length} characters of JSON, more than {LONGEST_FACTS}"
        )


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
    except Exception:  # noqa: BLE001 - the text is made by user code
        text = "(its str() failed)"
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


FOLDER = "env-output"
"""The folder of a run for the output of environments, one log for each process."""


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
    """Return a text in one line, without control characters."""
    return " ".join(without_controls(text).split("\n")).strip()

"""A run as its logs tell it, for tasks that make records of their own from it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from longhaul.core.settings import SettingValue

Row = Mapping[str, Any]
Records = Mapping[str, str]
"""The text of each file by its name; files of one run, made anew from its logs at any time."""


@dataclass(frozen=True, slots=True)
class RunLog:
    """What a run has written so far."""

    name: str
    metrics: Sequence[Row]
    """One row per iteration, timings included."""
    events: Sequence[Row]
    settings: Mapping[str, SettingValue]
    """The settings of the first iteration; later ones are in the events of the schedule."""
    episodes: Callable[[], Sequence[Row]] = tuple
    """One row per finished episode of training; there may be many, so they are read if asked."""
    is_over: bool = False
    now: str = ""
    """When the records are made."""
    times: Mapping[int, str] = field(default_factory=dict)
    """When each iteration ended, as far as the sessions tell."""
    checkpoints: Mapping[int, str] = field(default_factory=dict)
    """The checkpoint of each iteration that still has one, relative to the run directory."""
    files: frozenset[str] = frozenset()
    """Pictures and films there are, relative to the run directory."""

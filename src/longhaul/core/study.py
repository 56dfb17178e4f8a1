"""Episodes of an evaluation played again step by step, for tasks that look into their policy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from longhaul.core.env import Array, Floats, Observation
from longhaul.core.run_log import Records
from longhaul.core.settings import Settings

if TYPE_CHECKING:
    from longhaul.core.policy import Policy


@dataclass(frozen=True, slots=True)
class Playback:
    """One episode, T steps of the env's rows."""

    number: int  # of the case in its evaluation
    seed: int
    score: float
    reason: str
    obs: Observation  # [T, rows, ...], on which the policy acted
    action: Array  # [T, rows, ...]
    value: Floats  # [T, rows]
    reward: Floats  # [T], the mean over rows


Study: TypeAlias = "Callable[[Policy, Settings, Sequence[Playback]], Records]"
"""Makes files of what a trained policy did in some episodes."""

"""Seed and actions as an environment's state: the log kept and the digest that proves it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import numpy as np

from longhaul.core.env import Array, Slots
from longhaul.core.errors import EnvError
from longhaul.core.spaces import ActionSpec, Continuous, Discrete, MultiDiscrete, Tier


class ActionLog:
    """All actions since the oldest running episode began, one array write per vector step."""

    def __init__(
        self, action: ActionSpec, shape: tuple[int, ...], oldest: Callable[[], int]
    ) -> None:
        self._stored = np.zeros((256, *shape), _narrow_dtype(action))
        self._oldest = oldest
        self._first = 0  # the tick of the first stored step
        self._size = 0

    def append(self, actions: Array) -> None:
        """Keep the actions of the next tick."""
        if self._size == len(self._stored):
            self._make_room()
        self._stored[self._size] = actions
        self._size += 1

    def since(self, tick: int, rows: slice) -> Array:
        """Return a copy of the actions of these rows from `tick` on, as far as they are kept."""
        return self._stored[max(tick - self._first, 0) : self._size, rows].copy()

    def restart(self, tick: int) -> None:
        """Forget everything; the next actions are those of `tick`."""
        self._first = tick
        self._size = 0

    def fill(self, tick: int, rows: slice, actions: Array) -> None:
        """Put back the actions these rows took from `tick` on, up to the newest stored step."""
        self._stored[tick - self._first : self._size, rows] = actions

    def extend(self, steps: int) -> None:
        """Make `steps` more ticks stored, to be filled row by row."""
        while self._size + steps > len(self._stored):
            self._stored = np.concatenate([self._stored, np.zeros_like(self._stored)])
        self._size += steps

    def _make_room(self) -> None:
        """Drop what no running episode needs; if that is less than half, double the room."""
        keep = self._stored[self._oldest() - self._first : self._size]
        grown = len(keep) * 2 > len(self._stored)
        room = np.zeros((len(self._stored) * (2 if grown else 1), *keep.shape[1:]), keep.dtype)
        room[: len(keep)] = keep
        self._first += self._size - len(keep)
        self._size = len(keep)
        self._stored = room


def _narrow_dtype(action: ActionSpec) -> np.dtype[np.generic]:
    """Return the smallest dtype that holds every action."""
    match action:
        case Discrete(count):
            return np.min_scalar_type(count - 1)
        case MultiDiscrete(counts):
            return np.min_scalar_type(max(counts) - 1)
        case Continuous():
            return np.dtype(np.float32)


def observation_digest(slots: Slots, rows: slice) -> str:
    """Return a digest of everything the policy sees in these rows."""
    digest = hashlib.blake2b(digest_size=16)
    for name in sorted(slots.obs):
        digest.update(name.encode())
        digest.update(np.ascontiguousarray(slots.obs[name][rows]).tobytes())
    if slots.mask is not None:
        digest.update(np.ascontiguousarray(slots.mask[rows]).tobytes())
    digest.update(slots.active[rows].tobytes())
    return digest.hexdigest()


def replay_mismatch(where: str, found: str) -> EnvError:
    """Return the error for a replay that did not come back to where the run was."""
    return EnvError(
        f"{where}: replaying the saved seed and actions {found}, so the environment is not "
        "reproducible (tier D), though it is declared tier B; seed everything it draws from "
        'reset(seed=...), or set env.tier = "D" to begin a new episode at every resume'
    )


def resume_promise(tier: Tier) -> str:
    """Return what a resumed run can expect of environments of this tier, in one sentence."""
    match tier:
        case Tier.SNAPSHOT:
            return "environments continue exactly, from a snapshot"
        case Tier.REPLAY:
            return "environments continue exactly, by replaying seed and actions, checked by a hash"
        case Tier.EPISODE:
            return (
                "environments in mid-episode begin their next episode, "
                "so a resumed run is exact only from episode starts"
            )
        case Tier.NONE:
            return (
                "environments begin a new episode, "
                "so a resumed run is statistically the same but not bit for bit"
            )

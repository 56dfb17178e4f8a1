"""Seed and actions as an environment's state: the action log, and the digest that checks it."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from longhaul.core.env import Array, StepBuffers
from longhaul.core.errors import EnvError
from longhaul.core.spaces import ActionSpec, Tier
from longhaul.envs.ledger import EpisodeLedger


class KeptActions(Protocol):
    """The actions of all running episodes."""

    def append(self, actions: Array) -> None:
        """Keep the next actions of all environments."""

    def since(self, tick: int, rows: slice) -> Array:
        """Return a copy of the actions of one env's rows from `tick` on, as far as kept."""

    def end(self, rows: slice) -> int:
        """Return the tick after the newest action of one env's rows."""

    def restart(self, ledger: EpisodeLedger) -> None:
        """Forget everything; the next actions follow the ledger's present state."""

    def refill(self, ledger: EpisodeLedger, pieces: Sequence[Array]) -> None:
        """Put back the actions of every env's running episode."""


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

    def end(self, rows: slice) -> int:
        """Return the tick after the newest actions."""
        return self._first + self._size

    def restart(self, ledger: EpisodeLedger) -> None:
        """Forget everything; the next actions are those of the ledger's tick."""
        self.restart_at(ledger.tick)

    def refill(self, ledger: EpisodeLedger, pieces: Sequence[Array]) -> None:
        """Put back the actions of every env's running episode."""
        self.restart_at(min(ledger.begun))
        self.extend(ledger.tick - self._first)
        for env, actions in enumerate(pieces):
            begin = ledger.begun[env] - self._first
            self._stored[begin : self._size, ledger.rows(env)] = actions

    def restart_at(self, tick: int) -> None:
        """Forget everything; the next actions are those of `tick`."""
        self._first = tick
        self._size = 0

    def extend(self, steps: int) -> None:
        """Make `steps` more ticks stored, to be filled."""
        while self._size + steps > len(self._stored):
            self._stored = np.concatenate([self._stored, np.zeros_like(self._stored)])
        self._size += steps

    def put_back(self, actions: Array) -> None:
        """Append several steps at once, of all rows."""
        begin = self._size
        self.extend(len(actions))
        self._stored[begin : self._size] = actions

    def _make_room(self) -> None:
        """Drop actions no running episode needs; if that frees less than half, double the size."""
        keep = self._stored[self._oldest() - self._first : self._size]
        grown = len(keep) * 2 > len(self._stored)
        room = np.zeros((len(self._stored) * (2 if grown else 1), *keep.shape[1:]), keep.dtype)
        room[: len(keep)] = keep
        self._first += self._size - len(keep)
        self._size = len(keep)
        self._stored = room


class OwnPaceLog:
    """The same for environments that do not step together: a log for each."""

    def __init__(
        self, action: ActionSpec, shapes: Sequence[tuple[int, ...]], oldest: Callable[[int], int]
    ) -> None:
        self._logs = [
            ActionLog(action, shape, functools.partial(oldest, env))
            for env, shape in enumerate(shapes)
        ]
        self._rows = [shape[0] for shape in shapes]

    def append(self, actions: Array) -> None:
        """Keep the next actions of all environments."""
        begin = 0
        for log, rows in zip(self._logs, self._rows, strict=True):
            log.append(actions[begin : begin + rows])
            begin += rows

    def append_one(self, env: int, actions: Array) -> None:
        """Keep the next actions of one environment."""
        self._logs[env].append(actions)

    def since(self, tick: int, rows: slice) -> Array:
        """Return a copy of one env's actions from its own `tick` on, as far as they are kept."""
        return self._log(rows).since(tick, slice(None))

    def end(self, rows: slice) -> int:
        """Return the tick after the newest action of one env, by its own count."""
        return self._log(rows).end(rows)

    def _log(self, rows: slice) -> ActionLog:
        log: ActionLog = self._logs[rows.start // self._rows[0]]
        return log

    def restart(self, ledger: EpisodeLedger) -> None:
        """Forget everything; the next actions are those of each env's present tick."""
        for env, log in enumerate(self._logs):
            log.restart_at(ledger.now(env))

    def refill(self, ledger: EpisodeLedger, pieces: Sequence[Array]) -> None:
        """Put back the actions of every env's running episode."""
        for env, (log, actions) in enumerate(zip(self._logs, pieces, strict=True)):
            log.restart_at(ledger.begun[env])
            log.put_back(actions)


def _narrow_dtype(action: ActionSpec) -> np.dtype[np.generic]:
    """Return the smallest dtype that holds every action."""
    counts = action.counts
    return np.min_scalar_type(max(counts) - 1) if counts else np.dtype(np.float32)


def observation_digest(slots: StepBuffers, rows: slice) -> str:
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
    """Return the error for a replay that differs from the run."""
    return EnvError(
        f"{where}: replaying the saved seed and actions {found}, so the environment is not "
        "reproducible (tier none), although it is declared tier replay; seed everything it draws "
        'from reset(seed=...), or set env.tier = "none" to begin a new episode at every resume'
    )


def resume_promise(tier: Tier) -> str:
    """Return how environments of this tier resume, in one sentence."""
    match tier:
        case Tier.SNAPSHOT:
            return "environments continue exactly, from a snapshot"
        case Tier.REPLAY:
            return "environments continue exactly, by replaying seed and actions, checked by a hash"
        case Tier.RESTART:
            return (
                "environments in mid-episode begin their next episode, "
                "so a resumed run is exact only from episode starts"
            )
        case Tier.NONE:
            return (
                "environments begin a new episode, "
                "so a resumed run is statistically the same but not bit for bit"
            )

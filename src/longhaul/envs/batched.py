"""Environments that are arrays, stepped by native code on a few threads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from longhaul.core.env import Array, BatchedEnv, BatchedEnvs, Ending
from longhaul.core.errors import EnvError
from longhaul.core.seeds import EpisodeSeeds
from longhaul.core.settings import Settings
from longhaul.core.state import State
from longhaul.envs.crew.crew import Crew, StepsNatively
from longhaul.envs.guard import bounded
from longhaul.envs.lockstep import Lockstep
from longhaul.envs.losses import Border, GivenUp
from longhaul.envs.range_pool import RangePool
from longhaul.envs.user_code import words_of


class _Stepper(Protocol):
    """Steps all simulators of a batch with a few threads."""

    def step(self, actions: Array) -> None:
        """Step every simulator with the actions of all rows."""

    def close(self) -> None:
        """End the threads."""


class _ByRanges:
    """Each thread steps a range of its own, through Python."""

    def __init__(self, batch: BatchedEnv, count: int, threads: int) -> None:
        self._batch = batch
        self._pool = RangePool(count, threads)

    def step(self, actions: Array) -> None:
        self._pool.run(lambda begin, end: self._batch.step(begin, end, actions))

    def close(self) -> None:
        self._pool.close()


class _ByCrew:
    """Threads without Python take one simulator after another."""

    def __init__(self, batch: StepsNatively, count: int, threads: int) -> None:
        self._crew = Crew(count, threads)
        self._native = batch.native_step(self._crew.members)

    def step(self, actions: Array) -> None:
        self._crew.run(self._native, actions)

    def close(self) -> None:
        self._crew.close()


def _stepper(batch: BatchedEnv, count: int, threads: int) -> _Stepper:
    if isinstance(batch, StepsNatively):
        return _ByCrew(batch, count, threads)
    return _ByRanges(batch, count, threads)


class BatchedVectorEnv(Lockstep):
    """A VectorEnv over one batch of simulators; its results do not depend on `threads`."""

    def __init__(
        self,
        source: BatchedEnvs,
        count: int,
        seeds: EpisodeSeeds,
        *,
        threads: int = 1,
        border: Border | None = None,
    ) -> None:
        super().__init__(source.spec, count, seeds, border)
        self._batch = source.make(count)
        self._batch.bind(self._slots)
        self._configured: Settings | None = None
        self._stepper = _stepper(self._batch, count, threads)

    def _begin(self, envs: Sequence[int], settings: Settings | None) -> None:
        ledger = self._ledger
        if settings is not None and settings != self._configured:
            self._batch.configure(settings)
            self._configured = settings
        seeds = np.array([ledger.seeds[env] for env in envs], np.int64)
        starts = [ledger.starts[env] for env in envs]
        try:
            self._batch.reset(np.array(envs, np.int64), seeds, starts)
        except Exception as error:
            raise self._failure("reset", error) from error

    def _advance(self) -> Sequence[tuple[int, Ending]]:
        try:
            self._stepper.step(self._actions)
        except Exception as error:
            raise self._failure("step", error) from error
        if not self._batch.over.any():
            return ()
        endings = []
        for env in np.flatnonzero(self._batch.over).tolist():
            try:
                endings.append((env, bounded(self._batch.ending(env))))
            except EnvError as error:
                self._refuse(GivenUp(env, "unusable", "step", str(error)))
        return endings

    def _advance_one(self, env: int, actions: Array) -> bool:
        self._actions[self._ledger.rows(env)] = actions
        self._batch.step(env, env + 1, self._actions)
        return bool(self._batch.over[env])

    def _failure(self, stage: str, error: Exception) -> EnvError:
        words = str(error) if isinstance(error, EnvError) else words_of(error)
        return EnvError(f"{self._spec.id}, {stage} of the batch: {words}")

    def _snapshots(self) -> State:
        return self._batch.snapshot()

    def _restore(self, snapshots: State) -> None:
        self._batch.restore(snapshots)

    def frame(self, env: int) -> NDArray[np.uint8] | None:
        """Return the present picture of one environment."""
        return self._batch.frame(env)

    def close(self) -> None:
        """End all environments and threads."""
        self._stepper.close()
        self._batch.close()

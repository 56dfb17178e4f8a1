"""Environments that are arrays, stepped by native code on a few threads."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from longhaul.core.env import Array, BatchedEnvs, Ending
from longhaul.core.errors import EnvError
from longhaul.core.seeds import EpisodeSeeds
from longhaul.core.settings import Settings
from longhaul.core.state import State
from longhaul.envs.guard import bounded
from longhaul.envs.lockstep import Lockstep
from longhaul.envs.losses import Border, GivenUp
from longhaul.envs.range_pool import RangePool


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
        self._pool = RangePool(count, threads)

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
            self._pool.run(self._step_range)
        except Exception as error:
            raise self._failure("step", error) from error
        endings = []
        for env in np.flatnonzero(self._batch.over).tolist():
            try:
                endings.append((env, bounded(self._batch.ending(env))))
            except EnvError as error:
                self._refuse(GivenUp(env, "unusable", "step", str(error)))
        return endings

    def _step_range(self, begin: int, end: int) -> None:
        self._batch.step(begin, end, self._actions)

    def _advance_one(self, env: int, actions: Array) -> bool:
        self._actions[self._ledger.rows(env)] = actions
        self._batch.step(env, env + 1, self._actions)
        return bool(self._batch.over[env])

    def _failure(self, stage: str, error: Exception) -> EnvError:
        words = str(error) if isinstance(error, EnvError) else f"{type(error).__name__}: {error}"
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
        self._pool.close()
        self._batch.close()

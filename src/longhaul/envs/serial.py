"""Environments stepped one after another in the trainer's process."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from longhaul.core.env import Array, Ending, SingleEnvs
from longhaul.core.errors import EnvError
from longhaul.core.seeds import EpisodeSeeds
from longhaul.core.settings import Settings
from longhaul.core.state import State
from longhaul.envs.lockstep import Lockstep


class SerialVectorEnv(Lockstep):
    """A VectorEnv over envs made one by one; for debugging and for small environments."""

    def __init__(self, source: SingleEnvs, count: int, seeds: EpisodeSeeds) -> None:
        super().__init__(source.spec, count, seeds)
        self._envs = [source.make() for _ in range(count)]
        self._configured: list[Settings | None] = [None] * count
        rows = source.spec.rows
        for env, simulator in enumerate(self._envs):
            simulator.bind(self._slots.view(env * rows, (env + 1) * rows))
        # Bound methods and views of the action buffer, looked up once instead of every step.
        self._steps = [
            (env, simulator.step, self._actions[env * rows : (env + 1) * rows])
            for env, simulator in enumerate(self._envs)
        ]

    def _begin(self, envs: Sequence[int], settings: Settings | None) -> None:
        ledger = self._ledger
        for env in envs:
            simulator = self._envs[env]
            try:
                if settings is not None and settings != self._configured[env]:
                    simulator.configure(settings)
                    self._configured[env] = settings
                simulator.reset(ledger.seeds[env], ledger.starts[env])
            except Exception as error:
                raise self._failure(env, error) from error

    def _advance(self) -> Sequence[tuple[int, Ending]]:
        endings = []
        env = 0
        try:
            for env, step, actions in self._steps:
                ending = step(actions)
                if ending is not None:
                    endings.append((env, ending))
        except Exception as error:
            raise self._failure(env, error) from error
        return endings

    def _advance_one(self, env: int, actions: Array) -> bool:
        try:
            return self._envs[env].step(actions) is not None
        except Exception as error:
            raise self._failure(env, error) from error

    def _failure(self, env: int, error: Exception) -> EnvError:
        """Return an EnvError that names the place, with the simulator's own words."""
        words = str(error) if isinstance(error, EnvError) else f"{type(error).__name__}: {error}"
        return EnvError(f"{self._ledger.where(env)}: {words}")

    def _snapshots(self) -> State:
        return {"envs": [simulator.snapshot() for simulator in self._envs]}

    def _restore(self, snapshots: State) -> None:
        for simulator, snapshot in zip(self._envs, snapshots["envs"], strict=True):
            simulator.restore(snapshot)

    def frame(self, env: int) -> NDArray[np.uint8] | None:
        """Return the present picture of one environment."""
        return self._envs[env].frame()

    def close(self) -> None:
        """End all environments."""
        for simulator in self._envs:
            simulator.close()

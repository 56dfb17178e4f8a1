"""Environments stepped one after another in the trainer's process."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from longhaul.core.env import Array, BatchedEnv, BatchedEnvs, Ending, Env, SingleEnvs
from longhaul.core.errors import EnvError, LonghaulError
from longhaul.core.seeds import EpisodeSeeds
from longhaul.core.settings import Settings
from longhaul.core.state import State
from longhaul.envs.faults import AbandonedEpisode, FaultPolicy
from longhaul.envs.guard import bounded, trace_of, words_of
from longhaul.envs.lockstep import Lockstep
from longhaul.envs.native.thread_pool import Crew, RangePool, StepsNatively
from longhaul.envs.starts import StartDealer, begin_episode

Stepper = tuple[int, Callable[[Array], Ending | None], Array]
TIMED_EVERY = 13  # steps; odd, because periodic work of envs often has an even period


class SerialVectorEnv(Lockstep):
    """A VectorEnv over envs made one by one; for debugging and for small environments."""

    def __init__(
        self,
        source: SingleEnvs,
        count: int,
        seeds: EpisodeSeeds,
        *,
        faults: FaultPolicy | None = None,
        dealer: StartDealer | None = None,
    ) -> None:
        super().__init__(source.spec, count, seeds, faults, dealer)
        self._make = source.make
        self._envs = [self._bound(env) for env in range(count)]
        self._configured: list[Settings | None] = [None] * count
        self._distrusted: set[int] = set()  # made again before their next reset
        # Bound methods and views of the action buffer, looked up once instead of every step.
        self._steps = [self._stepper(env) for env in range(count)]
        self._times = np.zeros((count, 2), np.int64)
        self._ticks = 0

    def _bound(self, env: int) -> Env:
        try:
            simulator = self._make()
        except LonghaulError:
            raise
        except Exception as error:
            raise EnvError(f"{self._spec.id} cannot be made: {words_of(error)}") from error
        rows = self._ledger.rows(env)
        simulator.bind(self._slots.view(rows.start, rows.stop))
        return simulator

    def _stepper(self, env: int) -> Stepper:
        return env, self._envs[env].step, self._actions[self._ledger.rows(env)]

    def _begin(self, envs: Sequence[int], settings: Settings | None) -> None:
        ledger = self._ledger
        for env in envs:
            try:
                if env in self._distrusted:
                    self._remake(env)
                simulator = self._envs[env]
                if settings is not None and settings != self._configured[env]:
                    simulator.configure(settings)
                    self._configured[env] = settings
                begin_episode(simulator, ledger.seeds[env], ledger.starts[env])
            except EnvError as error:
                self._distrust(env, error, in_step=False)
            except Exception as error:
                raise self._failure(env, error) from error

    def step_times(self) -> NDArray[np.int64]:
        """Return nanoseconds and number of the steps that were timed, env by env."""
        return self._times

    def _advance(self) -> Sequence[tuple[int, Ending]]:
        endings: list[tuple[int, Ending]] = []
        # A clock around every step would cost a small env some per cent of its speed.
        steps = self._steps
        if self._ticks % TIMED_EVERY == 0:
            steps = [(env, self._timed(env, step), actions) for env, step, actions in steps]
        self._ticks += 1
        first = 0
        while first < self._count:
            first = self._advance_from(steps[first:], endings)
        return endings

    def _timed(
        self, env: int, step: Callable[[Array], Ending | None]
    ) -> Callable[[Array], Ending | None]:
        times = self._times[env]

        def call(actions: Array) -> Ending | None:
            began = time.perf_counter_ns()
            ending = step(actions)
            times[0] += time.perf_counter_ns() - began
            times[1] += 1
            return ending

        return call

    def _advance_from(self, steps: Sequence[Stepper], endings: list[tuple[int, Ending]]) -> int:
        """Take these steps up to the first that fails; return the next env to be stepped."""
        env = -1
        try:
            for env, step, actions in steps:
                ending = step(actions)
                if ending is not None:
                    endings.append((env, bounded(ending)))
        except EnvError as error:
            self._distrust(env, error, in_step=True)
        except Exception as error:
            raise self._failure(env, error) from error
        return env + 1

    def _distrust(self, env: int, error: EnvError, *, in_step: bool) -> None:
        """Refuse the output of a simulator, which may be in an inconsistent state now."""
        self._distrusted.add(env)
        stage = "step" if in_step else "reset"
        self._refuse(AbandonedEpisode(env, "unusable", stage, str(error), in_step=in_step))

    def _remake(self, env: int) -> None:
        self._distrusted.discard(env)
        self._close_one(env)
        self._envs[env] = self._bound(env)
        self._configured[env] = None
        self._steps[env] = self._stepper(env)

    def _advance_one(self, env: int, actions: Array) -> bool:
        try:
            return self._envs[env].step(actions) is not None
        except Exception as error:
            raise self._failure(env, error) from error

    def _failure(self, env: int, error: Exception) -> EnvError:
        """Return an EnvError that names the place, with the simulator's message."""
        words = str(error) if isinstance(error, EnvError) else words_of(error)
        return EnvError(f"{self._where(env)}: {words}")

    def _snapshots(self) -> State:
        return {"envs": [self._snapshot(env) for env in range(self._count)]}

    def _snapshot(self, env: int) -> State:
        try:
            return self._envs[env].snapshot()
        except Exception as error:
            raise self._failure(env, error) from error

    def _restore(self, snapshots: State) -> None:
        for env, snapshot in enumerate(snapshots["envs"]):
            try:
                self._envs[env].restore(snapshot)
            except Exception as error:
                raise self._failure(env, error) from error

    def frame(self, env: int) -> NDArray[np.uint8] | None:
        """Return the present picture of one environment."""
        try:
            return self._envs[env].frame()
        except Exception as error:
            raise self._failure(env, error) from error

    def close(self) -> None:
        """End all environments; an exception in one is reported and does not stop the others."""
        for env in range(self._count):
            self._close_one(env)

    def _close_one(self, env: int) -> None:
        try:
            self._envs[env].close()
        except Exception as error:  # noqa: BLE001 - user code may raise anything
            given_up = AbandonedEpisode(env, "raised", "close", words_of(error), trace_of(error))
            self._listeners.on_fault(self._losses.fault(given_up, step=self._step_number(env)))


def _batch_stepper(
    batch: BatchedEnv, count: int, threads: int
) -> tuple[Callable[[Array], None], Callable[[], None]]:
    """Return how to step a batch with the actions of all rows, and how to end its threads."""
    if isinstance(batch, StepsNatively):
        # Threads without Python take one simulator after another.
        crew = Crew(count, threads)
        return partial(crew.run, batch.native_step(crew.members)), crew.close
    # Each thread steps a fixed range of simulators, through Python.
    pool = RangePool(count, threads)

    def step(actions: Array) -> None:
        pool.run(lambda begin, end: batch.step(begin, end, actions))

    return step, pool.close


class BatchedVectorEnv(Lockstep):
    """A VectorEnv over one batch of simulators; its results do not depend on `threads`."""

    def __init__(
        self,
        source: BatchedEnvs,
        count: int,
        seeds: EpisodeSeeds,
        *,
        threads: int = 1,
        faults: FaultPolicy | None = None,
        dealer: StartDealer | None = None,
    ) -> None:
        super().__init__(source.spec, count, seeds, faults, dealer)
        self._batch = source.make(count)
        self._batch.bind(self._slots)
        self._configured: Settings | None = None
        self._step_batch, self._end_threads = _batch_stepper(self._batch, count, threads)

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
            self._step_batch(self._actions)
        except Exception as error:
            raise self._failure("step", error) from error
        if not self._batch.over.any():
            return ()
        endings = []
        for env in np.flatnonzero(self._batch.over).tolist():
            try:
                endings.append((env, bounded(self._batch.ending(env))))
            except EnvError as error:
                self._refuse(AbandonedEpisode(env, "unusable", "step", str(error)))
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
        self._end_threads()
        self._batch.close()

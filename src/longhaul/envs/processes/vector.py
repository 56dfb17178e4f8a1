"""Environments in worker processes, which are replaced exactly when they die or hang."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence

import numpy as np
from numpy.typing import NDArray

from longhaul.core.env import Array, Ending, SingleEnvs, Step, StepBuffers
from longhaul.core.errors import ConfigError, EnvError
from longhaul.core.seeds import EpisodeSeeds
from longhaul.core.settings import Settings
from longhaul.core.spaces import Tier
from longhaul.core.state import State
from longhaul.core.system import cores
from longhaul.envs.config import ProcessesConfig
from longhaul.envs.faults import AbandonedEpisode, FaultPolicy
from longhaul.envs.lockstep import Lockstep
from longhaul.envs.processes.casualties import Casualties
from longhaul.envs.processes.fleet import Fleet
from longhaul.envs.processes.limits import MemoryWatch, check_room
from longhaul.envs.processes.mailbox import Layout, Mailbox
from longhaul.envs.processes.messages import Answer, Kind, Order, WorkerLoss, WorkerStage
from longhaul.envs.processes.process import WORKER_SYSTEM, WorkerSystem
from longhaul.envs.processes.repro import RunningEpisodes
from longhaul.envs.processes.supervisor import Supervisor, WorkerJob
from longhaul.envs.replay_log import replay_mismatch
from longhaul.envs.starts import StartDealer

REBASE_TICKS = 10_000  # snapshots bound how far back a replay begins


class ProcessVectorEnv(Lockstep):
    """A VectorEnv over envs in worker processes; its results are those of the serial one."""

    system: WorkerSystem = WORKER_SYSTEM

    def __init__(
        self,
        source: SingleEnvs,
        count: int,
        seeds: EpisodeSeeds,
        *,
        config: ProcessesConfig | None = None,
        faults: FaultPolicy | None = None,
        dealer: StartDealer | None = None,
    ) -> None:
        self._config = config = config or ProcessesConfig()
        shares = share_out(count, config.workers or self._default_workers(count))
        check_room(len(shares))
        self._mailbox = Mailbox.create(source.spec, count=max(count, 1), workers=len(shares))
        super().__init__(source.spec, count, seeds, faults, dealer)
        self._shares = shares
        self._episodes = RunningEpisodes(source.spec, self._ledger, self._log, self._slots)
        self._fleet = Fleet(source, self._mailbox, shares, config, count=count, system=self.system)
        self._fleet.output = self._listeners.output
        self._supervisor = Supervisor(self._fleet, self._episodes, shares, config, self._listeners)
        self._memory = MemoryWatch(config, self.system.monotonic)
        self._casualties = Casualties(source, self._episodes, self._losses, config, self._listeners)
        self._endings: list[tuple[int, Ending]] = []
        self._step_job = WorkerJob(WorkerStage.STEP, _step_order, self._accept_step)
        self._begin_job = WorkerJob(WorkerStage.RESET, self._begin_order, self._accept_begin)
        self._is_closed = False
        self._listeners.on_workers(self._fleet)
        try:
            self._supervisor.start()
        except BaseException:
            self.close()
            raise

    def _default_workers(self, count: int) -> int:
        """Return the default number of workers."""
        return cores()

    def _is_busy(self, worker: int) -> bool:
        """Whether a worker has an order it has not answered yet, between two steps."""
        return False

    def _allocate(self) -> tuple[StepBuffers, Array]:
        """Return private slots, laid out like the mailbox, and the shared actions."""
        layout = Layout(self._spec, self._count * self._spec.rows)
        self._block = np.zeros(layout.size, np.uint8)
        slots = layout.slots(self._block)
        np.copyto(self._block, self._mailbox.block)
        return slots, self._mailbox.actions

    def _oldest_tick(self) -> int:
        return self._episodes.oldest()

    def step_times(self) -> NDArray[np.int64]:
        """Return nanoseconds and number of steps, env by env."""
        return np.frombuffer(self._mailbox.step_times(), np.int64).reshape(-1, 2)

    def pids(self) -> dict[int, int]:
        """Return the process of each worker."""
        return {worker: self._fleet.pid(worker) for worker in self._supervisor.workers}

    def reset(self) -> None:
        """Begin the next episode in every environment."""
        self._running = True
        self._begin_next([env for env in range(self._count) if env not in self._casualties.retired])
        self._begin_abandoned()

    def step(self, actions: Array) -> Step:
        """Act in every row; ended environments come back already reset."""
        self._accept(actions)
        slots = self._slots
        if self._any_started:
            slots.started[:] = False
            slots.lost[:] = False
            self._any_started = False
        endings = self._advance()
        self._ledger.advance(slots.reward)
        self._episodes.stepped.clear()
        for env in self._casualties.retired:
            self._ledger.reopen(env)
        endings = self._drop_unusable(endings, in_step=True)
        self._supervisor.budget.stepped()
        if endings or self._spec.rows > 1:
            self._episodes.idle.update(env for env, _ in endings)
            step = self._finish(endings)
        else:
            step = self._uneventful
        self._begin_abandoned()
        self._watch_memory(endings)
        if self._spec.tier is Tier.SNAPSHOT and self._ledger.tick % REBASE_TICKS == 0:
            self._rebase(self._snapshots())
        return self._with_events(step)

    def _advance(self) -> Sequence[tuple[int, Ending]]:
        workers = self._supervisor.workers
        results = self._fleet.step_all(workers)
        self._endings = []
        is_troubled = self._casualties.retired or any(
            isinstance(result, WorkerLoss) or result.raised for result in results.values()
        )
        if is_troubled:
            todo = {worker: list(self._shares[worker]) for worker in workers}
            self._casualties.take(self._supervisor.settle(self._step_job, todo, results))
        else:
            np.copyto(self._block, self._mailbox.block)
            for result in results.values():
                if isinstance(result, Answer) and result.endings:
                    self._endings.extend(result.endings)
        endings = [one for one in self._endings if not self._casualties.is_gone(one[0])]
        return sorted(endings, key=lambda one: one[0])

    def _accept_step(self, envs: Sequence[int], answer: Answer) -> None:
        for env in envs:
            self._copy_rows(env, everything=True)
        self._episodes.stepped.update(envs)
        over = [one for one in answer.endings if one[0] in envs]
        self._episodes.idle.update(env for env, _ in over)
        self._endings.extend(over)

    def _begin_order(self, envs: Sequence[int], fresh: Collection[int]) -> Order:
        return Order(
            Kind.BEGIN, [self._episodes.beginning(env, fresh=env in fresh) for env in envs]
        )

    def _accept_begin(self, envs: Sequence[int], answer: Answer) -> None:
        for env in envs:
            self._copy_rows(env, everything=False)
        self._episodes.idle.difference_update(envs)

    def _copy_rows(self, env: int, *, everything: bool) -> None:
        """Take over what an env wrote: all of it, or what a reset writes."""
        rows = self._ledger.rows(env)
        ours, theirs = self._slots, self._mailbox.slots
        for name, part in ours.obs.items():
            part[rows] = theirs.obs[name][rows]
        ours.active[rows] = theirs.active[rows]
        if ours.mask is not None and theirs.mask is not None:
            ours.mask[rows] = theirs.mask[rows]
        if everything:
            ours.reward[rows] = theirs.reward[rows]
            ours.terminated[rows] = theirs.terminated[rows]
            ours.truncated[rows] = theirs.truncated[rows]
            ours.forced[rows] = theirs.forced[rows]
            for name, term in ours.terms.items():
                term[rows] = theirs.terms[name][rows]
            for name, measure in ours.measures.items():
                measure[rows] = theirs.measures[name][rows]

    def _begin_next(self, envs: Sequence[int]) -> None:
        for env in envs:
            self._open(env)
        self._begin(envs, self._settings)
        self._mark_started([env for env in envs if not self._casualties.is_gone(env)])
        self._drop_unusable((), in_step=False)

    def _abandon(self, given_up: AbandonedEpisode) -> None:
        self._casualties.abandon(given_up)

    def _open(self, env: int) -> None:
        """Open an env's next episode, skipping quarantined seeds."""
        self._supervisor.forget(env)
        for _ in range(self._config.most_quarantined + 1):
            self._ledger.begin(env, self._dealer, self._settings)
            self._episodes.opened(env)
            if not self._casualties.is_quarantined(env):
                return
        raise EnvError(f"{self._ledger.where(env)}: all its seeds are quarantined")

    def _begin(self, envs: Sequence[int], settings: Settings | None) -> None:
        self._episodes.idle.update(envs)
        self._casualties.take(self._supervisor.run_job(self._begin_job, envs))

    def begin_again(self, env: int) -> None:
        """Reset one simulator to where its episode began; the others stay where they are."""
        self._episodes.opened(env)
        super().begin_again(env)

    def _watch_memory(self, endings: Sequence[tuple[int, Ending]]) -> None:
        if self._memory.due():
            self._memory.look(self.pids().items())
        for worker, grown in list(self._memory.growth.items()):
            if self._is_busy(worker):
                continue
            share = self._shares[worker]
            ended = any(env in share for env, _ in endings)
            is_harmless = ended and (self._episodes.can_replay or len(share) == 1)
            if is_harmless or self._memory.is_urgent(worker):
                del self._memory.growth[worker]
                self._casualties.take(
                    self._supervisor.renew(worker, f"its memory grew by {grown} MB")
                )
                self._begin_abandoned()

    def _advance_one(self, env: int, actions: Array) -> bool:
        raise NotImplementedError("whole episodes are played again in the worker")

    def state_dict(self) -> State:
        """Return everything needed to continue exactly, as far as the env's tier allows."""
        return {**super().state_dict(), "processes": self._casualties.state_dict()}

    def load_state_dict(self, state: State) -> None:
        """Continue from a saved state; what the tier cannot restore begins its next episode."""
        saved = state.get("processes", self._casualties.state_dict())
        self._casualties.load_state_dict(saved)
        self._episodes.idle = set(range(self._count))
        super().load_state_dict(state)
        for env in saved["retired"]:
            # It has a worker again, and begins where it would have begun.
            self._slots.active[self._ledger.rows(env)] = True
            self._mark_started([env])
        self._begin_abandoned()
        np.copyto(self._mailbox.block, self._block)

    def _snapshots(self) -> State:
        taken: dict[int, State] = {}
        job = WorkerJob(
            WorkerStage.SNAPSHOT,
            lambda envs, fresh: Order(Kind.SNAPSHOT, tuple(envs)),
            lambda envs, answer: taken.update(answer.returned),
        )
        envs = [env for env in range(self._count) if env not in self._casualties.retired]
        outcome = self._supervisor.run_job(job, envs)
        for given_up in outcome.given_up.values():
            raise EnvError(f"{self._ledger.where(given_up.env)}: {given_up.error}")
        return {"envs": [taken.get(env) for env in range(self._count)]}

    def _rebase(self, snapshots: State) -> None:
        """Replay episodes from these states in future, not from their seeds."""
        for env, snapshot in enumerate(snapshots["envs"]):
            if snapshot is not None:
                self._episodes.rebase(env, snapshot)

    def _begin_restored(self) -> None:
        """Do nothing: a replay from a native state begins with configuration and reset.

        A worker lost in a reset here would take the other episodes for begun, and replay them.
        """

    def _restore(self, snapshots: State) -> None:
        self._log.restart(self._ledger)
        for env in range(self._count):
            self._episodes.opened(env)
        self._rebase(snapshots)
        self._bring_back(dict.fromkeys(range(self._count), ""))

    def _replay(self, replay: State) -> None:
        """Replay all environments at once, each from its seed and actions, and check them."""
        for env in range(self._count):
            self._episodes.opened(env)
        self._refilled_log(replay)
        self._bring_back(dict(enumerate(replay["digests"])))

    def _bring_back(self, digests: dict[int, str]) -> None:
        self._episodes.idle.clear()
        self._episodes.expected = digests
        try:
            outcome = self._supervisor.bring_back(range(self._count))
        finally:
            self._episodes.expected = {}
        for env, given_up in outcome.given_up.items():
            problem = given_up.error.removeprefix("playing the episode's seed and actions again ")
            raise replay_mismatch(self._ledger.where(env), problem)
        self._casualties.take(outcome)
        for env in range(self._count):
            self._copy_rows(env, everything=True)

    def _replay_state(self) -> State:
        state = super()._replay_state()
        for env in self._casualties.retired:
            state["digests"][env] = ""
        return state

    def frame(self, env: int) -> NDArray[np.uint8] | None:
        """Return the present picture of one environment, None if its worker fails to give one."""
        worker = next(worker for worker, envs in self._shares.items() if env in envs)
        if env in self._casualties.retired or self._is_busy(worker):
            return None
        result = self._fleet.exchange({worker: Order(Kind.FRAME, env)})[worker]
        if isinstance(result, WorkerLoss) or result.raised:
            return None
        picture: NDArray[np.uint8] | None = result.returned
        return picture

    def close(self) -> None:
        """End all environments and their processes."""
        if self._is_closed:
            return
        self._is_closed = True
        self._listeners.on_workers_gone(self._fleet)
        self._fleet.close()
        os.close(self._mailbox.descriptor)


def _step_order(envs: Sequence[int], fresh: Collection[int]) -> Order:
    return Order(Kind.STEP, tuple(envs))


def share_out(count: int, workers: int) -> dict[int, tuple[int, ...]]:
    """Return the envs of each worker: as even as can be, neighbors together."""
    if workers < 0:
        raise ConfigError(f"env.processes.workers = {workers} must be 0 (one per core) or more")
    used = max(1, min(count, workers or cores()))
    bounds = [count * worker // used for worker in range(used + 1)]
    return {worker: tuple(range(bounds[worker], bounds[worker + 1])) for worker in range(used)}

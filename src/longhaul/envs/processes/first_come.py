"""Environments in worker processes that act again as soon as they have answered."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from longhaul.core.env import Array, Arrivals, Ending, Episode, Finals, SingleEnvs, Step
from longhaul.core.errors import EnvError
from longhaul.core.seeds import EpisodeSeeds
from longhaul.core.spaces import Tier
from longhaul.core.state import State
from longhaul.envs.config import ProcessesConfig
from longhaul.envs.faults import FaultPolicy
from longhaul.envs.guard import BadRow as SlotFault
from longhaul.envs.guard import SlotGuard
from longhaul.envs.ledger import OwnPaceLedger
from longhaul.envs.processes.messages import Answer, WorkerLoss
from longhaul.envs.processes.supervisor import WorkerJob
from longhaul.envs.processes.vector import REBASE_TICKS, ProcessVectorEnv
from longhaul.envs.replay_log import OwnPaceLog


class FirstComeVectorEnv(ProcessVectorEnv):
    """A VectorEnv that can be stepped in parts: environments that answer first act first.

    Each episode depends only on its seed and actions; which envs act together depends on timing. An
    ended env answers once it is reset, and the others do not wait for that either.
    """

    def __init__(
        self,
        source: SingleEnvs,
        count: int,
        seeds: EpisodeSeeds,
        *,
        config: ProcessesConfig | None = None,
        faults: FaultPolicy | None = None,
    ) -> None:
        super().__init__(source, count, seeds, config=config, faults=faults)
        rows = self._spec.rows
        self._guards = {
            worker: SlotGuard(self._spec, self._slots.view(envs[0] * rows, (envs[-1] + 1) * rows))
            for worker, envs in self._shares.items()
        }
        self._worker_of = {env: worker for worker, envs in self._shares.items() for env in envs}
        self._asked: dict[int, tuple[WorkerJob, Sequence[int]]] = {}  # of workers yet to answer
        self._arrived: list[int] = []  # workers that are ready to act again
        self._fresh: Sequence[int] = tuple(self._shares)  # workers whose rows are to be checked
        self._finals: dict[int, Finals] = {}  # by worker
        self._concluded: list[Episode] = []
        self._since_rebase = 0

    def _make_ledger(self, seeds: EpisodeSeeds) -> OwnPaceLedger:
        self._pace = OwnPaceLedger(self._spec, self._count, seeds)
        return self._pace

    def _make_log(self) -> OwnPaceLog:
        one = (self._spec.rows, *self._actions.shape[1:])
        self._own_log = OwnPaceLog(
            self._spec.action, [one] * self._count, lambda env: self._episodes.oldest_of(env)
        )
        return self._own_log

    def _default_workers(self, count: int) -> int:
        """Return one worker for each env: envs of one worker wait for each other."""
        return count

    def _is_busy(self, worker: int) -> bool:
        return worker in self._asked

    def reset(self) -> None:
        """Begin the next episode in every environment."""
        self._refuse_to_interrupt("reset")
        self._fresh = tuple(self._shares)
        super().reset()

    def step(self, actions: Array) -> Step:
        """Act in every row and wait for all; ended environments come back already reset."""
        if actions.shape != self._actions.shape:
            raise EnvError(
                f"{self._spec.id}: actions have shape {actions.shape}, not {self._actions.shape}"
            )
        self.send(np.arange(self.rows), actions)
        return self.gather(1.0).step

    def send(self, rows: NDArray[np.int64], actions: Array) -> None:
        """Act in these rows, all rows of their envs, with `actions` [len(rows), ...]; no waiting.

        Envs without a worker are skipped.
        """
        if not self._running:
            raise EnvError(f"{self._spec.id}: reset() must be called before step()")
        self._actions[rows] = actions
        self._refuse_non_finite_actions()
        slots = self._slots
        for flags in (slots.started, slots.lost, slots.terminated, slots.truncated):
            flags[rows] = False
        ledger = self._ledger
        asked: dict[int, list[int]] = {}
        for env in (rows[:: self._spec.rows] // self._spec.rows).tolist():
            if env in self._casualties.retired:
                continue
            self._own_log.append_one(env, self._actions[ledger.rows(env)])
            asked.setdefault(self._worker_of[env], []).append(env)
        for worker, envs in asked.items():
            assert worker not in self._asked
            self._ask(self._step_job, worker, envs)

    def gather(self, share: float) -> Arrivals:
        """Return once at least this share of the envs has answered; 1 waits for all."""
        live = self._count - len(self._casualties.retired)
        wanted = max(1, math.ceil(share * live - 1e-9))
        endings: list[tuple[int, Ending]] = []
        while self._asked and self._arrived_envs() < wanted:
            results = self._fleet.collect()
            # Losses first: answers can wait, but a dead worker must not be handled twice.
            for worker in sorted(results, key=lambda one: isinstance(results[one], Answer)):
                endings += self._take(worker, results[worker])
        self._fresh = tuple(self._shares)
        self._watch_memory(endings)
        self._rebase_if_due()
        return self._arrivals()

    def _arrived_envs(self) -> int:
        return sum(len(self._shares[worker]) for worker in self._arrived)

    def _ask(self, job: WorkerJob, worker: int, envs: Sequence[int]) -> None:
        self._asked[worker] = (job, envs)
        self._supervisor.post(job, worker, envs)

    def _take(self, worker: int, result: Answer | WorkerLoss) -> Sequence[tuple[int, Ending]]:
        """Process the result of one worker; return the endings."""
        job, envs = self._asked.pop(worker)
        self._fresh = (worker,)
        self._endings = []
        if isinstance(result, WorkerLoss) or result.raised:
            self._casualties.take(
                self._supervisor.settle(job, {worker: list(envs)}, {worker: result})
            )
        else:
            job.accept(envs, result)
        if job is self._step_job:
            return self._take_step(worker, envs)
        self._mark_started([env for env in envs if not self._casualties.is_gone(env)])
        self._drop_unusable((), in_step=False)
        self._begin_abandoned()
        self._arrived.append(worker)
        return ()

    def _take_step(self, worker: int, envs: Sequence[int]) -> Sequence[tuple[int, Ending]]:
        """Count a step of one worker's envs; those that ended are to be reset next."""
        live = [env for env in envs if env not in self._casualties.retired]
        self._pace.advance_some(live, self._slots.reward)
        self._episodes.stepped.difference_update(envs)
        endings = self._drop_unusable(
            [one for one in self._endings if not self._casualties.is_gone(one[0])], in_step=True
        )
        self._supervisor.budget.stepped(worker)
        finals, episodes = self._conclude(endings, self._ended_rows(worker))
        if finals is not None:
            self._finals[worker] = finals
        self._concluded += episodes
        over = [env for env, _ in endings]
        self._episodes.idle.update(over)
        self._begin_abandoned()
        for env in over:
            self._open(env)
        if over:
            self._ask(self._begin_job, worker, over)
        else:
            self._arrived.append(worker)
        return endings

    def _ended_rows(self, worker: int) -> NDArray[np.bool_]:
        """Return which rows ended in the step under way, all of them of this worker."""
        ended = np.zeros(self.rows, np.bool_)
        for env in self._shares[worker]:
            rows = self._ledger.rows(env)
            ended[rows] = self._slots.terminated[rows] | self._slots.truncated[rows]
        return ended

    def _find_fault(self) -> SlotFault | None:
        for worker in self._fresh:
            if (fault := self._guards[worker].fault()) is not None:
                return replace(fault, row=fault.row + self._shares[worker][0] * self._spec.rows)
        return None

    def _arrivals(self) -> Arrivals:
        """Return what came of the last actions of the workers that are ready."""
        workers, self._arrived = sorted(self._arrived), []
        envs = [env for worker in workers for env in self._shares[worker]]
        finals = [self._finals.pop(worker) for worker in workers if worker in self._finals]
        episodes = tuple(sorted(self._concluded, key=lambda episode: episode.env))
        self._concluded = []
        step = Step(self._slots, _joined(finals), episodes, self._losses.take_events())
        rows = np.arange(self.rows).reshape(self._count, -1)[envs].ravel()
        return Arrivals(rows, step)

    def _rebase_if_due(self) -> None:
        """Take snapshots now and then, when no worker is busy."""
        self._since_rebase += 1
        is_due = self._since_rebase >= REBASE_TICKS and not self._asked
        if self._spec.tier is Tier.SNAPSHOT and is_due:
            self._since_rebase = 0
            self._rebase(self._snapshots())

    def _refuse_to_interrupt(self, what: str) -> None:
        if self._asked:
            raise EnvError(
                f"{self._spec.id}: {what}() while actions are pending; call gather() first"
            )

    def state_dict(self) -> State:
        """Return everything needed to continue; no actions may be pending."""
        self._refuse_to_interrupt("state_dict")
        return super().state_dict()


def _joined(finals: Sequence[Finals]) -> Finals | None:
    if not finals:
        return None
    names = finals[0].obs
    return Finals(
        np.concatenate([one.rows for one in finals]),
        {name: np.concatenate([one.obs[name] for one in finals]) for name in names},
    )

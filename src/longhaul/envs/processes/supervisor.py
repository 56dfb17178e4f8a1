"""Running jobs on workers that may fail: replace, restore, retry, abandon."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from longhaul.core.errors import EnvError
from longhaul.envs.config import ProcessesConfig
from longhaul.envs.faults import AbandonedEpisode, Fault, FaultKind, Listeners
from longhaul.envs.guard import with_trace
from longhaul.envs.processes.fleet import Fleet, Stuck
from longhaul.envs.processes.limits import RestartBudget, StrikeBook
from longhaul.envs.processes.messages import (
    CLOSE_FAILED,
    Answer,
    Kind,
    Order,
    Raised,
    WorkerLoss,
    WorkerStage,
)
from longhaul.envs.processes.repro import RunningEpisodes

Todo = dict[int, list[int]]
"""The envs still to be served, by worker."""


@dataclass(frozen=True, slots=True)
class WorkerJob:
    """Something to be done once with each of some envs."""

    stage: WorkerStage  # what it is for the envs
    order: Callable[
        [Sequence[int], Collection[int]], Order
    ]  # for these envs, of which some are made again
    accept: Callable[[Sequence[int], Answer], None]  # takes over what was done with these envs


@dataclass(slots=True)
class JobOutcome:
    """Episodes and envs that a job lost."""

    given_up: dict[int, AbandonedEpisode] = field(default_factory=dict)
    retired: dict[int, str] = field(default_factory=dict)  # envs without a worker, and why


class Supervisor:
    """Keeps workers alive and episodes exact."""

    # The states of a worker and of an env, and the method that makes each transition:
    #
    #   worker   alive --lost--> dead --restart--> alive      _on_worker_death, _start
    #                            dead --no budget--> retired  _may_restart
    #   env      ready --raised--> broken --replay--> ready   _count_raised, _restore
    #            ready | broken --> given up                  _give_up
    #
    # An episode is given up after too many failures of its seed (strikes), if its numbers are
    # invalid, or if its replay is impossible or differs. `settle` repeats until all work is done:
    # send the order, accept what was done (_judge), repair what failed (_revive), order the rest.

    def __init__(
        self,
        fleet: Fleet,
        episodes: RunningEpisodes,
        shares: Mapping[int, tuple[int, ...]],
        config: ProcessesConfig,
        listeners: Listeners,
    ) -> None:
        self._fleet = fleet
        self._episodes = episodes
        self._shares = dict(shares)
        self._worker_of = {env: worker for worker, envs in shares.items() for env in envs}
        self._listeners = listeners
        self._env_id = episodes.env_id
        self._strikes = StrikeBook(config.seed_strikes)
        self._broken: set[int] = set()  # envs whose simulator must be made again
        self._retired: set[int] = set()  # workers
        self._last_loss: dict[int, WorkerLoss] = {}
        self.budget = RestartBudget(config, fleet.system.monotonic)
        fleet.on_mark = self._take_mark
        fleet.on_stuck = self._report_stuck

    @property
    def workers(self) -> list[int]:
        """The workers that are not retired."""
        return [worker for worker in self._shares if worker not in self._retired]

    def start(self) -> None:
        """Start all workers; raise if their environments cannot be made."""
        outcome = JobOutcome()
        self._start(self.workers, outcome)
        self._revive(outcome)
        if outcome.retired:
            raise EnvError(f"{self._env_id}: {next(iter(outcome.retired.values()))}")

    def run_job(self, job: WorkerJob, envs: Sequence[int]) -> JobOutcome:
        """Do the job with each of these envs, or abandon those with which it fails."""
        todo: Todo = {}
        for env in envs:
            todo.setdefault(self._worker_of[env], []).append(env)
        results = self._fleet.exchange(
            {worker: job.order(asked, self._broken) for worker, asked in todo.items()}
        )
        return self.settle(job, todo, results)

    def post(self, job: WorkerJob, worker: int, envs: Sequence[int]) -> None:
        """Order the job from one worker without waiting; its answer is the fleet's to collect."""
        self._fleet.post(worker, job.order(envs, self._broken))

    def settle(
        self, job: WorkerJob, todo: Todo, results: Mapping[int, Answer | WorkerLoss]
    ) -> JobOutcome:
        """Continue from these first results until the job is done."""
        outcome = JobOutcome()
        while True:
            todo = self._judge(job, todo, results, outcome)
            # From here every worker is alive or retired, every episode restored or given up.
            self._revive(outcome)
            gone = outcome.given_up.keys() | outcome.retired.keys()
            left = {
                worker: [env for env in envs if env not in gone] for worker, envs in todo.items()
            }
            todo = {worker: envs for worker, envs in left.items() if envs}
            if not todo:
                return outcome
            results = self._fleet.exchange(
                {worker: job.order(envs, self._broken) for worker, envs in todo.items()}
            )

    def renew(self, worker: int, why: str) -> JobOutcome:
        """Replace a worker process that works correctly."""
        outcome = JobOutcome()
        self._notify(self._fault("leaked", worker, WorkerStage.IDLE, why))
        self._fleet.dismiss(worker)
        if not self._episodes.can_replay:
            self._give_up_all(worker, AbandonedEpisode(-1, "leaked", "idle", why), outcome)
        self._start([worker], outcome)
        self._revive(outcome)
        return outcome

    def bring_back(self, envs: Sequence[int]) -> JobOutcome:
        """Replay the episodes of these envs in live workers, up to now."""
        outcome = JobOutcome()
        self._restore({self._worker_of[env] for env in envs}, envs, outcome)
        self._revive(outcome)
        return outcome

    def forget(self, env: int) -> None:
        """Forget the failures of an env's episode, which is over."""
        self._strikes.forget(env)

    def _judge(
        self,
        job: WorkerJob,
        todo: Todo,
        results: Mapping[int, Answer | WorkerLoss],
        outcome: JobOutcome,
    ) -> Todo:
        """Accept what was done, count what failed; return what is still to be done."""
        left: Todo = {}
        for worker, envs in todo.items():
            result = results[worker]
            if isinstance(result, WorkerLoss):
                self._on_worker_death(result, outcome)
                left[worker] = envs
                continue
            raised = {one.env: one for one in result.raised}
            if -1 in raised:
                raise with_trace(f"{self._env_id}: {raised[-1].error}", raised[-1].traceback)
            done = [env for env in envs if env not in raised]
            self._broken -= set(done)
            job.accept(done, result)
            for failure in result.raised:
                self._count_raised(failure, job.stage, outcome)
            left[worker] = list(raised)
        return left

    def _on_worker_death(self, loss: WorkerLoss, outcome: JobOutcome) -> None:
        """Record a lost worker; episodes that cannot be restored are abandoned."""
        if self._last_loss.get(loss.worker) is loss:
            return
        self._last_loss[loss.worker] = loss
        blamed = (
            loss.env
            if loss.stage in (WorkerStage.RESET, WorkerStage.STEP, WorkerStage.REPLAY)
            else None
        )
        fault = self._fault(loss.kind, loss.worker, loss.stage, loss.error, env=blamed)
        self._notify(
            replace(fault, pid=loss.pid, traceback=loss.traceback, seconds=loss.seconds or None)
        )
        stage = loss.stage.name.lower()
        if not self._episodes.can_replay:
            self._give_up_all(
                loss.worker, AbandonedEpisode(-1, loss.kind, stage, loss.error), outcome
            )
        if blamed is None or blamed in outcome.given_up:
            return
        # A playback repeats steps that succeeded before: its position says nothing.
        step = -1 if loss.stage is WorkerStage.REPLAY else self._episodes.steps(blamed)
        if self._strikes.strike(blamed, self._episodes.seed(blamed), stage, step):
            self._give_up(
                AbandonedEpisode(blamed, loss.kind, stage, loss.error, quarantined=True), outcome
            )

    def _count_raised(self, failure: Raised, stage: WorkerStage, outcome: JobOutcome) -> None:
        env, name = failure.env, stage.name.lower()
        kind: FaultKind = "unusable" if failure.unusable else "raised"
        fault = self._fault(kind, self._worker_of[env], stage, failure.error, env=env)
        self._notify(replace(fault, traceback=failure.traceback))
        self._broken.add(env)
        given_up = AbandonedEpisode(env, kind, name, failure.error, failure.traceback)
        if failure.unusable:
            self._give_up(given_up, outcome)
            return
        is_running = env not in self._episodes.idle
        step = self._episodes.steps(env)
        is_out = self._strikes.strike(env, self._episodes.seed(env), name, step)
        if is_out or (is_running and not self._episodes.can_replay):
            self._give_up(
                AbandonedEpisode(
                    env, kind, name, failure.error, failure.traceback, quarantined=is_out
                ),
                outcome,
            )

    def _give_up(self, given_up: AbandonedEpisode, outcome: JobOutcome) -> None:
        env = given_up.env
        in_step = env not in self._episodes.idle
        outcome.given_up[env] = replace(given_up, in_step=in_step)

    def _give_up_all(self, worker: int, like: AbandonedEpisode, outcome: JobOutcome) -> None:
        """Abandon the running episodes of a worker."""
        for env in self._shares[worker]:
            if env not in self._episodes.idle and env not in outcome.given_up:
                self._give_up(replace(like, env=env), outcome)

    def _revive(self, outcome: JobOutcome) -> None:
        """Restore every dead worker and every broken env."""
        while True:
            dead = [worker for worker in self.workers if not self._fleet.is_alive(worker)]
            # Dead workers first: a new process replays all of its episodes, broken ones included.
            if dead:
                began = self._fleet.system.monotonic()
                self._start([w for w in dead if self._may_restart(w, outcome)], outcome)
                for worker in dead:
                    if self._fleet.is_alive(worker):
                        seconds = round(self._fleet.system.monotonic() - began, 3)
                        words = "another process took its place"
                        fault = self._fault("replaced", worker, WorkerStage.IDLE, words)
                        self._notify(replace(fault, seconds=seconds))
                continue
            broken = [
                env
                for env in self._broken
                if env not in self._episodes.idle and env not in outcome.given_up
            ]
            if not broken:
                return
            self._restore({self._worker_of[env] for env in broken}, broken, outcome)

    def _may_restart(self, worker: int, outcome: JobOutcome) -> bool:
        why = self.budget.spend(worker)
        if not why:
            return True
        self._retired.add(worker)
        loss = self._last_loss.get(worker)
        last = "" if loss is None else f" (last: {loss.kind} in {loss.stage.name.lower()})"
        for env in self._shares[worker]:
            outcome.retired[env] = f"worker {worker} is given up: {why}{last}"
        self._notify(self._fault("retired", worker, WorkerStage.IDLE, why + last))
        return False

    def _start(self, workers: Sequence[int], outcome: JobOutcome) -> None:
        """Start workers and restore their episodes."""
        ready = []
        for worker, result in self._fleet.start(workers).items():
            self._broken -= set(self._shares[worker])
            if isinstance(result, WorkerLoss):
                self._on_worker_death(result, outcome)
                if result.stage in (WorkerStage.BOOT, WorkerStage.IMPORT, WorkerStage.CONSTRUCT):
                    self._count_construct_failure(worker, f"{result.kind}: {result.error}", "")
            elif result.raised:
                failure = result.raised[0]
                fault = self._fault("raised", worker, WorkerStage.CONSTRUCT, failure.error)
                self._fleet.dismiss(worker)
                self._notify(replace(fault, traceback=failure.traceback))
                self._count_construct_failure(worker, failure.error, failure.traceback)
            else:
                self.budget.constructed(worker)
                ready.append(worker)
        self._restore(ready, None, outcome)

    def _count_construct_failure(self, worker: int, error: str, traceback: str) -> None:
        if not self.budget.construct_failed(worker):
            words = f"{self._env_id}: the environment cannot be made in a worker process: {error}"
            raise with_trace(words, traceback)

    def _restore(
        self, workers: Collection[int], chosen: Sequence[int] | None, outcome: JobOutcome
    ) -> None:
        """Play the episodes of these workers' envs, or of the chosen ones, and check them."""
        orders = {}
        for worker in workers:
            wanted = self._shares[worker] if chosen is None else chosen
            envs = [
                env
                for env in self._shares[worker]
                if env in wanted and env not in self._episodes.idle and env not in outcome.given_up
            ]
            if envs:
                playbacks = [
                    self._episodes.playback(env, fresh=env in self._broken) for env in envs
                ]
                orders[worker] = Order(Kind.RESTORE, playbacks)
                self._broken -= set(envs)
        for result in self._fleet.exchange(orders).values():
            if isinstance(result, WorkerLoss):
                self._on_worker_death(result, outcome)
                continue
            for played in result.played:
                if problem := self._episodes.problem(played):
                    self._distrust(played.env, problem, "", outcome)
            for failure in result.raised:
                self._broken.add(failure.env)
                self._distrust(failure.env, f"raised {failure.error}", failure.traceback, outcome)

    def _distrust(self, env: int, problem: str, traceback: str, outcome: JobOutcome) -> None:
        error = f"playing the episode's seed and actions again {problem}"
        fault = self._fault(
            "not_reproducible", self._worker_of[env], WorkerStage.REPLAY, error, env=env
        )
        self._notify(replace(fault, traceback=traceback))
        self._give_up(
            AbandonedEpisode(env, "not_reproducible", "replay", error, traceback), outcome
        )

    def _take_mark(self, mark: dict[str, Any]) -> None:
        """Pass on a mark of a worker; an env that raised in its close is reported as a fault."""
        self._listeners.on_mark(mark)
        what, failed, error = str(mark["stage"]).partition(CLOSE_FAILED)
        if failed and not what:
            fault = self._fault("raised", mark["worker"], WorkerStage.CLOSE, error, env=mark["env"])
            self._notify(fault)

    def _report_stuck(self, stuck: Stuck) -> None:
        fault = self._fault("stuck", stuck.worker, stuck.stage, "gives no answer", env=stuck.env)
        self._notify(replace(fault, seconds=stuck.seconds))

    def _fault(
        self,
        kind: FaultKind,
        worker: int,
        stage: WorkerStage,
        error: str,
        *,
        env: int | None = None,
    ) -> Fault:
        fault = Fault(
            kind, worker, self._fleet.pid(worker), stage.name.lower(), error, self._env_id
        )
        if env is None:
            return fault
        episodes = self._episodes
        return replace(
            fault,
            env=env,
            seed=episodes.seed(env),
            step=episodes.step_number(env),
            last_actions=episodes.last_actions(env),
        )

    def _notify(self, fault: Fault) -> None:
        self._listeners.on_fault(fault)

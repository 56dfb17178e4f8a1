"""All worker processes: sending orders, waiting for answers, detecting dead and hung workers."""

from __future__ import annotations

import math
import multiprocessing.spawn
import pickle
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal

from longhaul.core.env import SingleEnvs, WorkerState
from longhaul.core.errors import ConfigError, LonghaulError
from longhaul.envs.config import ProcessesConfig
from longhaul.envs.processes.descendants import Guard, new_mark
from longhaul.envs.processes.limits import Deadlines
from longhaul.envs.processes.mailbox import COUNT, ENV, POSITION, STAGE, WORDS, Mailbox
from longhaul.envs.processes.messages import (
    SLICE_SECONDS,
    Answer,
    ChannelClosedError,
    Hello,
    Kind,
    Order,
    WorkerLoss,
    WorkerStage,
)
from longhaul.envs.processes.process import WORKER_SYSTEM, WorkerProcess, WorkerSystem

STEP_ALL = Order(Kind.STEP)
STUCK_SHARE = 0.5  # of the deadline, after which a silent worker is named


@dataclass(slots=True)
class _Silence:
    """Since when a worker has shown no progress."""

    count: int
    seconds: float = 0.0
    named: bool = False


@dataclass(frozen=True, slots=True)
class Stuck:
    """A worker that is late but not yet abandoned."""

    worker: int
    pid: int
    stage: WorkerStage
    env: int | None
    seconds: float


@dataclass(frozen=True, slots=True)
class _Wait:
    """The workers waited for, their results so far, and how long each has been silent."""

    asked: list[WorkerProcess]
    results: dict[int, Answer | WorkerLoss]
    at_most: float
    silences: dict[int, _Silence] = field(default_factory=dict)

    def waiting(self) -> list[WorkerProcess]:
        """Return the workers that have not answered."""
        return [process for process in self.asked if process.worker not in self.results]


class Fleet:
    """Workers by number; each holds a fixed share of the environments."""

    def __init__(
        self, source: SingleEnvs, mailbox: Mailbox, shares: Mapping[int, tuple[int, ...]],
        config: ProcessesConfig, *, count: int, system: WorkerSystem = WORKER_SYSTEM,
    ) -> None:  # fmt: skip
        self.system = system
        self._mailbox = mailbox
        self._config = config
        self._deadlines = Deadlines(config)
        self._shares = dict(shares)
        self._words = {worker: mailbox.words(worker) for worker in shares}
        self._processes: dict[int, WorkerProcess] = {}
        self._losses: dict[int, WorkerLoss] = {}
        self._posted: dict[int, _Silence] = {}  # workers with an order that is not waited for
        self._looked = 0.0
        self._generation = 0
        self._spec = source.spec
        self._count = count
        self._factory, self._main = _packed_factory(source)
        self._mark = new_mark()
        self._guard: Guard | None = None
        # Workers die with the thread that starts them, so this thread lives as long as the fleet.
        self._starter = ThreadPoolExecutor(1, thread_name_prefix="start-workers")
        self.output: Path | None = None  # the folder for what workers print
        self.on_mark: Callable[[dict[str, Any]], None] = lambda mark: None
        self.on_stuck: Callable[[Stuck], None] = lambda stuck: None

    def pid(self, worker: int) -> int:
        """Return the number of a worker's process, 0 if it has none."""
        process = self._processes.get(worker)
        return 0 if process is None else process.pid

    def is_alive(self, worker: int) -> bool:
        """Whether a worker has a process that is believed to live."""
        return worker in self._processes

    def states(self) -> tuple[WorkerState, ...]:
        """Return what each living worker is doing; safe to ask from another thread."""
        found = []
        for worker, process in list(self._processes.items()):
            stage, env = self._doing(worker)
            signs = int(self._words[worker][COUNT])
            found.append(WorkerState(worker, process.pid, stage.name.lower(), env, signs))
        return tuple(found)

    def stack(self, worker: int) -> str:
        """Return where a worker is in its program; safe to ask from another thread."""
        process = self._processes.get(worker)
        return "" if process is None else process.stack()

    def start(self, workers: Collection[int]) -> dict[int, Answer | WorkerLoss]:
        """Start processes and have them make their environments; all at once."""
        orders = {}
        if self._guard is None and workers:
            self._guard = self.system.guard(self._mark)
        for worker in workers:
            assert worker not in self._processes
            words = self._words[worker]
            self._deadlines.remember(words)
            for index in range(WORDS):
                words[index] = 0
            self._generation += 1
            self._processes[worker] = self._starter.submit(
                partial(
                    self.system.start, worker, self._generation, self._mailbox.descriptor,
                    output=self.output, mark=f"{self._mark}:{self._generation}",
                )
            ).result()  # fmt: skip
            hello = Hello(
                worker, self._spec, self._count, len(self._shares), self._shares[worker],
                self._factory, self._main,
            )  # fmt: skip
            orders[worker] = Order(Kind.HELLO, hello)
        return self.exchange(orders)

    def exchange(
        self, orders: Mapping[int, Order], *, at_most: float = math.inf
    ) -> dict[int, Answer | WorkerLoss]:
        """Send each worker its order, then wait for all; a lost worker is gone when this returns.

        Answers are read in turn, without polling: each costs one system call.
        """
        results: dict[int, Answer | WorkerLoss] = {}
        asked = []
        for worker, order in orders.items():
            process = self._processes.get(worker)
            if process is None:
                results[worker] = self._losses[worker]
                continue
            try:
                process.channel.order(order.kind, _packed(order.payload))
                asked.append(process)
            except ChannelClosedError:
                results[worker] = self._end_worker(process, "died", 0.0)
        wait = _Wait(asked, results, at_most)
        for process in asked:
            while process.worker not in results:
                if not self._receive(process, results):
                    self._look(wait)
        return results

    def post(self, worker: int, order: Order) -> None:
        """Give one worker an order without waiting; `collect` brings the answer."""
        if not self._posted:
            self._looked = self.system.monotonic()
        self._posted[worker] = _Silence(self._words[worker][COUNT])
        process = self._processes.get(worker)
        if process is not None:
            # A worker that is gone is found out when its answer is collected.
            with suppress(ChannelClosedError):
                process.channel.order(order.kind, _packed(order.payload))

    def collect(self) -> dict[int, Answer | WorkerLoss]:
        """Wait until any worker answers what was posted; return all that is there.

        At most one of them is a loss, so each is recovered before the next is returned.
        """
        results: dict[int, Answer | WorkerLoss] = {}
        while not results and self._posted:
            is_whole = True
            for process in self._posted_and_ready():
                self._receive(process, results)
                if isinstance(results.get(process.worker), WorkerLoss):
                    is_whole = False
                    break
            if is_whole and self.system.monotonic() - self._looked >= SLICE_SECONDS:
                self._look_at_posted(results)
        for worker in results:
            del self._posted[worker]
        return results

    def _posted_and_ready(self) -> list[WorkerProcess]:
        """Wait for at most a slice of time; return the workers that sent something or are gone."""
        speakers = {self._processes[one].channel.descriptor: one for one in self._posted}
        ready = self.system.ready(speakers, SLICE_SECONDS)
        return [self._processes[speakers[descriptor]] for descriptor in ready]

    def _look_at_posted(self, results: dict[int, Answer | WorkerLoss]) -> None:
        """Look at silent workers one slice of time after the last look, however long it was."""
        self._looked = self.system.monotonic()
        for worker in list(self._posted):
            if worker in results:
                continue
            silences = {worker: self._posted[worker]}
            self._look(_Wait([self._processes[worker]], results, math.inf, silences))
            self._posted[worker] = silences[worker]
            if isinstance(results.get(worker), WorkerLoss):
                return

    def step_all(self, workers: Collection[int]) -> dict[int, Answer | WorkerLoss]:
        """Step every environment of these workers; the common case."""
        return self.exchange(dict.fromkeys(workers, STEP_ALL))

    def _receive(self, process: WorkerProcess, results: dict[int, Answer | WorkerLoss]) -> bool:
        """Take in one message; return whether there was any."""
        try:
            received = process.channel.receive()
        except ChannelClosedError:
            results[process.worker] = self._end_worker(process, "died", 0.0)
            return True
        if received is None:
            return False
        if isinstance(received, Answer):
            results[process.worker] = received
        else:
            self.on_mark(received)
        return True

    def _look(self, wait: _Wait) -> None:
        """Look at the workers still waited for; kill those that are past their deadline.

        Silence is counted in slices actually waited, so a trainer that was stopped for an hour does
        not take its workers for hung.
        """
        fleet = [self._words[worker] for worker in self._processes]
        for process in wait.waiting():
            words = self._words[process.worker]
            silence = wait.silences.setdefault(process.worker, _Silence(words[COUNT]))
            while process.worker not in wait.results and self._has_spoken(process):
                self._receive(process, wait.results)
            if process.worker in wait.results:
                continue
            if process.popen.poll() is not None:
                # Its child processes may hold its end of the channel open.
                wait.results[process.worker] = self._end_worker(process, "died", 0.0)
                continue
            if words[COUNT] != silence.count:
                wait.silences[process.worker] = _Silence(words[COUNT])
                continue
            silence.seconds += SLICE_SECONDS
            deadline = self._deadlines.seconds(WorkerStage(words[STAGE]), words, fleet)
            deadline = min(deadline, wait.at_most)
            if silence.seconds > deadline:
                wait.results[process.worker] = self._end_worker(process, "hung", silence.seconds)
            elif silence.seconds > deadline * STUCK_SHARE and not silence.named:
                silence.named = True
                stage, env = self._doing(process.worker)
                self.on_stuck(Stuck(process.worker, process.pid, stage, env, silence.seconds))

    def _has_spoken(self, process: WorkerProcess) -> bool:
        return bool(self.system.ready([process.channel.descriptor], 0.0))

    def _doing(self, worker: int) -> tuple[WorkerStage, int | None]:
        words = self._words[worker]
        env = int(words[ENV])
        return WorkerStage(words[STAGE]), env if env >= 0 else None

    def _end_worker(
        self, process: WorkerProcess, kind: Literal["died", "hung"], seconds: float
    ) -> WorkerLoss:
        """Kill a worker if necessary, and return what it was doing."""
        # Read first: the signal that requests the stack may wake a sleeping worker.
        stage, env = self._doing(process.worker)
        position = int(self._words[process.worker][POSITION])
        if kind == "hung":
            with suppress(OSError):
                process.leave_note()
        del self._processes[process.worker]
        ended = process.kill()
        process.end_leftovers()
        # Without the time, which differs between runs: this text is written to events.jsonl.
        error = "gave no answer in time" if kind == "hung" else f"its process {ended}"
        if stage is WorkerStage.BOOT:
            env = None
        loss = WorkerLoss(
            kind, process.worker, process.pid, stage, env, position, error,
            process.crash_note(), seconds,
        )  # fmt: skip
        self._losses[process.worker] = loss
        return loss

    def dismiss(self, worker: int) -> None:
        """End one worker that works correctly."""
        process = self._processes.get(worker)
        if process is None:
            return
        limit = self._config.close_seconds
        result = self.exchange({worker: Order(Kind.CLOSE)}, at_most=limit)[worker]
        if isinstance(result, Answer):
            del self._processes[worker]
            process.kill()
            process.end_leftovers()
            process.crash_note()

    def close(self) -> None:
        """Ask all workers to close, then kill them."""
        orders = {worker: Order(Kind.CLOSE) for worker in self._processes}
        try:
            with suppress(LonghaulError):
                self.exchange(orders, at_most=self._config.close_seconds)
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Kill all remaining workers."""
        for worker in list(self._processes):
            process = self._processes.pop(worker)
            process.kill()
            process.crash_note()
        if self._guard is not None:
            self._guard.close()
            self._guard = None
        self._starter.shutdown(wait=True)


def _packed(payload: Any) -> bytes:
    return b"" if payload is None else pickle.dumps(payload, pickle.HIGHEST_PROTOCOL)


def _packed_factory(source: SingleEnvs) -> tuple[bytes, dict[str, Any] | None]:
    """Return the factory as bytes, and how to import the main module if it comes from there."""
    try:
        factory = pickle.dumps(source.make, pickle.HIGHEST_PROTOCOL)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise ConfigError(
            f"env.runtime = 'processes': the factory of {source.spec.id} cannot be pickled "
            f"({error}); use a function or class at the top level of a module"
        ) from error
    if b"__main__" not in factory:
        return factory, None
    return factory, multiprocessing.spawn.get_preparation_data("longhaul-worker")

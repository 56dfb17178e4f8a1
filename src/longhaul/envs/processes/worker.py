"""A worker process: it makes environments and executes the trainer's orders."""

from __future__ import annotations

import importlib
import pickle
import socket
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from longhaul.core.env import Array, Ending, Env, empty_actions
from longhaul.core.errors import EnvError
from longhaul.core.settings import Settings
from longhaul.core.spaces import EnvSpec
from longhaul.envs.guard import LONGEST_TRACE, bounded, trace_of, words_of
from longhaul.envs.processes.isolated import FAILURES
from longhaul.envs.processes.mailbox import (
    BUCKETS,
    CONSTRUCT_TIMES,
    COUNT,
    ENV,
    POSITION,
    RESET_TIMES,
    STAGE,
    STEP_TIMES,
    Mailbox,
)
from longhaul.envs.processes.messages import (
    CLOSE_FAILED,
    HEADER,
    Answer,
    Beginning,
    ChannelClosedError,
    EpisodeReplay,
    Hello,
    Kind,
    Raised,
    ReplayedEpisode,
    WorkerStage,
    receive_exactly,
    send_message,
)
from longhaul.envs.processes.process import leave_signals_to_the_trainer, mark
from longhaul.envs.replay_log import observation_digest
from longhaul.envs.starts import begin_episode


def serve(line: socket.socket, memory: int, generation: int) -> None:
    """Execute orders until the trainer closes the worker or is gone."""
    envs: WorkerEnvs | None = None
    while True:
        try:
            sequence, for_generation, kind, size = HEADER.unpack(receive_exactly(line, HEADER.size))
            payload: Any = pickle.loads(receive_exactly(line, size)) if size else None
        except ChannelClosedError:
            return
        if for_generation != generation:
            continue
        if kind == Kind.HELLO:
            envs = WorkerEnvs(line, memory, generation, payload)
            answer: Answer | None = envs.open()
        else:
            assert envs is not None
            answer = envs.execute(Kind(kind), payload)
        words = b"" if answer is None else _packed(answer)
        if not _is_sent(line, sequence, generation, words) or kind == Kind.CLOSE:
            return


def _packed(answer: Answer) -> bytes:
    try:
        return pickle.dumps(answer, pickle.HIGHEST_PROTOCOL)
    except FAILURES as error:  # a snapshot of an env may hold anything
        return pickle.dumps(Answer(raised=(described(-1, error),)))


def _is_sent(line: socket.socket, sequence: int, generation: int, words: bytes) -> bool:
    try:
        send_message(line, sequence, generation, Kind.ANSWER, words)
    except OSError:
        return False
    return True


class WorkerEnvs:
    """The environments of one worker, and the progress counters in shared memory."""

    def __init__(self, line: socket.socket, memory: int, generation: int, hello: Hello) -> None:
        self._line = line
        self._generation = generation
        self._hello = hello
        self._mailbox = Mailbox(memory, hello.spec, count=hello.count, workers=hello.workers)
        self._words = self._mailbox.words(hello.worker)
        self._times = self._mailbox.step_times()
        self._count = 0
        self._envs: dict[int, Env] = {}
        self._configured: dict[int, Settings] = {}
        self._begun: set[int] = set()
        self._steps: list[tuple[int, Callable[[Array], Ending | None], Array]] = []
        self._make: Callable[[], Env]

    def open(self) -> Answer:
        """Import the factory and make all environments."""
        self._enter(WorkerStage.IMPORT)
        try:
            if self._hello.main is not None:
                importlib.import_module("multiprocessing.spawn").prepare(self._hello.main)
            self._make = pickle.loads(self._hello.factory)
        except FAILURES as error:
            return Answer(raised=(described(-1, error),))
        finally:
            # A library may have taken over the signals while it was imported.
            leave_signals_to_the_trainer()
        self._mark("import_done")
        raised = []
        for env in self._hello.envs:
            try:
                self._construct(env)
            except FAILURES as error:
                raised.append(described(env, error))
                break
        self._enter(WorkerStage.IDLE)
        return Answer(raised=tuple(raised))

    def execute(self, kind: Kind, payload: object) -> Answer | None:
        """Execute one order; None stands for an empty answer."""
        match kind, payload:
            case Kind.STEP, _:
                return self._step(payload if isinstance(payload, tuple) else None)
            case Kind.BEGIN, list():
                return self._begin(payload)
            case Kind.RESTORE, list():
                return self._restore(payload)
            case Kind.SNAPSHOT, tuple():
                return self._snapshot(payload)
            case Kind.FRAME, int():
                return self._frame(payload)
            case _:
                self._close()
                return None

    def _step(self, chosen: tuple[int, ...] | None) -> Answer | None:
        """Step all environments, or the chosen ones, with the actions in the mailbox."""
        words, clock, times = self._words, time.perf_counter_ns, self._times
        endings, raised = [], []
        steps = self._steps
        if chosen is not None:
            steps = [one for one in steps if one[0] in chosen]
        count = self._count
        before = clock()
        words[STAGE] = WorkerStage.STEP
        for env, step, actions in steps:
            words[ENV] = env
            words[COUNT] = count = count + 1
            try:
                ending = step(actions)
                if ending is not None:
                    endings.append((env, bounded(ending)))
            except FAILURES as error:
                raised.append(described(env, error))
            now = clock()
            took = now - before
            words[STEP_TIMES + took.bit_length()] += 1
            times[2 * env] += took
            times[2 * env + 1] += 1
            before = now
        self._count = count
        words[STAGE] = WorkerStage.IDLE
        if endings or raised:
            return Answer(endings=tuple(endings), raised=tuple(raised))
        return None

    def _begin(self, beginnings: Sequence[Beginning]) -> Answer | None:
        raised = []
        for beginning in beginnings:
            try:
                self._begin_one(beginning)
            except FAILURES as error:
                raised.append(described(beginning.env, error))
        self._enter(WorkerStage.IDLE)
        return Answer(raised=tuple(raised)) if raised else None

    def _begin_one(self, beginning: Beginning) -> None:
        env = beginning.env
        if beginning.fresh and env in self._envs:
            self._discard(env)
        if env not in self._envs:
            self._construct(env)
        is_first = env not in self._begun
        if is_first:
            self._mark("reset_start", env)
        self._enter(WorkerStage.RESET, env)
        before = time.perf_counter_ns()
        settings = beginning.settings
        if settings is not None and settings != self._configured.get(env):
            self._envs[env].configure(settings)
            self._configured[env] = settings
        begin_episode(self._envs[env], beginning.seed, beginning.start)
        self._time(RESET_TIMES, before)
        if is_first:
            self._begun.add(env)
            self._mark("reset_done", env)

    def _restore(self, playbacks: Sequence[EpisodeReplay]) -> Answer:
        played, raised = [], []
        for playback in playbacks:
            try:
                played.append(self._play(playback))
            except FAILURES as error:
                raised.append(described(playback.beginning.env, error))
        self._enter(WorkerStage.IDLE)
        return Answer(played=tuple(played), raised=tuple(raised))

    def _play(self, playback: EpisodeReplay) -> ReplayedEpisode:
        """Replay one episode; return the digest of its observation and its returns."""
        env = playback.beginning.env
        rows = self._hello.spec.rows
        place = slice(env * rows, (env + 1) * rows)
        self._words[POSITION] = 0
        self._begin_one(playback.beginning)
        simulator = self._envs[env]
        self._enter(WorkerStage.REPLAY, env)
        if playback.base is not None:
            simulator.restore(playback.base)
        reward = self._mailbox.slots.reward[place]
        returns = np.zeros(rows, np.float64)
        over_at = None
        # Not through the mailbox, which holds the actions of the next step.
        for position, action in enumerate(playback.actions.astype(self._mailbox.actions.dtype)):
            self._words[POSITION] = position
            self._words[COUNT] = self._count = self._count + 1
            ending = simulator.step(action)
            returns += reward
            if ending is not None:
                over_at = position + 1
                break
        digest = observation_digest(self._mailbox.slots, place)
        return ReplayedEpisode(env, digest, returns, over_at)

    def _snapshot(self, envs: tuple[int, ...]) -> Answer:
        snapshots = {}
        for env in envs:
            self._enter(WorkerStage.SNAPSHOT, env)
            try:
                snapshots[env] = self._envs[env].snapshot()
            except FAILURES as error:
                return Answer(raised=(described(env, error),))
        self._enter(WorkerStage.IDLE)
        return Answer(returned=snapshots)

    def _frame(self, env: int) -> Answer:
        self._enter(WorkerStage.FRAME, env)
        try:
            picture = self._envs[env].frame()
        except FAILURES as error:
            return Answer(raised=(described(env, error),))
        finally:
            self._enter(WorkerStage.IDLE)
        return Answer(returned=picture)

    def _close(self) -> None:
        for env in list(self._envs):
            self._mark("close_start", env)
            self._discard(env)
            self._mark("close_done", env)

    def _discard(self, env: int) -> None:
        """Close an environment; an exception in its close is reported."""
        self._enter(WorkerStage.CLOSE, env)
        simulator = self._envs.pop(env)
        self._configured.pop(env, None)
        self._steps = [one for one in self._steps if one[0] != env]
        try:
            simulator.close()
        except FAILURES as error:
            self._mark(f"{CLOSE_FAILED}{described(env, error).error}", env)

    def _construct(self, env: int) -> None:
        self._mark("construct_start", env)
        self._enter(WorkerStage.CONSTRUCT, env)
        before = time.perf_counter_ns()
        simulator = self._make()
        promised = self._hello.spec
        if _arrays(simulator.spec) != _arrays(promised):
            raise EnvError(
                f"the environment made in this worker has {simulator.spec.in_words()}, "
                f"the first one had {promised.in_words()}; every one must be the same"
            )
        rows = promised.rows
        place = slice(env * rows, (env + 1) * rows)
        simulator.bind(self._mailbox.slots.view(place.start, place.stop))
        self._envs[env] = simulator
        self._steps = sorted(
            [*self._steps, (env, simulator.step, self._mailbox.actions[place])],
            key=lambda one: one[0],
        )
        self._time(CONSTRUCT_TIMES, before)
        self._mark("construct_done", env)

    def _enter(self, stage: WorkerStage, env: int = -1) -> None:
        self._words[ENV] = env
        self._words[COUNT] = self._count = self._count + 1
        self._words[STAGE] = stage

    def _time(self, times: int, before: int) -> None:
        took = (time.perf_counter_ns() - before).bit_length()
        self._words[times + min(took, BUCKETS - 1)] += 1

    def _mark(self, stage: str, env: int | None = None) -> None:
        mark(self._line, self._generation, self._hello.worker, stage, env)


def _arrays(spec: EnvSpec) -> tuple[object, ...]:
    """Return what decides the arrays an env reads and writes."""
    actions = empty_actions(spec, spec.rows)
    parts = dict(spec.observation)
    names = spec.terms, spec.measures
    return parts, spec.rows, spec.has_masks, names, actions.shape, actions.dtype


def described(env: int, error: BaseException) -> Raised:
    """Return an exception as text that fits into a log."""
    unusable = isinstance(error, EnvError)
    words = str(error) if unusable else words_of(error)
    return Raised(env, words[:LONGEST_TRACE], trace_of(error), unusable)

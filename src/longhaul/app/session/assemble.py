"""Assembling the parts of a run, each complete when it is made."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from longhaul.app.artifacts.films import EvaluationFilms
from longhaul.app.artifacts.records import TaskRecords
from longhaul.app.artifacts.report import keep_panels
from longhaul.app.build.components import (
    CollectorMonitor,
    build_collector,
    build_evaluator,
    build_learner,
    build_policy,
    build_replay,
    build_schedule,
    build_settings,
    check_task,
    checkpoint_config,
    identity,
)
from longhaul.app.build.config import RunConfig
from longhaul.app.build.faults import FaultLog
from longhaul.app.build.hints import build_hints
from longhaul.app.build.memory import check_disk_room
from longhaul.app.build.metrics import schema_file, unmeasured_metrics
from longhaul.app.build.text import last_line, notify_if_slow
from longhaul.app.evaluation.agent import Agent, load_exported
from longhaul.app.evaluation.load import Run, find_weights
from longhaul.app.evaluation.zoo import policy_path
from longhaul.app.session.display import Display
from longhaul.app.session.monitoring import TimeLeft
from longhaul.app.session.session import Session, keep_config
from longhaul.app.session.teaching import find_lessons
from longhaul.app.session.tracking import Tracking, begin_tracking
from longhaul.cluster.config import launched_rank
from longhaul.core.control import Progress
from longhaul.core.errors import ConfigError
from longhaul.core.hint import Hint
from longhaul.core.parts import RunListener
from longhaul.core.policy import Policy
from longhaul.core.settings import Settings
from longhaul.core.spaces import Tier
from longhaul.core.state import Stateful
from longhaul.engine.hint_reporter import HintReporter
from longhaul.engine.listeners import ListenerGroup
from longhaul.engine.loop import Parts
from longhaul.engine.summary import Summary
from longhaul.envs.replay_log import resume_promise
from longhaul.learn.backend import NATIVE, TORCH, Backends, compile_ahead, find_backends
from longhaul.runs.checkpoints.manifest import Stamp
from longhaul.runs.checkpoints.store import CheckpointStore
from longhaul.runs.directory import RunDirectory
from longhaul.runs.lock import installed_versions
from longhaul.runs.logs.jsonl import WriteNote, write_schema
from longhaul.runs.reader import read_checkpoints
from longhaul.runs.recorder import ACTING, BACKEND, DEVICE, FALLBACK, Recorder, Restoration


def load_initial_weights(
    config: RunConfig, run: RunDirectory, notify: Callable[[str], None], policy: Policy
) -> None:
    """Load the weights that `start_from` names, unless the run has checkpoints itself.

    A resumed run does not need them, and they may have been deleted since.
    """
    if not config.start_from or read_checkpoints(run):
        return
    place = policy_path(config.start_from)
    loaded = find_weights(place, f"start_from = {config.start_from!r}")
    try:
        policy.load_state_dict(
            load_exported(place).policy.state_dict()
            if loaded is None
            else loaded.states["learner"]["policy"]
        )
    except (LookupError, RuntimeError, TypeError) as error:
        raise ConfigError(
            f"start_from = {config.start_from!r}: its network has a different architecture "
            f"({last_line(error)}); use the same task options and the same [policy], or leave "
            "start_from empty"
        ) from error
    notify(f"starting with the weights of {place if loaded is None else loaded.path}")


COMPILING_LEARNER = "compiling the learner, once on this machine; it takes half a minute at most"
TIER = "tier"
"""Fact of a stamp: how exactly the environments' state is restored."""
NOT_DETERMINISTIC = (
    "env.order = 'first-come': this run is not deterministic; which environments act together "
    "depends on timing, so a resumed run is statistically the same but not bit for bit"
)


@dataclass(frozen=True, slots=True)
class BuiltRun:
    """The parts of a run, ready to train."""

    parts: Parts
    settings: Settings
    """The settings of a new run's first iteration."""
    tracking: Tracking
    training: ExitStack
    """Closes what only training needs: environments and following learners."""


def assemble(session: Session, given: Sequence[RunListener] = ()) -> BuiltRun:
    """Return the parts of the session's run, with its listeners and those that were given."""
    config, notify = session.run.config, session.display.notice
    monitoring, note = session.monitoring, session.log.note
    keep_config(session.run)
    session.sample_resources()
    task = check_task(config, session.run.task, notify, begun_tier(session.run.directory))
    session.run = run = Run(session.run.directory, config=config, task=task)  # the checked task
    if config.env.order == "first-come":
        notify(NOT_DETERMINISTIC)
    initial = build_settings(config, task)
    schedule = build_schedule(config, task, initial)
    policy = build_policy(config, task, session.device)
    load_initial_weights(config, run.directory, notify, policy)
    summary = Summary(task.summarize, task.summarize_steps, window=config.collect.window)
    replay = build_replay(config, task, notify, monitoring.timer)
    training = session.stack.enter_context(ExitStack())
    lessons, backends = find_lessons(config, task), choose_backends(run, policy, notify)
    learner = build_learner(config, policy, replay, backends.learning, training, lessons)
    faults = FaultLog(run.directory.crash, notify, monitoring.workers, note)
    monitor = CollectorMonitor(faults.listeners, note, monitoring.signal)
    collector = build_collector(config, task, policy, monitor, backends.acting)
    training.callback(collector.close)
    monitoring.timer.add_gauge(collector.timings)
    hints = HintReporter(
        build_hints(config, task, str(session.device)), session.display.hint, HintLog(note)
    )
    evaluator = build_evaluator(config, task, policy, faults.listeners)
    stateful: dict[str, Stateful] = {
        "collector": collector,
        "learner": learner,
        "schedule": schedule,
        "summary": summary,
        "hints": hints,
    }
    users = ListenerGroup(given, writers=schedule.writers, notify=notify)
    if given:
        stateful["listeners"] = users
    if replay is not None:
        # A separate part, because it may be many times as large as all others.
        stateful["replay"] = replay
    recorder = build_recorder(session, stateful, backends)
    keep_panels(run.directory, task, initial)
    tracking = begin_tracking(run, policy, monitoring.clocks)
    session.stack.callback(recorder.close)
    session.stack.callback(tracking.finish, note, notify)
    warnings = (*session.fallback, *unmeasured_metrics(schedule, task), *task.warnings)
    listeners = [*session_listeners(session), hints, users]
    if config.report.film_evaluations:
        agent = Agent(config, task, policy, initial)
        listeners.append(EvaluationFilms(run, agent, evaluator, notify, tracking.film))
    announcement = Announcement(recorder, run, session.display, tracking, warnings)
    for listener in (*listeners, *tracking.listeners, announcement):
        recorder.add_listener(listener)
    show(session, recorder)
    parts = Parts(
        collector, learner, summary, evaluator, schedule, recorder, monitoring.timer, hints, users
    )
    return BuiltRun(parts, schedule.begin(initial)[0], tracking, training)


def begun_facts(directory: RunDirectory) -> Mapping[str, str] | None:
    """Return the facts of the newest readable checkpoint, if there is one."""
    manifests = [entry.manifest for entry in read_checkpoints(directory) if entry.manifest]
    return manifests[0].facts if manifests else None


def begun_tier(directory: RunDirectory) -> Tier | None:
    """Return the tier that the run was begun with, if it has a checkpoint."""
    tier = (begun_facts(directory) or {}).get(TIER)
    return Tier(tier) if tier in {known.value for known in Tier} else None


def begun_backends(directory: RunDirectory) -> Backends | None:
    """Return the backends that the run was begun with, if it has a checkpoint."""
    facts = begun_facts(directory)
    if facts is None:
        return None
    # Runs that say nothing are older than native updates, or than native acting.
    return Backends(facts.get(BACKEND, TORCH), facts.get(ACTING, TORCH))


def choose_backends(run: Run, policy: Policy, notify: Callable[[str], None]) -> Backends:
    """Return what computes the run's policy, compiled."""
    learners, begun = launched_rank().size, begun_backends(run.directory)
    backends = find_backends(policy, run.config.learn, learners=learners, begun=begun)
    if NATIVE in (backends.learning, backends.acting):
        with notify_if_slow(notify, COMPILING_LEARNER):
            compile_ahead()
    return backends


def build_recorder(
    session: Session, stateful: Mapping[str, Stateful], backends: Backends
) -> Recorder:
    """Return the recorder, which writes logs and checkpoints of the stateful parts."""
    run, config, task = session.run, session.run.config, session.run.task
    facts = {
        TIER: task.envs.spec.tier.value,
        "order": config.env.order,
        DEVICE: str(session.device),
        BACKEND: backends.learning,
        ACTING: backends.acting,
    }
    if session.fallback:
        facts[FALLBACK] = "; ".join(session.fallback)
    stamp = Stamp(identity=identity(config), versions=installed_versions(), facts=facts)
    kept = checkpoint_config(config, task)
    clocks = session.monitoring.clocks
    check_disk_room(run.path, config, task)
    write_schema(run.directory, schema_file(task))
    return Recorder(
        run.directory,
        stateful,
        CheckpointStore(run.directory.checkpoints, kept, stamp, clocks),
        session.lock,
        session.log,
        rotate_bytes=round(config.log.rotate_megabytes * 2**20),
    )


def session_listeners(session: Session) -> list[RunListener]:
    """Return the listeners that every run has: display, monitoring, time left, task records."""
    run, monitoring = session.run, session.monitoring
    time_left = TimeLeft(run.config.length)
    monitoring.timer.add_gauge(time_left.take)
    listeners: list[RunListener] = [session.display, monitoring, time_left]
    if run.task.records is not None:
        listeners.append(TaskRecords(run.directory, run.config, run.task, monitoring.clocks))
    return listeners


def show(session: Session, recorder: Recorder) -> None:
    """Open the display, let signals request checkpoints, and start watching for stalls."""
    run = session.run
    session.monitoring.guard(session.stack, session.log.note)
    session.signals.on_checkpoint = recorder.request
    session.stack.callback(session.display.close)
    session.display.open(
        f"{run.config.task}  {run.path}",
        length=run.config.length,
        score=run.task.evaluation.metric,
    )


@dataclass(frozen=True, slots=True)
class HintLog:
    """Writes hints to sessions.jsonl."""

    note: WriteNote

    def __call__(self, progress: Progress, hint: Hint) -> None:
        """Write one row."""
        row = hint.as_row()
        event = row.pop("event")
        self.note(event, iteration=progress.iteration, env_steps=progress.env_steps, **row)


class Announcement(RunListener):
    """Reports the restored checkpoint and all warnings when training begins."""

    def __init__(
        self,
        recorder: Recorder,
        run: Run,
        display: Display,
        tracking: Tracking,
        warnings: Sequence[str],
    ) -> None:
        self._recorder = recorder
        self._run = run
        self._display = display
        self._tracking = tracking
        self._warnings = warnings

    def begin(self, progress: Progress) -> None:
        """Report the restoration, check the trackers, and show warnings."""
        found = self._recorder.restoration
        show_restoration(found, self._run.task.envs.spec.tier, self._display)
        self._tracking.check(self._display.notice, is_new=found.checkpoint is None)
        for warning in self._warnings:
            self._display.notice(warning)


def show_restoration(found: Restoration, tier: Tier, display: Display) -> None:
    """Show which checkpoint the run continues from, and which ones are damaged."""
    for damage in found.damaged:
        display.notice(f"checkpoint {damage.path.name} is damaged ({damage.reason}); left as it is")
    for problem in found.problems:
        display.notice(f"{problem.path.name} did not match the checkpoint: {problem.reason}")
    for part in found.left_out:
        display.notice(f"this run was trained with {part}; without them it is another run")
    if found.checkpoint is not None:
        display.notice(f"continuing from {found.checkpoint.name}: {resume_promise(tier)}")

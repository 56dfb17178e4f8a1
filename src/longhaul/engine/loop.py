"""The training loop: every step of a run, in order, on one screen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from longhaul.core.control import Progress, View
from longhaul.core.parts import Collector, Evaluator, Event, LearnerProtocol
from longhaul.core.settings import Settings
from longhaul.engine.hint_reporter import HintReporter
from longhaul.engine.listeners import ListenerGroup
from longhaul.engine.summary import StageTimer, Summary
from longhaul.runs.recorder import Recorder
from longhaul.schedule.schedule import Schedule


@dataclass(frozen=True, slots=True)
class Parts:
    """What the loop turns; new behavior enters through one of these."""

    collector: Collector
    learner: LearnerProtocol
    summary: Summary
    evaluator: Evaluator
    schedule: Schedule
    recorder: Recorder
    watch: StageTimer
    hints: HintReporter = field(default_factory=HintReporter)
    listeners: ListenerGroup = field(default_factory=ListenerGroup)


def train(parts: Parts, settings: Settings, until: Callable[[Progress], str | None]) -> str:
    """Collect, learn, measure, steer, record; return the reason for stopping."""
    progress, settings = parts.recorder.restore(settings)
    while (reason := until(progress)) is None:
        with parts.watch.stage("collect"):
            rollout = parts.collector.collect(settings)
        with parts.watch.stage("learn"):
            learned = parts.learner.update(rollout, settings)
        progress = progress.after(rollout)
        metrics = {**parts.summary.of(rollout, progress), **learned}
        if parts.evaluator.due(progress):
            with parts.watch.stage("evaluate"):
                metrics |= parts.evaluator.measure(progress, settings)
        view = View(progress, metrics, settings)
        settings, changes = parts.schedule.step(view)
        view = replace(view, metrics={**metrics, **parts.schedule.metrics})
        view, settings, steered = parts.listeners.step(view, settings)
        happened: list[Event] = [*rollout.events, *parts.evaluator.take_notes(), *changes, *steered]
        happened += parts.hints.of(view)
        parts.recorder.record(view, happened, rollout.episodes, parts.watch.lap(rollout))
        if parts.recorder.due(progress):
            with parts.watch.stage("checkpoint"):
                parts.recorder.checkpoint(progress, settings)
        else:
            parts.recorder.keep(progress, settings)
    parts.recorder.checkpoint(progress, settings)
    return reason

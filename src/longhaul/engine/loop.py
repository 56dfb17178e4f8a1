"""The training loop: every step of a run, in order, on one screen; when it ends, and its hints."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from longhaul.core.control import Progress, View
from longhaul.core.hint import Hint
from longhaul.core.parts import Collector, Evaluator, Event, LearnerProtocol, Recorded, RunListener
from longhaul.core.settings import Settings
from longhaul.core.state import State
from longhaul.engine.summary import StageTimer, Summary
from longhaul.hints.advisor import Hints
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
    hints: HintReporter = field(default_factory=lambda: HintReporter())


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
        happened: list[Event] = [*rollout.events, *parts.evaluator.take_notes(), *changes]
        happened += parts.hints.of(view)
        parts.recorder.record(view, happened, rollout.episodes, parts.watch.lap(rollout))
        if parts.recorder.due(progress):
            with parts.watch.stage("checkpoint"):
                parts.recorder.checkpoint(progress, settings)
    parts.recorder.checkpoint(progress, settings)
    return reason


Until = Callable[[Progress], str | None]

FINISHED = "total_timesteps reached"
FINISHED_ITERATIONS = "total_iterations reached"
DONE = frozenset({FINISHED, FINISHED_ITERATIONS})
"""Reasons for which a run has come to its end and was not merely stopped."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a session ended."""

    reason: str
    exit_code: int

    @property
    def is_finished(self) -> bool:
        """Whether the run came to its end."""
        return self.reason in DONE


def after_steps(total: int) -> Until:
    """Stop once `total` steps were taken."""
    return lambda progress: FINISHED if progress.env_steps >= total else None


def after_iterations(total: int) -> Until:
    """Stop once `total` iterations were made."""
    return lambda progress: f"{total} iterations made" if progress.iteration >= total else None


def at_the_end(*, steps: int, iterations: int) -> Until:
    """Stop after this many iterations, or after this many steps if `iterations` is 0."""
    if not iterations:
        return after_steps(steps)
    return lambda progress: FINISHED_ITERATIONS if progress.iteration >= iterations else None


def first_of(*conditions: Until) -> Until:
    """Stop for the first reason any condition gives."""

    def until(progress: Progress) -> str | None:
        return next(filter(None, (condition(progress) for condition in conditions)), None)

    return until


Report = Callable[[Progress, Hint], None]


def report_nowhere(progress: Progress, hint: Hint) -> None:
    """Show nothing; the hint is still logged."""


class HintReporter(RunListener):
    """Consults the rules once an iteration; a part of the checkpoint.

    The loop asks `of` for hints without a clock, which go into the events. Rules with a clock see
    the timings, as a listener of the run. Their hints depend on this process and machine, so they
    go into the sessions: the events of two runs of one config are the same byte for byte.
    """

    def __init__(
        self,
        hints: Hints | None = None,
        show: Report = report_nowhere,
        note: Report = report_nowhere,
    ) -> None:
        self._hints = hints or Hints((), {})
        self._show = show
        self._note = note

    def of(self, view: View) -> tuple[Hint, ...]:
        """Return this iteration's hints, for the run's events."""
        said = self._hints.take(view.progress, view.metrics)
        for hint in said:
            self._show(view.progress, hint)
        return said

    def iteration(self, recorded: Recorded) -> None:
        """Show and log the hints of rules with a clock."""
        for hint in self._hints.take_timed(recorded.progress, recorded.values):
            self._show(recorded.progress, hint)
            self._note(recorded.progress, hint)

    def state_dict(self) -> State:
        """Return what the rules remember."""
        return self._hints.state_dict()

    def load_state_dict(self, state: State) -> None:
        """Go on where the saved rules stood."""
        self._hints.load_state_dict(state)

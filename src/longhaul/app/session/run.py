"""The main path of a session: set up, train, evaluate, report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from longhaul.app.artifacts.report import Artifacts
from longhaul.app.build.config import RunConfig, SessionOptions
from longhaul.app.evaluation.evaluate import Evaluated, EvaluationRequest, evaluate_run
from longhaul.app.evaluation.suites import SuiteReport
from longhaul.app.session.assemble import BuiltRun, assemble
from longhaul.app.session.session import Session
from longhaul.core.control import Progress
from longhaul.core.metrics import Metrics
from longhaul.core.parts import RunListener
from longhaul.core.task import Task
from longhaul.engine.loop import train
from longhaul.engine.stop import Outcome, Until, first_of, is_end
from longhaul.runs.directory import RunDirectory, Status
from longhaul.runs.score import Score, Source, write_final_score

FINAL_EVALUATION = "final evaluation"


@dataclass(frozen=True, slots=True)
class Measured:
    """The result of the final evaluation."""

    found: Evaluated | SuiteReport
    score: Score

    @property
    def metrics(self) -> Metrics:
        """The metrics of the episodes that the score comes from."""
        if isinstance(self.found, SuiteReport):
            return self.found.results[0].metrics
        return self.found.metrics


def measure_final(session: Session, progress: Progress) -> Measured | None:
    """Evaluate the latest checkpoint, or the best one if a suite selected it; None if disabled."""
    run, monitoring = session.run, session.monitoring
    evaluate = run.config.evaluate
    if evaluate.final_episodes == 0:
        return None
    picks = run.task.evaluation.suite is not None and evaluate.every_iterations > 0
    # Checkpoints are selected on a different suite, so selection does not bias the result.
    request = EvaluationRequest(
        checkpoint="best" if picks else "latest", episodes=evaluate.final_episodes
    )

    def look(done: int, total: int) -> None:
        session.signals.check()
        monitoring.advance(f"{FINAL_EVALUATION}: {done} of {total} episodes")
        session.display.advance(FINAL_EVALUATION, done, total)

    with monitoring.timer.stage(FINAL_EVALUATION):
        found = evaluate_run(run, request, look)
    score = score_of(found, progress)
    write_final_score(run.directory, score)
    return Measured(found, score)


def score_of(found: Evaluated | SuiteReport, progress: Progress) -> Score:
    """Return the score of an evaluation; for a task with suites, that of its first suite."""
    if isinstance(found, Evaluated):
        metric, suite, played = "eval/mean_reward", "", found.episodes
        value, interval = found.mean, found.interval
    else:
        first = found.results[0]
        metric, suite, played = found.score, first.suite, first.episodes
        value, interval = first.metrics[metric], first.intervals.get(metric)
    low, high = interval or (None, None)
    return Score(
        value=value,
        metric=metric,
        source=Source.FINAL,
        env_steps=progress.env_steps,
        low=low,
        high=high,
        episodes=len(played),
        target=found.solved,
        checkpoint=found.checkpoint,
        suite=suite,
    )


def run_session(
    directory: RunDirectory,
    config: RunConfig,
    options: SessionOptions,
    *,
    task: Task | None = None,
    listeners: Sequence[RunListener] = (),
    also_until: Until | None = None,
) -> Outcome:
    """Train the run to its end, with evaluation and report, or until it is stopped."""
    with Session(directory, config, options, task) as session:
        with session.stage("set-up"):
            built = assemble(session, listeners)
        with built.training, session.recording_failures(built.parts.recorder.rescue):
            until = first_of(
                session.until(also_until), lambda progress: built.parts.listeners.stop_reason
            )
            reason = train(built.parts, built.settings, until)
            session.reason = reason
            if not is_end(reason):
                session.log.finish(Status.STOPPED, reason)
        if is_end(reason):
            conclude(session, built)
    return session.outcome


def conclude(session: Session, built: BuiltRun) -> None:
    """Evaluate and film a trained run, and write its report.

    The run is marked finished before its report is written, because the report shows the status.
    """
    recorder, display, timer = built.parts.recorder, session.display, session.monitoring.timer
    wants_report = session.options.report and session.run.config.report.at_end
    artifacts = Artifacts(session.run, display.notice, session.log.note)
    with session.stage(f"the {FINAL_EVALUATION}"):
        measured = measure_final(session, recorder.saved)
        if measured is not None:
            built.tracking.conclude(recorder.saved, measured.metrics)
        display.close()
        if measured is not None:
            display.notice(measured.found.as_text())
    if wants_report:
        with session.stage("the films"), timer.stage("films"):
            artifacts.write_media("" if measured is None else measured.found.checkpoint)
    session.log.finish(Status.FINISHED, session.reason)
    built.tracking.finish(session.log.note, display.notice)
    recorder.close_listeners()
    if wants_report:
        with session.stage("the report"), timer.stage("report"):
            artifacts.write_report()

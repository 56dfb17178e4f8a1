"""The main path of a run: set up, train, evaluate, report."""

from __future__ import annotations

from dataclasses import dataclass

from longhaul.app.artifacts.report import Artifacts
from longhaul.app.build.config import RunConfig
from longhaul.app.evaluation.evaluate import Evaluated, EvaluationRequest, evaluate_run
from longhaul.app.evaluation.suites import SuiteReport
from longhaul.app.session.assemble import BuiltRun, assemble
from longhaul.app.session.options import SessionOptions
from longhaul.app.session.session import Session
from longhaul.core.control import Progress
from longhaul.core.metrics import Metrics
from longhaul.core.task import Task
from longhaul.engine.loop import train
from longhaul.engine.stop import DONE, Outcome, Until
from longhaul.runs.directory import RunDirectory, Status
from longhaul.runs.score import Score, Source, write_final_score

FINAL_EVALUATION = "final evaluation"


@dataclass(frozen=True, slots=True)
class Measured:
    """What the final evaluation found."""

    found: Evaluated | SuiteReport
    score: Score

    @property
    def metrics(self) -> Metrics:
        """The figures of the episodes the score is taken from."""
        if isinstance(self.found, SuiteReport):
            return self.found.results[0].metrics
        return self.found.metrics


def measure_final(session: Session, progress: Progress) -> Measured | None:
    """Measure what was saved last, or the best where a suite picked it; None if not wanted."""
    run, monitoring = session.run, session.monitoring
    evaluate = run.config.evaluate
    if evaluate.final_episodes == 0:
        return None
    picks = run.task.evaluation.suite is not None and evaluate.every_iterations > 0
    # What is reported are other suites than the one that picked, so that picking gains nothing.
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
    """Return the one figure of an evaluation: of a task with suites, that of its first."""
    if isinstance(found, Evaluated):
        low, high = found.interval or (None, None)
        return Score(
            value=found.mean,
            metric="eval/mean_reward",
            source=Source.FINAL,
            env_steps=progress.env_steps,
            low=low,
            high=high,
            episodes=len(found.episodes),
            target=found.solved,
            checkpoint=found.checkpoint,
        )
    first = found.results[0]
    low, high = first.intervals.get(found.score, (None, None))
    return Score(
        value=first.metrics[found.score],
        metric=found.score,
        source=Source.FINAL,
        env_steps=progress.env_steps,
        low=low,
        high=high,
        episodes=len(first.episodes),
        target=found.solved,
        checkpoint=found.checkpoint,
        suite=first.suite,
    )


def run_session(
    directory: RunDirectory,
    config: RunConfig,
    options: SessionOptions,
    *,
    task: Task | None = None,
    also_until: Until | None = None,
) -> Outcome:
    """Take the run to its end, report included, or until it is stopped."""
    with Session(directory, config, options, task) as session:
        with session.stage("set-up"):
            built = assemble(session)
        with built.training, session.written_down():
            reason = train(built.parts, built.settings, session.until(also_until))
            session.reason = reason
            if reason not in DONE:
                session.log.finish(Status.STOPPED, reason)
        if reason in DONE:
            conclude(session, built)
    return session.outcome


def conclude(session: Session, built: BuiltRun) -> None:
    """Measure and film a run that is trained, and write its report.

    It counts as finished before its report is written, which says so.
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

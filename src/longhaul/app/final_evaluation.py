"""The evaluation that ends a run: a stage like any other, watched, shown and interruptible."""

from __future__ import annotations

from dataclasses import dataclass

from longhaul.app.assemble import build_task
from longhaul.app.config import RunConfig
from longhaul.app.display import Display
from longhaul.app.evaluate import Evaluated, EvaluationRequest, evaluate_run
from longhaul.app.suite_report import SuiteReport
from longhaul.app.vigil import Vigil
from longhaul.core.metrics import Metrics
from longhaul.core.progress import Progress
from longhaul.runs.directory import RunDirectory
from longhaul.runs.score import Score, Source, write_final_score
from longhaul.runs.signals import SignalRequests

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


@dataclass(frozen=True, slots=True)
class FinalEvaluation:
    """Plays the episodes that a run is judged by."""

    run: RunDirectory
    config: RunConfig
    progress: Progress
    """How far training has come."""

    def measure(self, vigil: Vigil, signals: SignalRequests, display: Display) -> Measured | None:
        """Measure what was saved last, or the best where a suite picked it; None if not wanted."""
        evaluate = self.config.evaluate
        if evaluate.final_episodes == 0:
            return None
        picks = build_task(self.config).evaluation.suite is not None
        picks = picks and evaluate.every_iterations > 0
        # What is reported are other suites than the one that picked, so that picking gains nothing.
        request = EvaluationRequest(
            checkpoint="best" if picks else "latest", episodes=evaluate.final_episodes
        )

        def look(done: int, total: int) -> None:
            signals.check()
            vigil.advance(f"{FINAL_EVALUATION}: {done} of {total} episodes")
            display.advance(FINAL_EVALUATION, done, total)

        with vigil.watch.stage(FINAL_EVALUATION):
            found = evaluate_run(self.run.path, request, look)
        score = score_of(found, self.progress)
        write_final_score(self.run, score)
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

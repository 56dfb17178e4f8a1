"""Films made while a run trains: the worst episodes of every evaluation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from longhaul.app.assemble import Assembled
from longhaul.app.cases import PlayedCase, choose, seeded_cases, suite_cases
from longhaul.app.config import RunConfig
from longhaul.app.trained import Trained
from longhaul.app.watch import FRAMES_PER_SECOND, Reel, caption
from longhaul.core.errors import LonghaulError
from longhaul.core.metrics import Metrics
from longhaul.core.progress import Progress
from longhaul.engine.evaluator import EpisodeEvaluator
from longhaul.engine.suite_evaluator import SuiteEvaluator
from longhaul.report.film import encode
from longhaul.runs.directory import RunDirectory
from longhaul.runs.films import keep_film_note, training_film


class Rushes:
    """Films evaluations as they are made; a sink, so that its failures end nothing."""

    def __init__(
        self,
        run: RunDirectory,
        config: RunConfig,
        assembled: Assembled,
        tell: Callable[[str], None],
        shown: Callable[[Progress, int, Path], None] = lambda progress, rank, film: None,
    ) -> None:
        self._run = run
        self._config = config
        self._assembled = assembled
        self._tell = tell
        self._shown = shown
        self._failed = False

    def write(self, progress: Progress, metrics: Metrics) -> None:
        """Film after an iteration that was measured; give up after the first failure."""
        if self._failed or "eval/mean_reward" not in metrics:
            return
        made = self._assembled
        trained = Trained(self._config, made.task, made.policy, made.settings, "", progress)
        try:
            cases = self._cases(trained)
            worst = choose(cases, "worst", self._config.report.film_evaluations)
            for rank, case in enumerate(worst, start=1):
                film = self._run.media / training_film(progress, rank, case.episode.seed)
                reel = Reel(trained, case, {})
                encode(reel.frames(), film, frames_per_second=FRAMES_PER_SECOND)
                keep_film_note(self._run, film, caption(case, "worst", rank, trained, len(cases)))
                self._shown(progress, rank, film)
        except LonghaulError as error:
            self._failed = True
            self._tell(f"no films of evaluations: {error}")

    def _cases(self, trained: Trained) -> Sequence[PlayedCase]:
        evaluator = self._assembled.evaluator
        if isinstance(evaluator, SuiteEvaluator):
            return suite_cases(trained, evaluator.last_suite, evaluator.last)
        assert isinstance(evaluator, EpisodeEvaluator), "there are two kinds of evaluators"
        return seeded_cases(trained, evaluator.last)

    def close(self) -> None:
        """Nothing is open between two films."""

"""Films made while a run trains: the same episode at every evaluation."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice

from longhaul.app.cases import PlayedCase
from longhaul.app.config import RunConfig
from longhaul.app.trained import Trained
from longhaul.app.watch import FRAMES_PER_SECOND, MOST_FRAMES, Reel
from longhaul.core.env import Episode
from longhaul.core.errors import LonghaulError
from longhaul.core.metrics import Metrics
from longhaul.core.policy import Policy
from longhaul.core.progress import Progress
from longhaul.core.seeds import Seeds
from longhaul.core.settings import Settings
from longhaul.core.task import Task
from longhaul.engine.replay import Scenario
from longhaul.report.film import encode
from longhaul.runs.directory import RunDirectory


class Rushes:
    """Films the first episode of each evaluation; a sink, so that its failures end nothing."""

    def __init__(
        self,
        run: RunDirectory,
        trained: Callable[[Progress], Trained],
        case: PlayedCase,
        tell: Callable[[str], None],
    ) -> None:
        self._run = run
        self._trained = trained
        self._case = case
        self._tell = tell
        self._failed = False

    def write(self, progress: Progress, metrics: Metrics) -> None:
        """Film after an iteration that was measured; give up after the first failure."""
        if self._failed or "eval/mean_reward" not in metrics:
            return
        reel = Reel(self._trained(progress), self._case, {})
        path = self._run.media / f"evaluation-{progress.iteration:06d}.mp4"
        try:
            encode(islice(reel.frames(), MOST_FRAMES), path, frames_per_second=FRAMES_PER_SECOND)
        except LonghaulError as error:
            self._failed = True
            self._tell(f"no films of evaluations: {error}")

    def close(self) -> None:
        """Nothing is open between two films."""


def make_rushes(
    run: RunDirectory,
    config: RunConfig,
    parts: tuple[Task, Policy, Settings],
    tell: Callable[[str], None],
) -> Rushes:
    """Return the sink that films a run's evaluations."""
    task, policy, settings = parts

    def trained(progress: Progress) -> Trained:
        return Trained(config, task, policy, settings, "", progress)

    return Rushes(run, trained, first_case(config, task), tell)


def first_case(config: RunConfig, task: Task) -> PlayedCase:
    """Return the first episode of the evaluation during training, as it is before it is played."""
    evaluate = config.evaluate
    seed, start, envs = Seeds(evaluate.seed).integer("case", 0), None, task.envs
    if task.evaluation.suite is not None:
        suite = task.evaluation.suite(evaluate.suite or task.evaluation.during)
        seed, start, envs = suite.cases[0].seed, suite.cases[0].start, suite.envs
    draws = None if evaluate.greedy else Seeds(evaluate.seed).integer("actions", 0)
    episode = Episode(0, 0, seed, length=0, episode_return=0.0, reason="")
    return PlayedCase(0, episode, 0.0, Scenario(seed, start, draws=draws), envs)

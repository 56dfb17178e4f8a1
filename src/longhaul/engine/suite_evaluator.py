"""Measuring a policy on the suites its task brings."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from longhaul.core.env import BatchedEnvs, EnvSource, Episode, VectorEnv
from longhaul.core.errors import ConfigError
from longhaul.core.metrics import Metrics
from longhaul.core.parts import Note
from longhaul.core.policy import Policy
from longhaul.core.progress import Progress
from longhaul.core.seeds import EpisodeSeeds, ListedSeeds, Seeds
from longhaul.core.settings import Settings
from longhaul.core.suite import Case, Suite
from longhaul.core.task import Evaluation
from longhaul.engine.config import EvaluateConfig
from longhaul.engine.evaluator import CaseDraws, figures, play
from longhaul.engine.stop import Until
from longhaul.envs.starts import STARTS, STARTS_LIMIT

MakeSuiteEnv = Callable[[EnvSource, EpisodeSeeds, int], VectorEnv]

EVALUATED = "evaluated"


@dataclass(frozen=True, slots=True)
class EvaluationNote:
    """An evaluation, as a row for the run's events."""

    suite: str
    record: dict[str, Any] = field(default_factory=dict)

    def as_row(self) -> dict[str, Any]:
        """Return plain values."""
        return {"event": EVALUATED, "suite": self.suite, **self.record}


def suite_figures(suite: Suite, episodes: Sequence[Episode]) -> Metrics:
    """Return the figures every evaluation has, and the suite's own."""
    return {**figures(episodes), **suite.figures(episodes)}


class SuiteEvaluator:
    """Plays the same cases whenever it is asked, or other ones each time if they rotate."""

    def __init__(
        self,
        make_env: MakeSuiteEnv,
        policy: Policy,
        config: EvaluateConfig,
        evaluation: Evaluation,
        *,
        until: Until,
    ) -> None:
        if evaluation.suite is None:
            raise ConfigError("evaluate.suite: the task brings no suites of its own")
        self._find = evaluation.suite
        self._make_env = make_env
        self._policy = policy
        self._config = config
        self._name = config.suite or evaluation.during
        self._until = until
        self._notes: list[EvaluationNote] = []
        self.last: tuple[Episode, ...] = ()  # what was played in the last measurement
        self.last_suite = ""

    def due(self, progress: Progress) -> bool:
        """Whether this iteration is one of every so many, or the last of the run."""
        every = self._config.every_iterations
        is_last = self._until(progress) is not None
        return every > 0 and (is_last or progress.iteration % every == 0)

    def measure(self, progress: Progress, settings: Settings) -> Metrics:
        """Return the figures of the present policy."""
        name = f"{self._name}-{progress.iteration}" if self._config.rotate else self._name
        suite = self._find(name)
        episodes = self.episodes(suite, settings)
        self.last, self.last_suite = episodes, suite.name
        self._notes.append(EvaluationNote(suite.name, suite.record(episodes)))
        return suite_figures(suite, episodes)

    def take_notes(self) -> Sequence[Note]:
        """Return what the suites want kept of the evaluations since the last call."""
        notes, self._notes = self._notes, []
        return notes

    def episodes(self, suite: Suite, settings: Settings) -> tuple[Episode, ...]:
        """Return one episode per case of the suite, in their order."""
        waves = enumerate(self._waves(suite))
        return tuple(
            episode
            for number, wave in waves
            for episode in self._play(suite.envs, wave, settings, number)
        )

    def _waves(self, suite: Suite) -> Iterator[tuple[Case, ...]]:
        """Yield the cases that are played side by side: all of them where that costs nothing."""
        most = len(suite.cases) if isinstance(suite.envs, BatchedEnvs) else self._config.num_envs
        for begin in range(0, len(suite.cases), most):
            yield suite.cases[begin : begin + most]

    def _play(
        self, source: EnvSource, wave: tuple[Case, ...], settings: Settings, number: int
    ) -> tuple[Episode, ...]:
        # One env per case: starts are dealt in the order of the envs, so that each gets its own.
        starts = tuple(case.start for case in wave if case.start is not None)
        if starts and len(starts) < len(wave):
            raise ConfigError("either all cases of a suite have a start or none has")
        offered = (STARTS.to(starts), STARTS_LIMIT.to(0))
        settings = settings.with_(one for one in offered if one.name in settings)
        cases = ListedSeeds(tuple(case.seed for case in wave), len(wave))
        env = self._make_env(source, cases, len(wave))
        draws = None
        if not self._config.greedy:
            seeds = Seeds(Seeds(self._config.seed).integer("wave", number))
            device = next(self._policy.parameters()).device
            draws = CaseDraws(seeds, cases, rows=source.spec.rows, device=device)
        try:
            return play(env, self._policy, settings, cases=cases, draws=draws)
        finally:
            env.close()

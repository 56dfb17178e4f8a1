"""Measuring a policy on the suites of its task."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from longhaul.core.control import Progress
from longhaul.core.env import BatchedEnvs, EnvSource, Episode, VectorEnv
from longhaul.core.errors import ConfigError
from longhaul.core.evaluation import Case, Suite
from longhaul.core.metrics import Metrics
from longhaul.core.parts import Event
from longhaul.core.policy import Policy
from longhaul.core.seeds import EpisodeSeeds, ListedSeeds, Seeds
from longhaul.core.settings import Settings
from longhaul.core.task import Evaluation
from longhaul.engine.config import EvaluateConfig
from longhaul.engine.evaluator import OnProgress, as_part, figures, ignore_progress, play_once
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


@dataclass(frozen=True, slots=True)
class Wave:
    """Cases that are played by the same envs, each env one after the other."""

    number: int
    first: int
    """The place of the wave's first case in its suite."""
    cases: tuple[Case, ...]
    envs: int

    def draws(self, seed: int) -> Seeds:
        """Return the seeds of the wave's drawn actions."""
        return Seeds(Seeds(seed).integer("wave", self.number))


def waves(suite: Suite, most: int) -> tuple[Wave, ...]:
    """Return how the cases of a suite are dealt to at most so many envs, or to batched ones.

    Envs whose cases have starts play one case each: starts are dealt in the order of the envs.
    Others go on with the next case and do not wait for the longest episode.
    """
    cases = suite.cases
    with_start = sum(case.start is not None for case in cases)
    if with_start and with_start < len(cases):
        raise ConfigError("either all cases of a suite have a start or none has")
    if isinstance(suite.envs, BatchedEnvs):
        most = len(cases)
    if not with_start:
        return (Wave(0, 0, cases, min(most, len(cases))),)
    parts = [cases[begin : begin + most] for begin in range(0, len(cases), most)]
    return tuple(Wave(turn, turn * most, part, len(part)) for turn, part in enumerate(parts))


class SuiteEvaluator:
    """Plays the same cases at each measurement, or others each time if they rotate."""

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
            raise ConfigError("evaluate.suite: the task has no suites")
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

    def take_notes(self) -> Sequence[Event]:
        """Return the suites' records of the evaluations since the last call."""
        notes, self._notes = self._notes, []
        return notes

    def episodes(
        self, suite: Suite, settings: Settings, *, on_progress: OnProgress = ignore_progress
    ) -> tuple[Episode, ...]:
        """Return one episode per case of the suite, in their order."""
        total = len(suite.cases)
        return tuple(
            episode
            for wave in waves(suite, self._config.num_envs)
            for episode in self._play(
                suite.envs, wave, settings, as_part(on_progress, wave.first, total)
            )
        )

    def _play(
        self, source: EnvSource, wave: Wave, settings: Settings, on_progress: OnProgress
    ) -> tuple[Episode, ...]:
        starts = tuple(case.start for case in wave.cases if case.start is not None)
        offered = (STARTS.to(starts), STARTS_LIMIT.to(0))
        settings = settings.with_(one for one in offered if one.name in settings)
        cases = ListedSeeds(tuple(case.seed for case in wave.cases), wave.envs)
        env = self._make_env(source, cases, wave.envs)
        draws = None if self._config.greedy else wave.draws(self._config.seed)
        return play_once(
            env, self._policy, settings, cases=cases, draws=draws, on_progress=on_progress
        )

"""Evaluating policies on suites of episodes, alone and in paired comparisons."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from longhaul.app.build.components import build_evaluator
from longhaul.app.build.text import columns
from longhaul.app.evaluation.agent import Agent
from longhaul.app.evaluation.load import Run
from longhaul.core.env import Episode
from longhaul.core.errors import CheckpointError, ConfigError
from longhaul.core.evaluation import Column, Suite
from longhaul.core.metrics import Metrics
from longhaul.core.seeds import Seeds
from longhaul.core.statistics import Interval, interval, resample
from longhaul.engine.evaluator import (
    OnProgress,
    SuiteEvaluator,
    as_part,
    ignore_progress,
    suite_figures,
)
from longhaul.runs.directory import RunDirectory


def play_suite(
    agent: Agent, suite: Suite, on_progress: OnProgress = ignore_progress
) -> tuple[Episode, ...]:
    """Play a suite with an agent and return the episodes."""
    evaluator = build_evaluator(agent.config, agent.task, agent.policy)
    assert isinstance(evaluator, SuiteEvaluator), "the task has suites"
    return evaluator.episodes(suite, agent.settings, on_progress=on_progress)


@dataclass(frozen=True, slots=True)
class SuiteRequest:
    """Which suites to play, and what to compare with."""

    suites: tuple[str, ...] = ()
    """Empty: those of the run's config."""
    against: str = ""
    """A reference policy, a checkpoint of the same run, or another run."""
    references: bool = True
    """Whether reference policies are played as well."""


def measure_suites(
    run: Run | None,
    agent: Agent,
    request: SuiteRequest,
    on_progress: OnProgress = ignore_progress,
) -> SuiteReport:
    """Evaluate an agent on the suites of its task; `run`, if it has one, holds opponents."""
    config, task = agent.config, agent.task
    names = request.suites or config.evaluate.final_suites or task.evaluation.final
    find = task.evaluation.suite
    assert find is not None, "the caller checked that the task has suites"
    suites = [find(name) for name in names]
    total, before = sum(len(suite.cases) for suite in suites), 0
    results = []
    for number, suite in enumerate(suites):
        # References are played on the first suite only: each suite would cost as much again.
        wanted = request.references and number == 0
        references = suite.references() if wanted else {}
        opponent = None
        if request.against:
            opponent = _opponent(run, agent, suite, references, request.against)
        played = play_suite(agent, suite, as_part(on_progress, before, total))
        results.append(_result(suite, played, references, opponent))
        before += len(suite.cases)
    return SuiteReport(
        task=task.name,
        checkpoint=agent.checkpoint,
        greedy=config.evaluate.greedy,
        results=tuple(results),
        score=task.evaluation.metric,
        solved=task.evaluation.solved,
        passed_over=agent.passed_over,
    )


Opponent = tuple[str, tuple[Episode, ...]]
"""The name of a policy and its episodes."""


def _result(
    suite: Suite,
    episodes: tuple[Episode, ...],
    references: Mapping[str, tuple[Episode, ...]],
    opponent: Opponent | None,
) -> SuiteResult:
    paired: tuple[Paired, ...] = ()
    if opponent is not None:
        name, theirs = opponent
        paired = (compare(episodes, theirs, suite.score, against=name),)
    return SuiteResult(
        suite=suite.name,
        metrics=suite_figures(suite, episodes),
        intervals=suite.intervals(episodes),
        bounds=suite.bounds(),
        references={name: suite.figures(played) for name, played in references.items()},
        columns=suite.columns,
        episodes=episodes,
        paired=paired,
        scores={
            name: tuple(map(suite.score, played))
            for name, played in {**references, TRAINED: episodes}.items()
        },
    )


def _opponent(
    run: Run | None,
    agent: Agent,
    suite: Suite,
    references: Mapping[str, tuple[Episode, ...]],
    against: str,
) -> Opponent:
    """Return the opponent: a run, a checkpoint of this run, or a reference policy."""
    if RunDirectory(Path(against)).config.is_file():
        other = Run(against).agent("latest")
        if other.task.name != agent.task.name:
            raise ConfigError(f"--against {against} is a run of {other.task.name!r}")
        return (against, play_suite(other, suite))
    try:
        if run is None:
            raise CheckpointError("the agent has no run")
        earlier = run.agent(against)
    except CheckpointError as error:
        references = references or suite.references()
        if against in references:
            return (against, references[against])
        raise ConfigError(
            f"--against {against!r} is not a run, a checkpoint of this run or a reference policy "
            f"({error}; reference policies: {', '.join(references) or 'none'})"
        ) from error
    earlier.config = agent.config
    return (earlier.checkpoint, play_suite(earlier, suite))


TRAINED = "trained"
INTERVAL = "  95 % interval"
BOUND = "bound"


@dataclass(frozen=True, slots=True)
class SuiteResult:
    """The result of one suite, played by a checkpoint and by reference policies."""

    suite: str
    metrics: Metrics
    intervals: Mapping[str, Interval]
    bounds: Metrics
    references: dict[str, Metrics]
    columns: tuple[Column, ...]
    episodes: tuple[Episode, ...]
    paired: tuple[Paired, ...] = ()
    scores: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    """The scores of all episodes, by policy."""

    def as_text(self) -> str:
        """Return a table with a row for each policy, and the comparisons below it."""
        shown = self.columns or tuple(Column(name, name) for name in self.metrics)
        rows = [[name, *_cells(shown, found)] for name, found in self.references.items()]
        rows.append([TRAINED, *_cells(shown, self.metrics)])
        rows.append([INTERVAL, *(_interval(column, self.intervals) for column in shown)])
        if self.bounds:
            rows.append([BOUND, *_cells(shown, self.bounds)])
        header = (f"{self.suite}, {len(self.episodes)} episodes", *(c.title for c in shown))
        lines = [columns(rows, header=header)]
        lines += [f"{TRAINED} {paired.as_text()}" for paired in self.paired]
        return "\n".join(lines)

    def as_values(self) -> dict[str, Any]:
        """Return everything as plain values."""
        return {
            "suite": self.suite,
            "columns": [asdict(column) for column in self.columns],
            "metrics": dict(self.metrics),
            "intervals": dict(self.intervals),
            "bounds": dict(self.bounds),
            "references": {name: dict(found) for name, found in self.references.items()},
            "paired": [asdict(paired) for paired in self.paired],
            "scores": [
                {"player": name, "scores": list(found)} for name, found in self.scores.items()
            ],
            "episodes": [asdict(episode) for episode in self.episodes],
        }


@dataclass(frozen=True, slots=True)
class SuiteReport:
    """The results of a checkpoint on one or more suites."""

    task: str
    checkpoint: str
    greedy: bool
    results: tuple[SuiteResult, ...]
    score: str
    solved: float | None = None
    passed_over: tuple[str, ...] = field(default=())

    @property
    def mean(self) -> float:
        """The score on the first suite."""
        return self.results[0].metrics[self.score]

    def as_json(self) -> str:
        """Return everything, for programs; the same evaluation gives the same text."""
        return json.dumps(
            {
                "task": self.task,
                "checkpoint": self.checkpoint,
                "greedy": self.greedy,
                "score": self.score,
                "solved": self.solved,
                "suites": [result.as_values() for result in self.results],
                "passed_over": list(self.passed_over),
            },
            allow_nan=False,
        )

    def as_text(self) -> str:
        """Return the tables of all suites."""
        acts = "most likely actions" if self.greedy else "sampled actions"
        blocks = [*self.passed_over, f"{self.task}, checkpoint {self.checkpoint}, {acts}"]
        blocks += [result.as_text() for result in self.results]
        if self.solved is not None:
            verdict = "reached" if self.mean >= self.solved else "not reached"
            blocks.append(f"{self.results[0].suite}: {self.score} {self.solved:g} {verdict}")
        return "\n\n".join(blocks)


def _cells(shown: tuple[Column, ...], found: Metrics) -> list[str]:
    return [f"{found[c.metric]:{c.form}}" if c.metric in found else "" for c in shown]


def _interval(column: Column, intervals: Mapping[str, Interval]) -> str:
    if column.metric not in intervals:
        return ""
    low, high = intervals[column.metric]
    return f"{low:{column.form}}..{high:{column.form}}"


RESAMPLES = 10_000


@dataclass(frozen=True, slots=True)
class Paired:
    """The differences between one policy and another over the cases both played."""

    against: str
    cases: int
    difference: float  # ours minus theirs, mean over the cases
    low: float  # 95 % bootstrap interval over the cases
    high: float
    better: int  # cases
    worse: int

    def as_text(self) -> str:
        """Return the comparison in one line."""
        return (
            f"minus {self.against}: {self.difference:+.4f}, 95 % interval "
            f"{self.low:+.4f} to {self.high:+.4f}, over {self.cases} paired episodes; "
            f"better in {self.better}, worse in {self.worse}"
        )


def compare(
    ours: Sequence[Episode],
    theirs: Sequence[Episode],
    score: Callable[[Episode], float],
    *,
    against: str,
) -> Paired:
    """Return the difference between our and their scores, paired by the episodes' seeds."""
    other = {episode.seed: score(episode) for episode in theirs}
    pairs = [(score(one), other[one.seed]) for one in ours if one.seed in other]
    if not pairs:
        raise ConfigError(f"{against} and this policy have no episode in common")
    difference = np.array([a - b for a, b in pairs])
    generator = Seeds(0).generator("paired")
    draws = resample(generator, len(pairs), RESAMPLES)
    low, high = interval(difference[draws].mean(axis=1))
    return Paired(
        against=against,
        cases=len(pairs),
        difference=float(difference.mean()),
        low=low,
        high=high,
        better=int((difference > 0).sum()),
        worse=int((difference < 0).sum()),
    )

"""Measuring a checkpoint on the suites of its task, beside reference policies and others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch

from longhaul.app.assemble import build_evaluator, build_policy, build_settings, build_task
from longhaul.app.checkpoints import find_checkpoint, load_weights
from longhaul.app.config import RunConfig
from longhaul.app.configure import from_values, read_toml
from longhaul.app.paired import Paired, compare
from longhaul.app.suite_report import TRAINED, SuiteReport, SuiteResult
from longhaul.core.env import Episode
from longhaul.core.errors import CheckpointError, ConfigError
from longhaul.core.settings import Assignment
from longhaul.core.suite import Suite
from longhaul.core.task import Task
from longhaul.engine.evaluator import OnProgress, as_part, ignore_progress
from longhaul.engine.suite_evaluator import SuiteEvaluator, suite_figures
from longhaul.runs.checkpoint import Loaded
from longhaul.runs.directory import RunDirectory


@dataclass(frozen=True, slots=True)
class Entrant:
    """A checkpoint with what is needed to play it."""

    config: RunConfig
    task: Task
    loaded: Loaded

    def play(self, suite: Suite, on_progress: OnProgress = ignore_progress) -> tuple[Episode, ...]:
        """Return the episodes of a suite."""
        policy = build_policy(self.config, self.task, torch.device("cpu"))
        load_weights(policy, self.loaded)
        evaluator = build_evaluator(self.config, self.task, policy)
        assert isinstance(evaluator, SuiteEvaluator), "only tasks with suites are entered"
        settings = build_settings(self.config, self.task).with_(
            Assignment(name, value) for name, value in self.loaded.manifest.settings.items()
        )
        return evaluator.episodes(suite, settings, on_progress=on_progress)


@dataclass(frozen=True, slots=True)
class SuiteRequest:
    """On which suites, and beside whom."""

    suites: tuple[str, ...] = ()
    """Empty takes those of the run."""
    against: str = ""
    """A reference policy, a checkpoint of the same run, or another run."""
    references: bool = True
    """Whether the policies that learned nothing are played as well."""


def measure_suites(
    run: RunDirectory,
    entrant: Entrant,
    request: SuiteRequest,
    on_progress: OnProgress = ignore_progress,
) -> SuiteReport:
    """Return the figures of a checkpoint on the suites of its task."""
    config, task, loaded = entrant.config, entrant.task, entrant.loaded
    names = request.suites or config.evaluate.final_suites or task.evaluation.final
    find = task.evaluation.suite
    assert find is not None, "the task was asked before"
    suites = [find(name) for name in names]
    total, before = sum(len(suite.cases) for suite in suites), 0
    results = []
    for number, suite in enumerate(suites):
        # The references of one suite say enough; those of the others cost as much again.
        wanted = request.references and number == 0
        references = suite.references() if wanted else {}
        opponent = None
        if request.against:
            opponent = _opponent(run, entrant, suite, references, request.against)
        played = entrant.play(suite, as_part(on_progress, before, total))
        results.append(_result(suite, played, references, opponent))
        before += len(suite.cases)
    return SuiteReport(
        task=task.name,
        checkpoint=loaded.path.name,
        greedy=config.evaluate.greedy,
        results=tuple(results),
        score=task.evaluation.metric,
        solved=task.evaluation.solved,
        passed_over=tuple(
            f"checkpoint {damage.path.name} is damaged ({damage.reason}); left as it is"
            for damage in loaded.damaged
        ),
    )


@dataclass(frozen=True, slots=True)
class _Opponent:
    name: str
    episodes: tuple[Episode, ...]


def _result(
    suite: Suite,
    episodes: tuple[Episode, ...],
    references: Mapping[str, tuple[Episode, ...]],
    opponent: _Opponent | None,
) -> SuiteResult:
    paired: tuple[Paired, ...] = ()
    if opponent is not None:
        paired = (compare(episodes, opponent.episodes, suite.score, against=opponent.name),)
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
    run: RunDirectory,
    entrant: Entrant,
    suite: Suite,
    references: Mapping[str, tuple[Episode, ...]],
    against: str,
) -> _Opponent:
    """Return the other side of a comparison, whoever the user meant."""
    if RunDirectory(Path(against)).config.is_file():
        other = _entrant(RunDirectory(Path(against)))
        if other.task.name != entrant.task.name:
            raise ConfigError(f"--against {against} is a run of {other.task.name!r}")
        return _Opponent(against, other.play(suite))
    try:
        loaded = find_checkpoint(run, against)
    except CheckpointError as error:
        references = references or suite.references()
        if against in references:
            return _Opponent(against, references[against])
        raise ConfigError(
            f"--against {against!r} is no run, no checkpoint of this one and no reference policy "
            f"({error}; reference policies: {', '.join(references) or 'none'})"
        ) from error
    return _Opponent(loaded.path.name, Entrant(entrant.config, entrant.task, loaded).play(suite))


def _entrant(run: RunDirectory) -> Entrant:
    config = from_values(read_toml(run.config))
    return Entrant(config, build_task(config), find_checkpoint(run, "latest"))

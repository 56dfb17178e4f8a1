"""Measuring a run's checkpoint."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import torch

from longhaul.app.assemble import build_evaluator, build_policy, build_settings, build_task
from longhaul.app.checkpoints import find_checkpoint, load_weights
from longhaul.app.configure import from_values, read_toml
from longhaul.app.device import fix_torch
from longhaul.app.env_output import apart_from_envs
from longhaul.app.suite_evaluation import Entrant, SuiteRequest, measure_suites
from longhaul.app.suite_report import SuiteReport
from longhaul.app.text import columns
from longhaul.core.env import Episode
from longhaul.core.errors import ConfigError
from longhaul.core.metrics import Metrics
from longhaul.core.settings import Assignment
from longhaul.core.suite import Interval
from longhaul.engine.evaluator import EpisodeEvaluator, OnProgress, figures, ignore_progress
from longhaul.runs.directory import RunDirectory
from longhaul.runs.durable import replace_file, storage_errors


@dataclass(frozen=True, slots=True)
class EvaluationRequest:
    """What to measure and how."""

    checkpoint: str = "latest"
    episodes: int = 50
    seed: int | None = None
    greedy: bool | None = None
    suites: SuiteRequest = field(default_factory=SuiteRequest)
    """For tasks that are measured on suites of their own."""


@dataclass(frozen=True, slots=True)
class Evaluated:
    """The result of an evaluation."""

    task: str
    checkpoint: str
    seed: int
    greedy: bool
    metrics: Metrics
    solved: float | None
    episodes: tuple[Episode, ...]
    passed_over: tuple[str, ...] = ()
    """Younger checkpoints that are damaged, and how."""

    @property
    def mean(self) -> float:
        """The mean return."""
        return self.metrics["eval/mean_reward"]

    @property
    def interval(self) -> Interval | None:
        """The mean's 95 % confidence interval, by the normal approximation; None for one episode.

        One episode says nothing about how far episodes lie apart.
        """
        if len(self.episodes) < 2:
            return None
        half = 1.96 * self.metrics["eval/std_reward"] / math.sqrt(len(self.episodes))
        return self.mean - half, self.mean + half

    def as_json(self) -> str:
        """Return everything, for programs."""
        return json.dumps(asdict(self), allow_nan=False)

    def as_text(self) -> str:
        """Return the figures as a short table."""
        rows = [
            ("checkpoint", self.checkpoint),
            ("episodes", f"{len(self.episodes)}, {'greedy' if self.greedy else 'sampled'}"),
            ("mean return", self._mean_in_words()),
            ("lowest", f"{self.metrics['eval/min_reward']:.2f}"),
            ("highest", f"{self.metrics['eval/max_reward']:.2f}"),
            ("mean length", f"{self.metrics['eval/mean_ep_length']:.1f}"),
        ]
        if self.solved is not None:
            verdict = "reached" if self.mean >= self.solved else "not reached"
            rows.append(("solved at", f"{self.solved:g}: {verdict}"))
        return "\n".join([*self.passed_over, columns(rows)])

    def _mean_in_words(self) -> str:
        if self.interval is None:
            return f"{self.mean:.2f}"
        low, high = self.interval
        return f"{self.mean:.2f}, 95 % confidence interval {low:.2f} to {high:.2f}"


@apart_from_envs("evaluate")
def evaluate_run(
    path: Path, request: EvaluationRequest, on_progress: OnProgress = ignore_progress
) -> Evaluated | SuiteReport:
    """Return the figures of one checkpoint of a run, and keep them in its directory."""
    if request.episodes < 1:
        raise ConfigError(f"--episodes must be at least 1, not {request.episodes}")
    run = RunDirectory(path)
    run.read_record()
    config = from_values(read_toml(run.config))
    evaluate = config.evaluate
    if request.seed is not None:
        evaluate = replace(evaluate, seed=request.seed)
    if request.greedy is not None:
        evaluate = replace(evaluate, greedy=request.greedy)
    config = replace(config, evaluate=evaluate)
    fix_torch(threads=config.threads, deterministic=config.deterministic)
    loaded = find_checkpoint(run, request.checkpoint)
    task = build_task(config)
    if task.evaluation.suite is not None:
        report = measure_suites(run, Entrant(config, task, loaded), request.suites, on_progress)
        _keep(run, _suite_file(report), report.as_json())
        return report
    if request.suites.suites or request.suites.against:
        raise ConfigError(f"--suite and --against: task {task.name!r} brings no suites of its own")
    result = _measure_seeds(Entrant(config, task, loaded), request.episodes, on_progress)
    write_evaluation(run, result)
    return result


def _measure_seeds(entrant: Entrant, episodes: int, on_progress: OnProgress) -> Evaluated:
    """Play episodes of listed seeds in the task's training environments."""
    config, task, loaded = entrant.config, entrant.task, entrant.loaded
    policy = build_policy(config, task, torch.device("cpu"))
    load_weights(policy, loaded)
    settings = build_settings(config, task).with_(
        Assignment(name, value) for name, value in loaded.manifest.settings.items()
    )
    evaluator = build_evaluator(config, task, policy)
    assert isinstance(evaluator, EpisodeEvaluator), "the task has no suites"
    played = evaluator.episodes(settings, count=episodes, on_progress=on_progress)
    return Evaluated(
        task=task.name,
        checkpoint=loaded.path.name,
        seed=config.evaluate.seed,
        greedy=config.evaluate.greedy,
        metrics=figures(played),
        solved=task.evaluation.solved,
        episodes=played,
        passed_over=tuple(
            f"checkpoint {damage.path.name} is damaged ({damage.reason}); left as it is"
            for damage in loaded.damaged
        ),
    )


def write_evaluation(run: RunDirectory, result: Evaluated) -> None:
    """Keep the result in the run's directory; the same evaluation overwrites itself."""
    kind = "greedy" if result.greedy else "sampled"
    name = f"{result.checkpoint}-{len(result.episodes)}-{kind}-seed{result.seed}.json"
    _keep(run, name, result.as_json())


def _suite_file(report: SuiteReport) -> str:
    kind = "greedy" if report.greedy else "sampled"
    names = "-".join(result.suite for result in report.results)
    return f"{report.checkpoint}-{names}-{kind}.json"


def _keep(run: RunDirectory, name: str, text: str) -> None:
    with storage_errors(run.evaluations):
        run.evaluations.mkdir(exist_ok=True)
        replace_file(run.evaluations / name, text.encode() + b"\n")

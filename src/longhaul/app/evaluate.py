"""Measuring a run's checkpoint."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch

from longhaul.app.assemble import build_evaluator, build_policy, build_settings, build_task
from longhaul.app.configure import from_values, read_toml
from longhaul.app.device import fix_torch
from longhaul.app.text import columns
from longhaul.core.env import Episode
from longhaul.core.errors import CheckpointError, ConfigError
from longhaul.core.metrics import Metrics
from longhaul.core.policy import Policy
from longhaul.core.settings import Assignment
from longhaul.engine.evaluator import figures
from longhaul.runs.checkpoint import Loaded, load_checkpoint, load_newest
from longhaul.runs.directory import RunDirectory
from longhaul.runs.durable import replace_file, storage_errors
from longhaul.runs.inspection import checkpoint_name
from longhaul.runs.reader import read_checkpoints
from longhaul.runs.retention import rank_checkpoints


@dataclass(frozen=True, slots=True)
class EvaluationRequest:
    """What to measure and how."""

    checkpoint: str = "latest"
    episodes: int = 50
    seed: int | None = None
    greedy: bool | None = None


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
    def interval(self) -> float:
        """Half the width of the mean's 95 % confidence interval, by the normal approximation."""
        return 1.96 * self.metrics["eval/std_reward"] / math.sqrt(len(self.episodes))

    def as_json(self) -> str:
        """Return everything, for programs."""
        return json.dumps(asdict(self), allow_nan=False)

    def as_text(self) -> str:
        """Return the figures as a short table."""
        mean = self.metrics["eval/mean_reward"]
        rows = [
            ("checkpoint", self.checkpoint),
            ("episodes", f"{len(self.episodes)}, {'greedy' if self.greedy else 'sampled'}"),
            ("mean return", f"{mean:.2f} +/- {self.interval:.2f}"),
            ("lowest", f"{self.metrics['eval/min_reward']:.2f}"),
            ("highest", f"{self.metrics['eval/max_reward']:.2f}"),
            ("mean length", f"{self.metrics['eval/mean_ep_length']:.1f}"),
        ]
        if self.solved is not None:
            verdict = "reached" if mean >= self.solved else "not reached"
            rows.append(("solved at", f"{self.solved:g}: {verdict}"))
        return "\n".join([*self.passed_over, columns(rows)])


def evaluate_run(path: Path, request: EvaluationRequest) -> Evaluated:
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
    policy = build_policy(config, task, torch.device("cpu"))
    load_weights(policy, loaded)
    settings = build_settings(config, task).with_(
        Assignment(name, value) for name, value in loaded.manifest.settings.items()
    )
    episodes = build_evaluator(config, task, policy).episodes(settings, count=request.episodes)
    result = Evaluated(
        task=task.name,
        checkpoint=loaded.path.name,
        seed=evaluate.seed,
        greedy=evaluate.greedy,
        metrics=figures(episodes),
        solved=task.evaluation.solved,
        episodes=episodes,
        passed_over=tuple(
            f"checkpoint {damage.path.name} is damaged ({damage.reason}); left as it is"
            for damage in loaded.damaged
        ),
    )
    write_evaluation(run, result)
    return result


def find_checkpoint(run: RunDirectory, which: str) -> Loaded:
    """Return the checkpoint called `latest`, `best`, or by its number of steps."""
    if which == "latest":
        loaded = load_newest(run.checkpoints)
        if loaded is None:
            raise CheckpointError(f"{run.path} has no checkpoint yet")
        return loaded
    if which == "best":
        return load_named(best_checkpoint(run))
    name = checkpoint_name(int(which)) if which.isdecimal() else which
    if not (run.checkpoints / name).is_dir():
        there = ", ".join(entry.path.name for entry in read_checkpoints(run)) or "none"
        raise CheckpointError(f"{run.path} has no checkpoint {which!r} (there: {there})")
    return load_named(run.checkpoints / name)


def load_named(path: Path) -> Loaded:
    """Return a checkpoint that was asked for by name, so that there is none to fall back to."""
    try:
        return load_checkpoint(path)
    except CheckpointError as error:
        raise CheckpointError(
            f"checkpoint {path} cannot be used: {error}; `longhaul inspect` lists the others"
        ) from error


def load_weights(policy: Policy, loaded: Loaded) -> None:
    """Give the policy the weights of a checkpoint."""
    try:
        policy.load_state_dict(loaded.states["learner"]["policy"])
    except (LookupError, RuntimeError, TypeError) as error:
        reason = str(error).strip().splitlines()[-1].strip()
        raise CheckpointError(
            f"checkpoint {loaded.path} does not fit the run's config.toml ({reason}); use the "
            "version and config that wrote it"
        ) from error


def best_checkpoint(run: RunDirectory) -> Path:
    """Return the checkpoint with the best score."""
    config = from_values(read_toml(run.config)).checkpoint
    ranked = rank_checkpoints(run.checkpoints, config)
    if not ranked:
        raise CheckpointError(
            f"no checkpoint of {run.path} has a score; set evaluate.every_iterations to get them"
        )
    return ranked[0][1]


def write_evaluation(run: RunDirectory, result: Evaluated) -> None:
    """Keep the result in the run's directory; the same evaluation overwrites itself."""
    kind = "greedy" if result.greedy else "sampled"
    name = f"{result.checkpoint}-{len(result.episodes)}-{kind}-seed{result.seed}.json"
    with storage_errors(run.evaluations):
        run.evaluations.mkdir(exist_ok=True)
        replace_file(run.evaluations / name, result.as_json().encode() + b"\n")

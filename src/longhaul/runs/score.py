"""The score of a run: its last evaluation, or the training return until there is one."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import msgspec

from longhaul.core.config import parse_toml
from longhaul.runs.directory import RunDirectory
from longhaul.runs.durable import replace_file, storage_errors

TRAINING_RETURN = "rollout/ep_rew_mean"
MEAN_RETURN, SPREAD, EPISODES = "eval/mean_reward", "eval/std_reward", "eval/episodes"
NORMAL_95 = 1.96
"""Standard errors on either side of the mean in a 95 % confidence interval."""


class Source(StrEnum):
    """Where a score comes from."""

    FINAL = "final evaluation"
    EVALUATION = "evaluation"
    TRAINING = "training return"


@dataclass(frozen=True, slots=True)
class Score:
    """A score and its context."""

    value: float
    metric: str
    source: Source
    env_steps: int
    """Training steps when it was measured."""
    low: float | None = None
    """Lower end of the 95 % confidence interval of the mean over `episodes`."""
    high: float | None = None
    episodes: int | None = None
    target: float | None = None
    """The value from which the task counts as solved."""
    checkpoint: str = ""
    suite: str = ""

    @property
    def is_solved(self) -> bool | None:
        """Whether the target was reached; None without a target or for a training return."""
        if self.target is None or self.source is Source.TRAINING:
            return None
        return self.value >= self.target

    @property
    def interval(self) -> str:
        """The confidence interval in words; empty without one."""
        if self.low is None or self.high is None:
            return ""
        return confidence_interval(self.low, self.high, self.episodes)


def confidence_interval(low: float, high: float, episodes: int | None) -> str:
    """Return a 95 % confidence interval in words."""
    over = "" if episodes is None else f", {episodes} episode{'' if episodes == 1 else 's'}"
    return f"95 % confidence interval of the mean{over}: {low:.4g} to {high:.4g}"


@dataclass(frozen=True, slots=True)
class Measure:
    """The metric and target of a run."""

    metric: str = MEAN_RETURN
    target: float | None = None
    """The value from which the task counts as solved."""
    suite: str = ""
    """The suite that is played during training, for tasks that define suites."""

    def of(self, row: Mapping[str, Any], env_steps: int) -> Score | None:
        """Return the evaluation in a row of metrics; None if it has none."""
        value = _number(row.get(self.metric))
        if value is None:
            return None
        spread, count = _number(row.get(SPREAD)), _number(row.get(EPISODES))
        low = high = None
        if self.metric == MEAN_RETURN and spread is not None and count:
            half = NORMAL_95 * spread / math.sqrt(count)
            low, high = value - half, value + half
        return Score(
            value,
            self.metric,
            Source.EVALUATION,
            env_steps,
            low,
            high,
            int(count) if count else None,
            self.target,
            suite=self.suite,
        )


@dataclass(frozen=True, slots=True)
class _Evaluate:
    suite: str = ""


@dataclass(frozen=True, slots=True)
class _Config:
    evaluate: _Evaluate = field(default_factory=_Evaluate)


@dataclass(frozen=True, slots=True)
class _Panels:
    score: str = MEAN_RETURN
    target: float | None = None
    suite: str = ""


def read_measure(panels: bytes, config: bytes) -> Measure:
    """Return the measure from panels.json and config.toml; damaged files give the defaults."""
    try:
        shown = msgspec.json.decode(panels, type=_Panels)
    except (msgspec.DecodeError, RecursionError):
        shown = _Panels()
    try:
        own = msgspec.convert(parse_toml(config.decode()), _Config).evaluate.suite
    except (msgspec.ValidationError, ValueError):
        own = ""
    return Measure(shown.score, shown.target, own or shown.suite)


def write_final_score(directory: RunDirectory, score: Score) -> None:
    """Keep the score of the evaluation that ends a run."""
    with storage_errors(directory.evaluations):
        directory.evaluations.mkdir(exist_ok=True)
        replace_file(directory.final_score, msgspec.json.encode(score) + b"\n")


def read_final_score(directory: RunDirectory) -> Score | None:
    """Return the score of the evaluation that ended the run; None if there was none."""
    try:
        return parse_final_score(directory.final_score.read_bytes())
    except OSError:
        return None


def parse_final_score(content: bytes) -> Score | None:
    """Return the score a file holds; None if it is damaged."""
    try:
        return msgspec.json.decode(content, type=Score)
    except (msgspec.DecodeError, RecursionError):
        return None


def last_score(
    rows: Iterable[Mapping[str, Any]], final: Score | None, measure: Measure
) -> Score | None:
    """Return the newest score of a run from its metrics, oldest first, and its final evaluation."""
    evaluation = training = None
    steps = 0
    for row in rows:
        steps = int(row.get("env_steps", steps))
        evaluation = measure.of(row, steps) or evaluation
        training = training_score(row, steps) or training
    return newest_score(final, evaluation, training, env_steps=steps)


def training_score(row: Mapping[str, Any], env_steps: int) -> Score | None:
    """Return the training return in a row of metrics; None if it has none."""
    value = _number(row.get(TRAINING_RETURN))
    return None if value is None else Score(value, TRAINING_RETURN, Source.TRAINING, env_steps)


def newest_score(
    final: Score | None, evaluation: Score | None, training: Score | None, *, env_steps: int
) -> Score | None:
    """Return the current score after `env_steps` steps.

    A final evaluation is outdated once the run was trained further.
    """
    if final is not None and final.env_steps >= env_steps:
        return final
    return evaluation or training


def _number(value: object) -> float | None:
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return None
    return float(value) if math.isfinite(value) else None

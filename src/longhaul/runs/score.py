"""The number a run is judged by: its last evaluation, or the training return until there is one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import msgspec

from longhaul.runs.directory import RunDirectory
from longhaul.runs.durable import replace_file, storage_errors

TRAINING_RETURN = "rollout/ep_rew_mean"


class Source(StrEnum):
    """Where a score comes from."""

    FINAL = "final evaluation"
    EVALUATION = "evaluation"
    TRAINING = "training return"


@dataclass(frozen=True, slots=True)
class Score:
    """One figure with everything needed to read it."""

    value: float
    metric: str
    source: Source
    env_steps: int
    """How far training had come when it was measured."""
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


def write_final_score(directory: RunDirectory, score: Score) -> None:
    """Keep the score of the evaluation that ends a run."""
    with storage_errors(directory.evaluations):
        directory.evaluations.mkdir(exist_ok=True)
        replace_file(directory.final_score, msgspec.json.encode(score) + b"\n")


def read_final_score(directory: RunDirectory) -> Score | None:
    """Return the score of the evaluation that ended the run; None if there was none."""
    try:
        return msgspec.json.decode(directory.final_score.read_bytes(), type=Score)
    except (OSError, msgspec.DecodeError):
        return None


def last_score(
    rows: Iterable[Mapping[str, Any]], final: Score | None, *, metric: str
) -> Score | None:
    """Return the newest score of a run from its metrics, oldest first, and its final evaluation.

    A final evaluation is out of date once the run was trained further.
    """
    found: dict[Source, Score] = {}
    steps = 0
    for row in rows:
        steps = int(row.get("env_steps", steps))
        for name, source in ((metric, Source.EVALUATION), (TRAINING_RETURN, Source.TRAINING)):
            value = row.get(name)
            if isinstance(value, (int, float)) and not isinstance(value, bool):
                found[source] = Score(float(value), name, source, steps)
    if final is not None and final.env_steps >= steps:
        return final
    return found.get(Source.EVALUATION) or found.get(Source.TRAINING)

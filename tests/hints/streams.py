"""Made-up runs: metrics iteration by iteration, for rules to look at."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from longhaul.core.control import Progress
from longhaul.core.hint import Hint, Rule
from longhaul.hints.advisor import Hints

ENVS = 16
STEPS = 128
FACTS: dict[str, Any] = {
    "learn.learning_rate": 3e-4,
    "learn.ent_coef": 0.001,
    "learn.max_grad_norm": 0.5,
    "learn.vf_coef": 0.5,
    "learn.normalize_reward": False,
    "collect.num_steps": STEPS,
    "num_envs": ENVS,
    "action.most_entropy": 1.0,
    "device": "cpu",
}
"""What is fixed for the made-up runs."""

Metrics = Callable[[int], Mapping[str, float]]


@dataclass(frozen=True)
class Stream:
    """A run's metrics as a function of the iteration, and how long it lasts."""

    metrics: Metrics
    iterations: int = 150
    facts: Mapping[str, Any] = field(default_factory=dict)
    episodes: int = 100
    """That end in an iteration."""

    def rows(self) -> list[dict[str, float]]:
        """Return the rows a run directory would hold."""
        return [
            {
                "iteration": number,
                "env_steps": number * ENVS * STEPS,
                "episodes": number * self.episodes,
                "time/session_seconds": float(number),
                **self.metrics(number),
            }
            for number in range(1, self.iterations + 1)
        ]

    def hints_of(self, rule: Rule) -> list[tuple[int, Hint]]:
        """Return what a rule says of it, with the iteration."""
        hints = Hints([rule], {**FACTS, **self.facts})
        said: list[tuple[int, Hint]] = []
        for row in self.rows():
            progress = Progress(int(row["iteration"]), int(row["env_steps"]), int(row["episodes"]))
            metrics = {name: value for name, value in row.items() if "/" in name}
            now = (*hints.take(progress, metrics), *hints.take_timed(progress, metrics))
            said += [(progress.iteration, hint) for hint in now]
        return said


def steady(**metrics: float) -> Metrics:
    """Return metrics that never change; `__` in a name stands for the slash."""
    fixed = {name.replace("__", "/"): value for name, value in metrics.items()}
    return lambda number: fixed


def wobble(number: int, size: float) -> float:
    """Return a small number that changes from iteration to iteration without any chance."""
    return size * ((number * 7919) % 101 - 50) / 50

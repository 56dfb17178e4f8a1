"""A task as a value."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from longhaul.core.control import Controller
from longhaul.core.env import EnvSource, Episode
from longhaul.core.metrics import Metric, Metrics
from longhaul.core.policy import Policy
from longhaul.core.settings import Setting


@dataclass(frozen=True, slots=True)
class Panel:
    """A group of metrics a reader wants to see side by side."""

    title: str
    metrics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Evaluation:
    """How the task is measured: which metric is the score and what counts as solved."""

    metric: str = "eval/mean_reward"
    solved: float | None = None


@dataclass(frozen=True, slots=True)
class Task:
    """Everything the engine needs to know about a task; it never asks for the name."""

    name: str
    envs: EnvSource
    make_policy: Callable[[], Policy]
    """Build the policy; weights are drawn from torch's generator, which the caller seeds."""
    summarise: Callable[[Sequence[Episode]], Metrics]
    settings: tuple[Setting[Any], ...] = ()
    metrics: tuple[Metric, ...] = ()
    controllers: tuple[Controller[Any], ...] = ()
    evaluation: Evaluation = field(default_factory=Evaluation)
    panels: tuple[Panel, ...] = ()

"""A task as a value."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from longhaul.core.control import Controller
from longhaul.core.env import EnvSource, Episode
from longhaul.core.metrics import Metric, Metrics
from longhaul.core.policy import Policy
from longhaul.core.settings import Setting
from longhaul.core.suite import Suite

PanelKind = Literal["lines", "histogram", "polar", "map", "bars", "spans"]


@dataclass(frozen=True, slots=True)
class Panel:
    """A group of measured things a reader wants to see side by side.

    `lines` and `spans` show metrics over the run. The other kinds show records, the rows of one
    JSON-lines file of the run directory, whose fields are named like `metrics`.
    """

    title: str
    metrics: tuple[str, ...]
    """lines: the metrics. spans: a metric, its threshold, and the one that is 1 where the run is
    shaded. histogram: a field that holds a list of numbers. polar: an angle in degrees and a
    weight. map: x and y. bars: a category and, if there is one, a count."""
    kind: PanelKind = "lines"
    name: str = ""
    """The name of the picture's file; made of the title if empty."""
    right: tuple[str, ...] = ()
    """lines: metrics with an axis of their own on the right."""
    records: str = ""
    """The file of the records, relative to the run directory."""
    event: str = ""
    """Takes only the records of this event, as events.jsonl has several; all if empty."""
    each: str = ""
    """The field of a record that holds a list of the things to show; the record itself if empty."""
    bins: tuple[float, ...] = ()
    """histogram and polar: the edges of the bins; chosen if empty."""
    note: str = ""
    """What a reader should know to read it."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """How the task is measured: which metric is the score and what counts as solved.

    A task that brings no suites of its own is measured on episodes of its training environments.
    """

    metric: str = "eval/mean_reward"
    """Ranks checkpoints; more is better."""
    solved: float | None = None
    suite: Callable[[str], Suite] | None = None
    """Return the suite of a name, or raise a ConfigError that tells the names there are."""
    during: str = ""
    """The suite that is played while training; it picks the best checkpoint."""
    final: tuple[str, ...] = ()
    """The suites whose figures are reported at the end: others than the one that picks."""


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

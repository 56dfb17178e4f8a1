"""A task as a value."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from longhaul.core.control import Controller
from longhaul.core.env import EnvSource, Episode
from longhaul.core.evaluation import Records, RunLog, Study, Suite, TrainingSummary
from longhaul.core.hint import Facts, Rule
from longhaul.core.metrics import Alias, Metric, Metrics, Panel
from longhaul.core.search import Search
from longhaul.core.settings import Setting

if TYPE_CHECKING:
    from torch import Tensor

    from longhaul.core.policy import Policy
    from longhaul.core.rollout import Rollout, TensorTree


@dataclass(frozen=True, slots=True)
class Evaluation:
    """How the task is measured: which metric is the score and what counts as solved.

    A task without suites is measured on episodes of its training environments.
    """

    metric: str = "eval/mean_reward"
    """Ranks checkpoints; more is better."""
    solved: float | None = None
    suite: Callable[[str], Suite] | None = None
    """Return the suite of a name, or raise a ConfigError that lists the names."""
    during: str = ""
    """The suite that is played while training; it picks the best checkpoint."""
    final: tuple[str, ...] = ()
    """The suites whose figures are reported at the end: others than the one that picks."""
    films: str = ""
    """The suite whose episodes are filmed; empty: the first of `final`."""


@dataclass(frozen=True, slots=True)
class Task:
    """Everything the engine needs to know about a task; it never asks for the name."""

    name: str
    envs: EnvSource
    make_policy: Callable[[], Policy]
    """Build the policy; weights are drawn from torch's generator, which the caller seeds."""
    summarize: Callable[[Sequence[Episode]], Metrics]
    summarize_steps: Callable[[Rollout], Metrics] | None = None
    """Return metrics of a rollout's steps, from what its envs measure beside the reward."""
    settings: tuple[Setting[Any], ...] = ()
    metrics: tuple[Metric, ...] = ()
    aliases: tuple[Alias, ...] = ()
    """Names its users know from before, for curves and for the reference."""
    controllers: tuple[Controller[Any], ...] = ()
    evaluation: Evaluation = field(default_factory=Evaluation)
    panels: tuple[Panel, ...] = ()
    hints: tuple[Rule, ...] = ()
    """What the run may say about this task; one takes the place of a general rule of its name."""
    facts: Facts = field(default_factory=dict)
    """What hints should know of the task beside its config."""
    warnings: tuple[str, ...] = ()
    """What the user should know before the run begins."""
    records: Callable[[RunLog], Records] | None = None
    """Return files the task makes of a run's logs, for `evaluations/`; made again after every
    evaluation and at the end, so they may hold nothing the logs do not."""
    summarize_training: Callable[[RunLog | str], TrainingSummary] | None = None
    """Return the row of a run's training beside others; it also takes the text of a training log
    that another program wrote, and raises a ConfigError where that is none."""
    script: Callable[[TensorTree, Tensor | None], Tensor] | None = None
    """The task's own player, which `learn.teacher.sources = ["script"]` learns from: it returns the
    probabilities [n, choices] of its choices, given observations [n, ...] and a mask, if any."""
    covers: Callable[[TensorTree], Tensor] | None = None
    """Which observations [n] are of this task's part of a game, such as its stages: of several
    teachers the first one whose task covers an observation is asked about it."""
    study: Study | None = None
    """Return files, for `evaluations/`, that show what a trained policy did and why."""
    search: Search | None = None
    """How archive search moves in it; environments with snapshots can be searched without it."""

"""The recall task: remember a cue for a few steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from longhaul.core.env import Episode, SingleEnvs
from longhaul.core.errors import ConfigError
from longhaul.core.metrics import Metric, Metrics, Panel
from longhaul.core.task import Evaluation, Task
from longhaul.nets.make import build_policy
from longhaul.tasks.kind import TaskKind, TaskRequest
from longhaul.tasks.probe.recall import RecallFactory


@dataclass(frozen=True, slots=True)
class RecallOptions:
    """The `[options]` table of the config."""

    cues: int = 4
    """How many different cues there are."""
    delay: int = 8
    """Steps between the cue and the question."""

    def __post_init__(self) -> None:
        for name, value, least in (("cues", self.cues, 2), ("delay", self.delay, 0)):
            if value < least:
                raise ConfigError(f"options.{name} must be at least {least}, not {value}")


def build(request: TaskRequest) -> Task:
    """Return the task for these options."""
    options: RecallOptions = request.options
    factory = RecallFactory(cues=options.cues, delay=options.delay)
    return Task(
        name="recall",
        envs=SingleEnvs(factory.spec, factory),
        make_policy=lambda: build_policy(factory.spec, request.policy),
        summarize=share_right,
        metrics=(Metric("env/right", "share of questions answered correctly"),),
        evaluation=Evaluation(solved=0.95),
        panels=(Panel("Memory", ("env/right", "eval/mean_reward")),),
    )


def share_right(episodes: Sequence[Episode]) -> Metrics:
    """Return the share of correct answers; nothing if no episode has ended."""
    if not episodes:
        return {}
    return {"env/right": sum(e.metrics["right"] for e in episodes) / len(episodes)}


TASK = TaskKind(
    name="recall",
    summary="remember a cue for a few steps",
    options=RecallOptions,
    build=build,
    examples=("recall",),
    presets=Path(__file__).parent / "presets",
)

"""Building the probe tasks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from longhaul.core.config import AT_LEAST_0, AT_LEAST_1, AT_LEAST_2, check_ranges
from longhaul.core.env import Episode, SingleEnvs
from longhaul.core.errors import ConfigError, suggestion
from longhaul.core.metrics import Metric, Metrics, Panel
from longhaul.core.task import Evaluation, Task
from longhaul.nets.config import build_policy
from longhaul.tasks.kind import TaskKind, TaskRequest
from longhaul.tasks.probe.chase import STEP_COST, best_return, chase_envs
from longhaul.tasks.probe.lock import LockFactory
from longhaul.tasks.probe.recall import RecallFactory

PROBES = ("recall", "chase", "lock")
NEAR_ENOUGH = 0.95
"""The share of the best possible return at which a probe counts as solved."""


@dataclass(frozen=True, slots=True)
class ProbeOptions:
    """How hard the probes are."""

    cues: int = 4
    """recall: how many different things there are to remember."""
    delay: int = 8
    """recall: steps between the cue and the question."""
    walkers: int = 4
    """chase: rows of one environment."""
    time_limit: int = 20
    """chase: steps after which an episode is cut."""

    positions: int = 20
    """lock: right choices in a row that open it."""
    choices: int = 4
    """lock: choices at each position, one of them right."""

    def __post_init__(self) -> None:
        ranges = {
            AT_LEAST_2: "cues positions choices",
            AT_LEAST_1: "walkers time_limit",
            AT_LEAST_0: "delay",
        }
        check_ranges(self, "options", ranges)


def build(request: TaskRequest) -> Task:
    """Return the named probe."""
    options: ProbeOptions = request.options
    if request.argument == "recall":
        return _recall(request, options)
    if request.argument == "chase":
        return _chase(request, options)
    if request.argument == "lock":
        return _lock(request, options)
    raise ConfigError(
        f"there is no probe {request.argument!r}{suggestion(request.argument, PROBES)}"
        f" (probes: {', '.join(PROBES)})"
    )


def _recall(request: TaskRequest, options: ProbeOptions) -> Task:
    factory = RecallFactory(cues=options.cues, delay=options.delay)
    return Task(
        name="probe:recall",
        envs=SingleEnvs(factory.spec, factory),
        make_policy=lambda: build_policy(factory.spec, request.policy),
        summarize=_share_right,
        metrics=(Metric("env/right", "share of questions answered rightly"),),
        evaluation=Evaluation(solved=NEAR_ENOUGH),
        panels=(Panel("Memory", ("env/right", "eval/mean_reward")),),
    )


def _share_right(episodes: Sequence[Episode]) -> Metrics:
    if not episodes:
        return {}
    return {"env/right": sum(e.metrics["right"] for e in episodes) / len(episodes)}


def _chase(request: TaskRequest, options: ProbeOptions) -> Task:
    envs = chase_envs(rows=options.walkers, time_limit=options.time_limit)
    return Task(
        name="probe:chase",
        envs=envs,
        make_policy=lambda: build_policy(envs.spec, request.policy),
        summarize=lambda episodes: {},
        settings=(STEP_COST,),
        evaluation=Evaluation(solved=NEAR_ENOUGH * best_return()),
        panels=(Panel("Return", ("rollout/ep_rew_mean", "eval/mean_reward")),),
    )


def _lock(request: TaskRequest, options: ProbeOptions) -> Task:
    factory = LockFactory(positions=options.positions, choices=options.choices)
    return Task(
        name="probe:lock",
        envs=SingleEnvs(factory.spec, factory),
        make_policy=lambda: build_policy(factory.spec, request.policy),
        summarize=lambda episodes: {},
        evaluation=Evaluation(solved=NEAR_ENOUGH),
        panels=(Panel("Opened", ("rollout/ep_rew_mean", "eval/mean_reward")),),
    )


TASK = TaskKind(
    name="probe",
    summary="tiny tasks with known answers, to check a learner in seconds",
    options=ProbeOptions,
    build=build,
    examples=("probe:recall", "probe:chase", "probe:lock"),
    presets=Path(__file__).parent / "presets",
)

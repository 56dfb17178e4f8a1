"""The whole configuration of a run."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from longhaul.cluster.config import ClusterConfig
from longhaul.core.config import flatten, merge, value_words
from longhaul.core.control import Controller, RunLength
from longhaul.core.errors import ConfigError
from longhaul.engine.config import CollectConfig, EvaluateConfig
from longhaul.envs.config import EnvConfig
from longhaul.hints.advisor import HintsConfig
from longhaul.learn.config import CONFIG_KEYS, OnPolicyConfig, PPOConfig
from longhaul.nets.config import PolicyConfig
from longhaul.runs.config import CheckpointConfig, LogConfig, ReportConfig, TrackConfig
from longhaul.runs.monitor.resources import WatchConfig
from longhaul.schedule.schedule import Follows
from longhaul.tasks.kind import TaskKind


@dataclass(frozen=True, slots=True)
class RunConfig:
    """Values fixed for a run; what may change during it is a setting."""

    task: str
    """Task to train on, `name` or `name:argument`; `longhaul tasks` lists them."""
    name: str = "default"
    """The run's name; the same task, name and seed continue an unfinished run."""
    seed: int = 1
    """Every random draw of the run derives from this number."""
    start_from: str = ""
    """Run, checkpoint, exported policy or `zoo:NAME` whose weights initialize the network. Of a
    run, the best evaluated checkpoint is used, else the latest. Empty: random weights."""
    total_timesteps: int = 100_000
    """Steps to train for, summed over all agents; the last rollout may exceed it."""
    total_iterations: int = 0
    """Iterations to train for, instead of `total_timesteps`; 0 counts steps."""
    total_episodes: int = 0
    """Finished episodes to train for, instead of steps or iterations; the run ends with the rollout
    in which the last one ends. 0 counts steps or iterations."""
    num_envs: int = 16
    """Environments stepped in parallel."""
    device: str = "auto"
    """`auto` uses CUDA if available; or `cpu`, `cuda`, `cuda:1`."""
    threads: int = 1
    """Threads torch uses within one operation; results depend on this number."""
    deterministic: bool = True
    """Use torch's deterministic algorithms, which exact resume needs."""
    options: dict[str, Any] = field(default_factory=dict)
    """The task's own options; `longhaul config TASK` shows them."""
    env: EnvConfig = field(default_factory=EnvConfig)
    """How environments are run."""
    collect: CollectConfig = field(default_factory=CollectConfig)
    """How rollouts are collected."""
    cluster: ClusterConfig = field(default_factory=ClusterConfig)
    """Collectors on other machines."""
    policy: PolicyConfig = field(default_factory=PolicyConfig)
    """The network."""
    learn: OnPolicyConfig = field(default_factory=PPOConfig)
    """The learner."""
    schedule: tuple[dict[str, Any], ...] = ()
    """Controllers, one `[[schedule]]` table each, in the order they decide."""
    evaluate: EvaluateConfig = field(default_factory=EvaluateConfig)
    """How the policy is evaluated."""
    checkpoint: CheckpointConfig = field(default_factory=CheckpointConfig)
    """When to save and what to keep."""
    report: ReportConfig = field(default_factory=ReportConfig)
    """Films, plots and the report."""
    log: LogConfig = field(default_factory=LogConfig)
    """How logs are kept."""
    track: TrackConfig = field(default_factory=TrackConfig)
    """Experiment trackers that receive curves while the run trains."""
    hints: HintsConfig = field(default_factory=HintsConfig)
    """Hints about problems of the run."""
    watch: WatchConfig = field(default_factory=WatchConfig)
    """How stalls are detected."""

    def __post_init__(self) -> None:
        for key, value in (
            ("total_timesteps", self.total_timesteps),
            ("num_envs", self.num_envs),
            ("threads", self.threads),
        ):
            if value < 1:
                raise ConfigError(f"{key} must be at least 1, not {value}")
        for key, value in (
            ("total_iterations", self.total_iterations),
            ("total_episodes", self.total_episodes),
            ("seed", self.seed),
        ):
            if value < 0:
                raise ConfigError(f"{key} must be at least 0, not {value}")
        if self.total_iterations and self.total_episodes:
            raise ConfigError(
                f"total_iterations = {self.total_iterations} and total_episodes = "
                f"{self.total_episodes} are two lengths of one run; set one of them to 0"
            )

    @property
    def length(self) -> RunLength:
        """How long the run is trained."""
        return RunLength(self.total_timesteps, self.total_iterations, self.total_episodes)


FREE_TO_CHANGE = (
    "total_timesteps",
    "total_episodes",
    "checkpoint",
    "report",
    "log",
    "track",
    "hints",
    "watch",
    "evaluate.final_episodes",
    "evaluate.num_envs",
    "env.processes",
    "env.most_dropped",
    "policy.compile",
    "cluster.address",
    "cluster.cpus_per_collector",
    "cluster.max_lag",
    "cluster.quorum",
    "cluster.patience",
    "cluster.least_deadline_seconds",
    "cluster.connect_seconds",
    "cluster.start_seconds",
    "cluster.most_deaths",
    "cluster.object_store_megabytes",
)
"""Keys that may change when a run is resumed: they affect when it stops or what is kept. A schedule
along `run` follows a changed length: it is stretched over the longer run."""


BEGINNING = ("ramp", "adaptive")
"""Kinds of controllers that start at the config value of their setting by default."""


def setting_keys(kind: TaskKind) -> dict[str, str]:
    """Return the config key of each setting whose initial value is in the config."""
    return {**CONFIG_KEYS, **kind.setting_keys}


def with_starts(
    tables: tuple[dict[str, Any], ...], held: Mapping[str, Any], kind: TaskKind
) -> tuple[dict[str, Any], ...]:
    """Return the schedule with missing starts filled in; `held` is the flat config."""
    keys = setting_keys(kind)
    return tuple(
        {**table, "start": held[keys[table["setting"]]]}
        if table.get("kind") in BEGINNING
        and keys.get(table.get("setting", "")) in held
        and "start" not in table
        else table
        for table in tables
    )


def overlay(
    values: Mapping[str, Any], layer: Mapping[str, Any], defaults: Mapping[str, Any], kind: TaskKind
) -> dict[str, Any]:
    """Return `values` updated by a layer; controllers that start at a changed key are scaled.

    `defaults` is the flat default config.
    """
    merged = merge(values, layer)
    tables = values.get("schedule")
    if "schedule" in layer or not isinstance(tables, (list, tuple)):
        return merged
    before, given, keys = {**defaults, **flatten(values)}, flatten(layer), setting_keys(kind)
    merged["schedule"] = [
        _moved(table, before[key], given[key])
        if isinstance(table, Mapping) and (key := keys.get(str(table.get("setting")))) in given
        else table
        for table in tables
    ]
    return merged


def _moved(table: Mapping[str, Any], before: object, after: object) -> dict[str, Any]:
    """Return a controller's table with start and end scaled by the ratio of the two values."""
    begins_there = table.get("kind") in BEGINNING and table.get("start", before) == before
    if not begins_there or not is_number(before) or not is_number(after):
        return dict(table)
    moved = {**table, "start": after}
    if is_number(table.get("end")) and before:
        moved["end"] = table["end"] * (after / before)  # type: ignore[operator]  # both are numbers
    return moved


def is_number(value: object) -> bool:
    """Whether a value is a number; booleans are not."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def refuse_overwritten(config: RunConfig, given: Collection[str], kind: TaskKind) -> None:
    """Raise if a controller overwrites the value of a given key before the first iteration."""
    asked = {name: key for name, key in setting_keys(kind).items() if key in given}
    if not asked or not (config.schedule or kind.controller_keys):
        return
    # Imported late: building a task takes seconds, and most values need none.
    from longhaul.app.build.components import build_schedule, build_settings, build_task
    from longhaul.app.build.env_output import env_output

    with env_output():
        task = build_task(config)
    settings = build_settings(config, task)
    schedule = build_schedule(config, task, settings)
    wanted, first = settings.values(), schedule.begin(settings)[0].values()
    for controller in schedule.controllers:
        follows = controller.follows if isinstance(controller, Follows) else ()
        for name in controller.writes:
            if name in asked and name not in follows and first[name] != wanted[name]:
                what = f"{asked[name]} = {value_words(wanted[name])} would have no effect"
                raise ConfigError(f"{what}: {_instead(controller, name, first[name], kind)}")


def _instead(controller: Controller[Any], name: str, first: object, kind: TaskKind) -> str:
    """Return which controller sets the setting, and what to change instead of its config key."""
    value = f"{first:g}" if isinstance(first, float) else value_words(first)
    sets = f"sets {name} to {value} before the first iteration"
    if own := kind.controller_keys.get(controller.name):
        return f"the controller {controller.name!r} of {own} {sets}; change {own} instead"
    change = "remove its start" if isinstance(controller, Follows) else "change that controller"
    return (
        f"schedule.{controller.name} {sets}; {change}, leave the key out, or switch off all "
        "schedules with --set schedule=[]"
    )


@dataclass(frozen=True, slots=True)
class SessionOptions:
    """Options of a session that are not part of the run's config."""

    as_json: bool = False
    quiet: bool = False
    require_gpu: bool = False
    report: bool = False
    """Whether a finished run writes films, plots and a report, as its config specifies."""
    on_memory: str = "stop"
    """What to do when memory runs out: stop, or shrink, beginning again with half the size."""

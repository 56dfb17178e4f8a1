"""The whole configuration of a run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from longhaul.cluster.config import ClusterConfig
from longhaul.core.errors import ConfigError
from longhaul.engine.config import CollectConfig, EvaluateConfig
from longhaul.envs.config import EnvConfig
from longhaul.hints.catalogue import HintsConfig
from longhaul.learn.config import LearnConfig
from longhaul.nets.config import PolicyConfig
from longhaul.report.config import ReportConfig
from longhaul.runs.config import CheckpointConfig, LogConfig, TrackConfig
from longhaul.runs.watch_config import WatchConfig


@dataclass(frozen=True, slots=True)
class RunConfig:
    """Values fixed for a run; what may change during it is a setting."""

    task: str
    """What to train on, `name` or `name:argument`; `longhaul tasks` lists them."""
    name: str = "default"
    """The run's name; the same task, name and seed continue an unfinished run."""
    seed: int = 1
    """Every random draw of the run derives from this number."""
    start_from: str = ""
    """A run, or one of its checkpoints, whose weights the network begins with; of a run the best
    one that was measured, else the latest. Empty begins with random weights."""
    total_timesteps: int = 100_000
    """Steps to train for, counted over all rows; the last rollout may go past it."""
    total_iterations: int = 0
    """Iterations to train for, in place of `total_timesteps`; 0 counts steps."""
    num_envs: int = 16
    """Environments stepped side by side."""
    device: str = "auto"
    """`auto` takes CUDA when it is there; `cpu`, `cuda` or `cuda:1` say it outright."""
    threads: int = 1
    """Threads torch uses within one operation; part of what makes a run repeatable."""
    deterministic: bool = True
    """Ask torch for deterministic algorithms, which exact resume needs."""
    options: dict[str, Any] = field(default_factory=dict)
    """The task's own options; `longhaul config TASK` shows them."""
    env: EnvConfig = field(default_factory=EnvConfig)
    """How environments are run."""
    collect: CollectConfig = field(default_factory=CollectConfig)
    """How rollouts are made."""
    cluster: ClusterConfig = field(default_factory=ClusterConfig)
    """Collectors on other machines."""
    policy: PolicyConfig = field(default_factory=PolicyConfig)
    """The network."""
    learn: LearnConfig = field(default_factory=LearnConfig)
    """The learner."""
    schedule: tuple[dict[str, Any], ...] = ()
    """Controllers, one `[[schedule]]` table each, in the order they decide."""
    evaluate: EvaluateConfig = field(default_factory=EvaluateConfig)
    """How the policy is measured."""
    checkpoint: CheckpointConfig = field(default_factory=CheckpointConfig)
    """When to save and what to keep."""
    report: ReportConfig = field(default_factory=ReportConfig)
    """What is left behind for people to look at."""
    log: LogConfig = field(default_factory=LogConfig)
    """How logs are kept."""
    track: TrackConfig = field(default_factory=TrackConfig)
    """Where curves are shown while the run trains."""
    hints: HintsConfig = field(default_factory=HintsConfig)
    """What the run may say about itself."""
    watch: WatchConfig = field(default_factory=WatchConfig)
    """How the run notices that it is stuck."""

    def __post_init__(self) -> None:
        for key, value in (
            ("total_timesteps", self.total_timesteps),
            ("num_envs", self.num_envs),
            ("threads", self.threads),
        ):
            if value < 1:
                raise ConfigError(f"{key} must be at least 1, not {value}")
        if self.total_iterations < 0:
            raise ConfigError(
                f"total_iterations cannot be negative, but is {self.total_iterations}"
            )
        if self.seed < 0:
            raise ConfigError(f"seed cannot be negative, but is {self.seed}")


FREE_TO_CHANGE = (
    "total_timesteps",
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
"""Keys that may differ when a run goes on: they change when it stops or what is kept. A schedule
along `run` does follow a changed `total_timesteps`: it is stretched over the longer run."""

"""Config of checkpoints, logs and trackers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from longhaul.core.errors import ConfigError

TrackerName = Literal["tensorboard", "wandb", "mlflow"]


def require_least(table: str, config: object, **least: float) -> None:
    """Raise for the first of these keys of a table that is below its least value."""
    for name, low in least.items():
        value = getattr(config, name)
        if not value >= low:
            raise ConfigError(f"{table}.{name} = {value!r} must be at least {low}")


@dataclass(frozen=True, slots=True)
class CheckpointConfig:
    """When checkpoints are written and which ones stay."""

    every_iterations: int = 0
    """Save after this many iterations; 0 leaves it to `every_seconds`."""

    every_seconds: float = 60.0
    """Save when this many seconds have passed since the last checkpoint; 0 turns it off. Saving
    never changes the results of the run."""

    most_share: float = 0.1
    """Largest share of the time that saving every `every_seconds` may take. Checkpoints that take
    long to write, such as those with a large replay buffer, are written less often."""

    keep_last: int = 3
    """How many of the newest checkpoints are kept, at least 1. If the newest is damaged, the run
    resumes from the one before it."""

    keep_best: int = 1
    """How many checkpoints with the best score are kept in addition."""

    keep_spread: int = 0
    """How many checkpoints spread evenly over the whole run are kept in addition, for studying the
    course of training."""

    best_metric: str = ""
    """The metric that scores a checkpoint; empty takes the task's own score."""

    higher_is_better: bool = True
    """Whether a higher score is better."""

    reserve_megabytes: int = 64
    """Disk space that must be free in addition to twice the size of the checkpoint."""

    def __post_init__(self) -> None:
        require_least(
            "checkpoint",
            self,
            every_iterations=0,
            every_seconds=0,
            keep_last=1,
            keep_best=0,
            keep_spread=0,
            reserve_megabytes=0,
        )
        if not 0 < self.most_share <= 1:
            raise ConfigError(
                f"checkpoint.most_share = {self.most_share!r} must be above 0 and at most 1"
            )


@dataclass(frozen=True, slots=True)
class LogConfig:
    """How a run's logs are kept; no row is ever deleted."""

    rotate_megabytes: float = 64.0
    """Size at which a log is compressed and a new file started; every command reads them as one
    log. 0 turns it off."""

    table: bool = True
    """Write metrics.parquet if pyarrow is installed."""

    table_seconds: float = 60.0
    """Time between two updates of metrics.parquet; 0 writes it only at the end. Writing takes at
    most 1 % of the time."""

    resource_seconds: float = 10.0
    """Time between two samples of the memory and CPU of all processes; 0 turns it off."""

    def __post_init__(self) -> None:
        require_least("log", self, rotate_megabytes=0, table_seconds=0, resource_seconds=0)


@dataclass(frozen=True, slots=True)
class TrackConfig:
    """Trackers that metrics are sent to; a tracker never slows down or stops a run."""

    to: tuple[TrackerName, ...] = ()
    """Trackers to send metrics, histograms and films to; `--track` adds one. TensorBoard's files
    are in the run directory."""

    project: str = "longhaul"
    """The project of Weights & Biases, and the experiment of MLflow."""

    mlflow_uri: str = ""
    """Where MLflow keeps its runs; empty takes MLFLOW_TRACKING_URI, or else MLflow's own default:
    the file `mlflow.db` in the working directory from MLflow 3 on, the folder `mlruns` before."""

    histogram_seconds: float = 60.0
    """Time between two histograms of weights, returns and lengths; 0 turns them off."""

    queue: int = 1000
    """Iterations that may wait for a slow tracker; more are dropped and counted."""

    patience_seconds: float = 10.0
    """How long the start of a run waits for trackers to open, and its end for them to take the
    rest."""

    def __post_init__(self) -> None:
        require_least("track", self, histogram_seconds=0, queue=1, patience_seconds=0)
        if len(set(self.to)) < len(self.to):
            raise ConfigError(f"track.to = {list(self.to)} names a tracker twice")

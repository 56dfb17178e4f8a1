"""How often a run is saved, what is kept, and where else it is shown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from longhaul.core.errors import ConfigError

TrackerName = Literal["tensorboard", "wandb", "mlflow"]


@dataclass(frozen=True, slots=True)
class CheckpointConfig:
    """When checkpoints are written and which ones stay."""

    every_iterations: int = 0
    """Save after this many iterations; 0 leaves it to `every_seconds`."""

    every_seconds: float = 60.0
    """Save when this many seconds have passed since the last checkpoint; 0 turns it off. The
    moment of saving changes nothing in the run."""

    most_share: float = 0.1
    """Largest share of the time that saving every `every_seconds` may take: a checkpoint that takes
    long, as one with a large replay does, is written less often."""

    keep_last: int = 3
    """How many of the newest checkpoints stay, at least 1. More than one is what a damaged newest
    checkpoint falls back to."""

    keep_best: int = 1
    """How many checkpoints with the best score stay beside the newest ones."""

    keep_spread: int = 0
    """How many checkpoints spread over the whole run stay beside those, to look back on how it was
    learned; the crowded ones between the first and the newest go."""

    best_metric: str = ""
    """The metric that scores a checkpoint; empty takes the task's own score."""

    higher_is_better: bool = True
    """Whether a greater score is a better one."""

    reserve_megabytes: int = 64
    """Disk space that must stay free beside twice the size of the checkpoint to be written."""

    def __post_init__(self) -> None:
        for name, value, low in (
            ("every_iterations", self.every_iterations, 0),
            ("every_seconds", self.every_seconds, 0),
            ("keep_last", self.keep_last, 1),
            ("keep_best", self.keep_best, 0),
            ("keep_spread", self.keep_spread, 0),
            ("reserve_megabytes", self.reserve_megabytes, 0),
        ):
            if not value >= low:
                raise ConfigError(f"checkpoint.{name} = {value!r} must be at least {low}")
        if not 0 < self.most_share <= 1:
            raise ConfigError(
                f"checkpoint.most_share = {self.most_share!r} must be above 0 and at most 1"
            )


@dataclass(frozen=True, slots=True)
class LogConfig:
    """How a run's logs are kept; nothing of them is ever deleted."""

    rotate_megabytes: float = 64.0
    """Size at which a log is sealed and compressed beside its successor, read as one by every
    command; 0 never does it."""

    table: bool = True
    """Keep metrics.parquet, if pyarrow is there to write it."""

    table_seconds: float = 60.0
    """Time between two writings of metrics.parquet; 0 writes it only at the end. It takes at most
    a hundredth of the time."""

    resource_seconds: float = 10.0
    """Time between two looks at the memory and processors of all processes; 0 never looks."""

    def __post_init__(self) -> None:
        for name, value in (
            ("rotate_megabytes", self.rotate_megabytes),
            ("table_seconds", self.table_seconds),
            ("resource_seconds", self.resource_seconds),
        ):
            if not value >= 0:
                raise ConfigError(f"log.{name} = {value!r} must be at least 0")


@dataclass(frozen=True, slots=True)
class TrackConfig:
    """Where curves are shown beside the run directory; a tracker never slows or stops a run."""

    to: tuple[TrackerName, ...] = ()
    """Trackers to send metrics, histograms and films to; `--track` adds one. TensorBoard's files
    are in the run directory."""

    project: str = "longhaul"
    """The project of Weights & Biases, and the experiment of MLflow."""

    mlflow_uri: str = ""
    """Where MLflow keeps its runs; empty takes MLFLOW_TRACKING_URI, or else MLflow's own default:
    the file `mlflow.db` in the working directory from MLflow 3 on, the folder `mlruns` before."""

    histogram_seconds: float = 60.0
    """Time between two histograms of weights, returns and lengths; 0 leaves them out."""

    queue: int = 1000
    """Iterations that may wait for a slow tracker; more are dropped and counted."""

    patience_seconds: float = 10.0
    """How long the beginning of a run waits for trackers to open, and its end for them to take
    what is left."""

    def __post_init__(self) -> None:
        for name, value, low in (
            ("histogram_seconds", self.histogram_seconds, 0),
            ("queue", self.queue, 1),
            ("patience_seconds", self.patience_seconds, 0),
        ):
            if not value >= low:
                raise ConfigError(f"track.{name} = {value!r} must be at least {low}")
        if len(set(self.to)) < len(self.to):
            raise ConfigError(f"track.to = {list(self.to)} names a tracker twice")

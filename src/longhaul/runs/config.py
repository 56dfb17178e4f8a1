"""Config of what a run keeps and shows: checkpoints, logs, trackers, report."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from longhaul.core.config import AT_LEAST_0, AT_LEAST_1, PART, Ranges, check_ranges
from longhaul.core.errors import ConfigError

TrackerName = Literal["tensorboard", "wandb", "mlflow"]


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
        check_ranges(self, "checkpoint", _CHECKPOINT_RANGES)


_CHECKPOINT_RANGES: Ranges = {
    AT_LEAST_0: "every_iterations every_seconds keep_best keep_spread reserve_megabytes",
    AT_LEAST_1: "keep_last",
    PART: "most_share",
}


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
        check_ranges(self, "log", {AT_LEAST_0: "rotate_megabytes table_seconds resource_seconds"})


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
        check_ranges(
            self, "track", {AT_LEAST_0: "histogram_seconds patience_seconds", AT_LEAST_1: "queue"}
        )
        if len(set(self.to)) < len(self.to):
            raise ConfigError(f"track.to = {list(self.to)} names a tracker twice")


EPISODES = ("worst", "median", "best")


@dataclass(frozen=True, slots=True)
class ReportConfig:
    """Settings of the `[report]` table: plots, films and reports."""

    at_end: bool = True
    """Write plots, a report and a notebook when training ends."""
    films: tuple[str, ...] = ("median", "worst")
    """Episodes of the final evaluation to film at the end: `worst`, `median`, `best`."""
    film_evaluations: int = 0
    """Number of worst episodes to film of every evaluation during training; the flag
    `--capture-video` films one."""

    film_closely: int = 0
    """Steps of an episode that are filmed one by one; later steps are shown four times as
    fast. 0 shows the whole episode at one speed."""

    snapshots: int = 0
    """Checkpoints spread over the run to show side by side when training ends, each at the same
    step of the same episode; 0 turns it off. `checkpoint.keep_spread` keeps them."""
    snapshot_step: int = 100
    """The step of the episode that snapshots show."""
    snapshot_seed: int = 42
    """The seed of the episode that snapshots show."""

    study: int = 6
    """For tasks that study their policies: episodes of the final evaluation to replay for the study
    when training ends; 0 turns it off."""

    def __post_init__(self) -> None:
        numbers = "study film_evaluations film_closely snapshots snapshot_step snapshot_seed"
        check_ranges(self, "report", {AT_LEAST_0: numbers})
        for name in self.films:
            if name not in EPISODES:
                raise ConfigError(f"report.films holds {name!r}; there are {', '.join(EPISODES)}")

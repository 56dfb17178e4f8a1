"""Building the experiment trackers of a run, and reporting their problems."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from longhaul.app.artifacts.records import opening_settings
from longhaul.app.build.config import RunConfig
from longhaul.app.build.metrics import declared_metrics
from longhaul.app.build.sources import to_values
from longhaul.app.evaluation.load import Run
from longhaul.core.control import Progress
from longhaul.core.metrics import Alias, Metrics, alias_curves
from longhaul.core.parts import RunListener
from longhaul.core.policy import Policy
from longhaul.core.task import Task
from longhaul.report.film import FilmError, gif_of
from longhaul.runs.config import TrackConfig, TrackerName
from longhaul.runs.directory import RunDirectory
from longhaul.runs.lock import Clocks
from longhaul.runs.logs.jsonl import WriteNote
from longhaul.runs.track.background import BackgroundTracker, Feed, Points
from longhaul.runs.track.tracker import (
    MissingPackageError,
    Subject,
    Tracker,
    UnusableTrackerError,
)

MOST_WEIGHTS = 100_000
"""Numbers of one tensor that go into a histogram."""


def check_trackers(config: TrackConfig) -> None:
    """Raise if the package of a tracker is missing, before the run begins."""
    for name in config.to:
        kind = TRACKERS[name]
        if importlib.util.find_spec(kind.package) is None:
            raise MissingPackageError(name, kind.extra)


class Tracking:
    """All trackers of a run."""

    def __init__(
        self,
        trackers: Mapping[TrackerName, BackgroundTracker],
        keeper: BackgroundTracker | None = None,
        aliases: tuple[Alias, ...] = (),
    ) -> None:
        self._trackers = dict(trackers)
        self._aliases = aliases
        self.listeners: tuple[RunListener, ...] = (
            *([keeper] if keeper is not None else []),
            *self._trackers.values(),
        )

    def check(self, notify: Callable[[str], None], *, is_new: bool) -> None:
        """Wait until all are open; for a new run, one that cannot be opened is an error.

        An outage does not stop a resumed run, which may start unattended: it is reported, and the
        tracker is retried every minute.
        """
        for name, tracker in self._trackers.items():
            problem = tracker.opening_problem()
            if problem is None:
                notify(f"{name} does not answer; the run continues and sends the data later")
            elif problem and is_new:
                self._trackers.pop(name).close()  # without a second report by `finish`
                raise UnusableTrackerError(name, problem)
            elif problem:
                notify(f"{UnusableTrackerError(name, problem)}; it is retried every minute")

    def film(self, progress: Progress, rank: int, path: Path) -> None:
        """Send a film of an evaluation to all trackers, named by its rank; 1 is the worst."""
        for tracker in self._trackers.values():
            tracker.film(progress, f"eval/film_rank{rank}", path)

    def conclude(self, progress: Progress, metrics: Metrics) -> None:
        """Send the final evaluation to all trackers, at the run's last step."""
        scalars = {**metrics, **alias_curves(self._aliases, metrics)}
        for tracker in self._trackers.values():
            tracker.conclude(progress, scalars)

    def finish(self, note: WriteNote, notify: Callable[[str], None]) -> None:
        """Wait for all trackers, then report and record lost points; a second call does nothing."""
        trackers, self._trackers = self._trackers, {}
        for name, tracker in trackers.items():
            tracker.close()
            tally = tracker.tally
            if tally.is_finished and not tally.dropped and not tally.failed:
                continue
            why = tally.problem or "it was too slow"
            lost = f"{tally.dropped + tally.failed} points" if tally.is_finished else "points"
            notify(f"{name} lacks {lost} of this run ({why}); the run directory has them all")
            note(
                "tracker_lost_points",
                tracker=name,
                sent=tally.sent,
                dropped=tally.dropped,
                failed=tally.failed,
                finished=tally.is_finished,
                problem=tally.problem,
            )


def begin_tracking(run: Run, policy: Policy, clocks: Clocks) -> Tracking:
    """Return the configured trackers, which follow the run as listeners."""
    config, task, track = run.config, run.task, run.config.track
    keeper = table_keeper(run.directory, config, task, clocks)
    if not track.to:
        return Tracking({}, keeper)
    subject = subject_of(run.directory, config, task)
    points = Points(run.directory, opening_settings(config, task), task.aliases)
    feed = Feed(
        points.scalars, points.history, lambda: sample_weights(policy), track.histogram_seconds
    )
    made = {
        name: BackgroundTracker(
            TRACKERS[name].make(subject, track, clocks),
            feed,
            clocks,
            capacity=track.queue,
            patience_seconds=track.patience_seconds,
        )
        for name in track.to
    }
    return Tracking(made, keeper, task.aliases)


def table_keeper(
    run: RunDirectory, config: RunConfig, task: Task, clocks: Clocks
) -> BackgroundTracker | None:
    """Return the listener that keeps metrics.parquet current; None without pyarrow."""
    if not config.log.table or importlib.util.find_spec("pyarrow") is None:
        return None
    from longhaul.runs.logs.table import TableKeeper

    points = Points(run, opening_settings(config, task))
    keeper = TableKeeper(run, clocks, every_seconds=config.log.table_seconds)
    feed = Feed(points.scalars, points.history, dict, histogram_seconds=0.0)
    return BackgroundTracker(keeper, feed, clocks, patience_seconds=config.track.patience_seconds)


def subject_of(run: RunDirectory, config: RunConfig, task: Task) -> Subject:
    """Return the run's description for trackers."""
    meanings = {metric.name: metric.described for metric in declared_metrics([task])}
    return Subject(run.path, config.task, config.name, config.seed, to_values(config), meanings)


def _tensorboard(subject: Subject, track: TrackConfig, clocks: Clocks) -> Tracker:
    from longhaul.runs.track.tensorboard import TensorBoard

    return TensorBoard(subject, clocks, moving_picture)


def _wandb(subject: Subject, track: TrackConfig, clocks: Clocks) -> Tracker:
    from longhaul.runs.track.weights_and_biases import WeightsAndBiases

    return WeightsAndBiases(subject, track.project)


def _mlflow(subject: Subject, track: TrackConfig, clocks: Clocks) -> Tracker:
    from longhaul.runs.track.mlflow import MLflow

    return MLflow(subject, track.project, track.mlflow_uri)


@dataclass(frozen=True, slots=True)
class TrackerKind:
    """One kind of tracker."""

    package: str
    extra: str
    """The extra of longhaul that installs the package."""
    make: Callable[[Subject, TrackConfig, Clocks], Tracker]
    """Imports the package and makes the tracker."""


TRACKERS: dict[str, TrackerKind] = {
    "tensorboard": TrackerKind("tensorboardX", "tb", _tensorboard),
    "wandb": TrackerKind("wandb", "wandb", _wandb),
    "mlflow": TrackerKind("mlflow", "mlflow", _mlflow),
}
"""All trackers by their name in the config; a benchmark adds one."""


def moving_picture(path: Path) -> tuple[bytes, int, int] | None:
    """Return a film as a GIF with its size; None if it cannot be converted."""
    try:
        content = gif_of(path)
    except FilmError:
        return None
    width, height = (int.from_bytes(content[at : at + 2], "little") for at in (6, 8))
    return content, width, height


def sample_weights(policy: Policy) -> dict[str, NDArray[np.float32]]:
    """Return copies of the policy's weights, subsampled where a tensor is large."""
    found = {}
    with torch.no_grad():
        for name, weights in policy.named_parameters():
            flat = weights.detach().flatten()
            flat = flat[:: max(flat.numel() // MOST_WEIGHTS, 1)]
            found[name] = flat.to("cpu", torch.float32, copy=True).numpy()
    return found

"""Points, and the interface of trackers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from longhaul.core.control import Progress
from longhaul.core.errors import ConfigError

NOTHING = -1
"""The known steps of a tracker that has no points of the run."""


@dataclass(frozen=True, slots=True)
class Point:
    """The values of one moment of a run."""

    env_steps: int
    wall: float  # seconds since 1970
    scalars: Mapping[str, float] = field(default_factory=dict)
    histograms: Mapping[str, NDArray[np.float32]] = field(default_factory=dict)
    films: Mapping[str, Path] = field(default_factory=dict)
    is_final: bool = False
    """Whether it is that of the final evaluation, which comes beside the last iteration's."""


@dataclass(frozen=True, slots=True)
class Subject:
    """The run that is tracked."""

    directory: Path
    task: str
    name: str
    seed: int
    config: Mapping[str, Any]
    meanings: Mapping[str, str] = field(default_factory=dict)
    """What the declared metrics mean; names may hold `<words>`."""

    @property
    def id(self) -> str:
        """The same for every process of the run, and for no other run."""
        return f"{self.task}-{self.directory.name}".replace(":", "-").replace("/", "-")


class Tracker(Protocol):
    """A destination of points. Its methods are called by one thread, and may block or fail."""

    def open(self, progress: Progress) -> int:
        """Start or continue, dropping younger points; return the last step that has scalars."""

    def write(self, point: Point) -> None:
        """Take a point; they come in the order of their steps."""

    def flush(self) -> None:
        """Make the points so far visible to readers; a no-op unless points are buffered."""
        return

    def close(self) -> None:
        """End."""

    def abandon(self) -> None:
        """Stop keeping the process alive; called by the run, at any time; a no-op by default."""
        return


class MissingPackageError(ConfigError):
    """A requested tracker needs a package that is not installed."""

    def __init__(self, tracker: str, extra: str) -> None:
        super().__init__(
            f"track.to names {tracker!r}, whose package is not installed: "
            f"pip install 'longhaul-rl[{extra}]', or leave it out"
        )


REMEDIES = {
    "tensorboard": "make the run's folder tensorboard/ writable",
    "wandb": "log in with `wandb login`, or set WANDB_MODE=offline",
    "mlflow": "check track.mlflow_uri or MLFLOW_TRACKING_URI",
}
"""Remedies for a tracker that cannot be opened."""


class UnusableTrackerError(ConfigError):
    """A requested tracker cannot be opened."""

    def __init__(self, tracker: str, problem: str) -> None:
        remedy = f"{REMEDIES[tracker]}, or" if tracker in REMEDIES else "check it, or"
        super().__init__(
            f"track.to names {tracker!r}, which cannot be opened ({problem}); {remedy} leave it "
            f"out of --track and track.to"
        )

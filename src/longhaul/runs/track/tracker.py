"""What goes to a tracker, and what a tracker must be able to do."""

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
"""The steps up to which a tracker that knows nothing of the run has it."""


@dataclass(frozen=True, slots=True)
class Point:
    """What is told of one moment of a run."""

    env_steps: int
    wall: float  # seconds since 1970
    scalars: Mapping[str, float] = field(default_factory=dict)
    histograms: Mapping[str, NDArray[np.float32]] = field(default_factory=dict)
    films: Mapping[str, Path] = field(default_factory=dict)
    is_final: bool = False
    """Whether it is that of the final evaluation, which comes beside the last iteration's."""


@dataclass(frozen=True, slots=True)
class Subject:
    """The run that is tracked, as a tracker introduces it to people."""

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
    """Somewhere points go. Its methods are called by one thread, and may block or fail."""

    def open(self, progress: Progress) -> int:
        """Begin or go on, forgetting what is younger; return up to which step scalars are there."""

    def write(self, point: Point) -> None:
        """Take a point; they come in the order of their steps."""

    def flush(self) -> None:
        """Make what was taken visible to readers."""

    def close(self) -> None:
        """End."""

    def abandon(self) -> None:
        """Let nothing keep the process alive; called by the run, whatever the thread is doing."""


class MissingPackageError(ConfigError):
    """A tracker was asked for whose package is not installed."""

    def __init__(self, tracker: str, extra: str) -> None:
        super().__init__(
            f"track.to names {tracker!r}, whose package is not installed: "
            f"pip install 'longhaul[{extra}]', or leave it out"
        )


REMEDIES = {
    "tensorboard": "make the run's folder tensorboard/ writable",
    "wandb": "log in with `wandb login`, or set WANDB_MODE=offline",
    "mlflow": "check track.mlflow_uri or MLFLOW_TRACKING_URI",
}
"""What helps when a tracker cannot be opened."""


class UnusableTrackerError(ConfigError):
    """A tracker was asked for that cannot be opened."""

    def __init__(self, tracker: str, problem: str) -> None:
        remedy = f"{REMEDIES[tracker]}, or" if tracker in REMEDIES else "check it, or"
        super().__init__(
            f"track.to names {tracker!r}, which cannot be opened ({problem}); {remedy} leave it "
            f"out of --track and track.to"
        )

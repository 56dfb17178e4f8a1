"""Weights & Biases: online, offline or disabled, as its environment variables and login say."""

from __future__ import annotations

import atexit
import contextlib
import os
import threading
import time
from typing import Any

import psutil

from longhaul.core.control import Progress
from longhaul.runs.track.tracker import NOTHING, MissingPackageError, Point, Subject, Tracker

try:
    import wandb
except ModuleNotFoundError as error:
    raise MissingPackageError("wandb", "wandb") from error

LONGEST_ID = 128
GOODBYE_SECONDS = 1.0
SERVICE = "wandb-core"
"""The process the package starts."""


class WeightsAndBiases(Tracker):
    """Sends points to one W&B run, which every process of our run continues."""

    def __init__(self, subject: Subject, project: str) -> None:
        self._subject = subject
        self._project = project
        self._run: Any = None
        self._known = NOTHING

    def open(self, progress: Progress) -> int:
        """Continue the run of this id, or start one.

        Points sent after the checkpoint stay, because W&B cannot delete them; the resumed run
        makes the same points again. An offline folder gets all points again.
        """
        subject = self._subject
        os.environ.setdefault("WANDB_SILENT", "true")
        self._run = wandb.init(
            project=self._project,
            id=subject.id[-LONGEST_ID:],
            name=f"{subject.name}-s{subject.seed}",
            group=subject.task.replace(":", "-"),
            dir=str(subject.directory),
            config=dict(subject.config),
            resume="allow",
            reinit="create_new",
            settings=wandb.Settings(
                console="off",
                disable_git=True,
                disable_code=True,
                silent=True,
                x_disable_stats=True,
            ),
        )
        self._known = int(self._run.step) - 1 if self._run.resumed else NOTHING
        return self._known

    def write(self, point: Point) -> None:
        """Log a moment under its number of steps.

        The final evaluation goes only into the summary if its step was logged before, because
        W&B accepts nothing for a step it has closed.
        """
        if point.is_final:
            self._run.summary.update(dict(point.scalars))
        if point.env_steps <= self._known:
            return
        values: dict[str, Any] = dict(point.scalars)
        values |= {name: wandb.Histogram(list(held)) for name, held in point.histograms.items()}
        values |= {
            name: wandb.Video(str(path), format=path.suffix[1:])
            for name, path in point.films.items()
        }
        self._run.log(values, step=point.env_steps)

    def close(self) -> None:
        """Finish the run of this process."""
        if self._run is not None:
            self._run.finish()
            self._run = None

    def abandon(self) -> None:
        """Make sure that the package's service, which retries a dead server for minutes, ends."""
        leaving = threading.Event()
        # The package talks to its service at exit and fails if it is gone, so the service ends
        # after that. The last registered function runs first.
        atexit.register(leaving.set)
        threading.Thread(target=_end_service, args=(leaving,), daemon=True).start()


def _end_service(leaving: threading.Event) -> None:
    """End the service a moment after the process begins to exit."""
    leaving.wait()
    time.sleep(GOODBYE_SECONDS)
    for child in psutil.Process().children():
        with contextlib.suppress(psutil.Error):
            if SERVICE in child.name():
                child.kill()

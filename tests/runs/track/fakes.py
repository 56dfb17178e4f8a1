"""Trackers that remember, hang or fail, and runs that have something to tell."""

from __future__ import annotations

import threading
from pathlib import Path

from longhaul.core.control import Progress
from longhaul.core.env import Episode
from longhaul.core.parts import Recorded
from longhaul.core.settings import Settings
from longhaul.runs.track.tracker import NOTHING, Point, Subject
from tests.runs.conftest import RATE


class Memory:
    """Remembers the points; knows the run up to some steps; may hang or fail."""

    def __init__(self, known: int = NOTHING) -> None:
        self.known = known
        self.points: list[Point] = []
        self.opened: Progress | None = None
        self.closed = self.abandoned = False
        self.held = threading.Event()
        self.held.set()
        self.failing = 0

    def open(self, progress: Progress) -> int:
        self.held.wait()
        self.opened = progress
        return self.known

    def write(self, point: Point) -> None:
        self.held.wait()
        if self.failing:
            self.failing -= 1
            raise ConnectionError("nobody answers")
        self.points.append(point)

    def flush(self) -> None:
        return

    def close(self) -> None:
        self.closed = True

    def abandon(self) -> None:
        self.abandoned = True


def subject(folder: Path) -> Subject:
    return Subject(
        folder,
        "gym:CartPole-v1",
        "first",
        3,
        {"seed": 3, "learn": {"n_epochs": 4}},
        {"train/loss": "the weighted sum of all parts", "reward/<term>": "sum of one term"},
    )


def recorded(iteration: int, *, value: float | None = None) -> Recorded:
    return Recorded(
        progress=Progress(iteration, 8 * iteration, iteration),
        metrics={"train/loss": 1.0 / iteration if value is None else value},
        timings={"time/wall": 1000.0 + iteration},
        settings=Settings([RATE], {"rate": 0.25}),
        episodes=[Episode(0, iteration, 7, 20, 1.5, "end")],
    )

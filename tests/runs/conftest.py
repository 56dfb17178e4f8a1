"""Small runs to break."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import torch

from longhaul.core.control import Progress
from longhaul.core.settings import Setting, Settings, SettingValue
from longhaul.core.state import State
from longhaul.runs.checkpoints.manifest import Stamp
from longhaul.runs.checkpoints.store import CheckpointContent, CheckpointStore
from longhaul.runs.config import CheckpointConfig
from longhaul.runs.directory import RunDirectory, begin_record, create_run
from longhaul.runs.lock import Clocks

NOON = datetime(2026, 1, 2, 12, 0, 0, tzinfo=UTC)
RATE = Setting("rate", 0.5, "how fast", 0.0, 1.0)
LEVELS: Setting[tuple[SettingValue, ...]] = Setting("levels", (1, 2), "which levels")
IDENTITY = {"task": "gym:CartPole-v1", "config": "abc"}


class FakeClock:
    """A clock that stands still until it is told to move."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds

    def clocks(self) -> Clocks:
        return Clocks(wall=self, monotonic=self)


def make_settings() -> Settings:
    return Settings([RATE])


def make_state(number: int) -> State:
    generator = torch.Generator().manual_seed(number)
    return {
        "weights": torch.randn(8, 5, generator=generator),
        "count": number,
        "name": f"state {number}",
    }


def make_snapshot(number: int, score: float | None = None) -> CheckpointContent:
    return CheckpointContent(
        progress=Progress(number, number * 100, number),
        settings=Settings([RATE], {"rate": number / 1000}),
        states={"learner": make_state(number), "schedule": {"streak": number}},
        logs={},
        score=score,
    )


def assert_same(left: Any, right: Any) -> None:
    """Compare two state trees exactly."""
    assert type(left) is type(right)
    if isinstance(left, dict):
        assert left.keys() == right.keys()
        for key in left:
            assert_same(left[key], right[key])
    elif isinstance(left, torch.Tensor):
        assert left.dtype == right.dtype
        assert left.shape == right.shape
        assert torch.equal(left, right)
    else:
        assert left == right


def listing(folder: Path) -> dict[str, bytes]:
    """Return every file below `folder` with its content."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    record = begin_record("gym:CartPole-v1", "first", 3, now=NOON, command=["longhaul", "train"])
    return create_run(tmp_path / "runs", record, "seed = 3\n")


@pytest.fixture
def make_store(tmp_path: Path, clock: FakeClock) -> Callable[..., CheckpointStore]:
    def make(**config: Any) -> CheckpointStore:
        folder = tmp_path / "checkpoints"
        return CheckpointStore(folder, CheckpointConfig(**config), Stamp(IDENTITY), clock.clocks())

    return make

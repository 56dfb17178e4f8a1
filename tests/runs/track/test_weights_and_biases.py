"""W&B's real package without its server: what it wrote is read back as its own messages."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from longhaul.core.control import Progress
from longhaul.runs.track.tracker import Point
from tests.runs.track.fakes import subject

pytestmark = [
    # What the package's own dependencies warn of is not ours to mend.
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.slow,  # it starts a process of its own
]


@pytest.fixture
def wandb(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Any]:
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_CONFIG_DIR", str(tmp_path / "config"))
    monkeypatch.setenv("WANDB_CACHE_DIR", str(tmp_path / "cache"))
    package = pytest.importorskip("wandb")
    yield package
    package.teardown()


def contents(path: Path) -> Iterator[bytes]:
    """Yield the records of an offline run: LevelDB's log format behind a header of seven bytes."""
    content, block, begun = path.read_bytes(), 32 * 1024, b""
    at = 7
    while at + 7 <= len(content):
        if block - at % block < 7:
            at += block - at % block
            continue
        length = int.from_bytes(content[at + 4 : at + 6], "little")
        kind = content[at + 6]
        begun += content[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4):  # whole, or the last piece
            yield begun
            begun = b""


def history(folder: Path) -> list[dict[str, Any]]:
    """Return the rows of the newest offline run."""
    from wandb.proto import wandb_internal_pb2

    path = max(folder.glob("wandb/offline-run-*/*.wandb"), key=lambda one: one.stat().st_mtime)
    rows = []
    for content in contents(path):
        record = wandb_internal_pb2.Record.FromString(content)
        if record.WhichOneof("record_type") == "history":
            items = record.history.item
            rows.append(
                {(one.key or "/".join(one.nested_key)): json.loads(one.value_json) for one in items}
            )
    return rows


def test_an_offline_run_holds_every_point(wandb: Any, tmp_path: Path) -> None:
    from longhaul.runs.track.weights_and_biases import WeightsAndBiases

    tracker = WeightsAndBiases(subject(tmp_path), "longhaul")
    assert tracker.open(Progress()) == -1
    numbers = {"weights/layer": np.ones(10, np.float32)}
    for iteration in range(1, 6):
        scalars = {"train/loss": 1 / iteration, "iteration": float(iteration)}
        tracker.write(Point(8 * iteration, 1.0, scalars, numbers if iteration == 3 else {}))
    tracker.close()
    wandb.teardown()  # its service has written all of the file when it has ended
    rows = history(tmp_path)
    assert [row["_step"] for row in rows] == [8, 16, 24, 32, 40]
    assert [row["train/loss"] for row in rows] == [1.0, 0.5, 1 / 3, 0.25, 0.2]
    assert rows[2]["weights/layer/_type"] == "histogram"
    assert sum(rows[2]["weights/layer/values"]) == 10


def test_an_offline_run_that_goes_on_gets_everything_anew(wandb: Any, tmp_path: Path) -> None:
    from longhaul.runs.track.weights_and_biases import WeightsAndBiases

    first = WeightsAndBiases(subject(tmp_path), "longhaul")
    first.open(Progress())
    first.write(Point(8, 1.0, {"train/loss": 1.0}))
    first.close()
    second = WeightsAndBiases(subject(tmp_path), "longhaul")
    assert second.open(Progress(1, 8, 0)) == -1
    second.close()

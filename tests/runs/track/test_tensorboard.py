"""Event files as TensorBoard's own reader sees them, after cuts, kills and resumes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from longhaul.core.control import Progress
from longhaul.runs.track.tracker import Point
from tests.runs.conftest import FakeClock
from tests.runs.track.fakes import subject

pytest.importorskip("tensorboardX")
from longhaul.runs.track.tensorboard import TensorBoard, cut, event_files, frame, read_events

GIF = (b"GIF89a\x02\x00\x02\x00", 2, 2)


def board(folder: Path, clock: FakeClock) -> TensorBoard:
    return TensorBoard(subject(folder), clock.clocks(), lambda path: GIF)


def read_back(folder: Path) -> Any:
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    found = accumulator.EventAccumulator(str(folder / "tensorboard"), size_guidance={})
    return found.Reload()


def curve(folder: Path, tag: str = "train/loss") -> list[tuple[int, float]]:
    return [(one.step, one.value) for one in read_back(folder).Scalars(tag)]


def write(tracker: TensorBoard, first: int, last: int) -> None:
    for iteration in range(first, last + 1):
        tracker.write(Point(8 * iteration, 1000.0 + iteration, {"train/loss": 1.0 / iteration}))


def expected(last: int) -> list[tuple[int, Any]]:
    return [(8 * i, pytest.approx(1.0 / i)) for i in range(1, last + 1)]


def test_scalars_histograms_and_films_are_read_back(tmp_path: Path, clock: FakeClock) -> None:
    tracker = board(tmp_path, clock)
    tracker.open(Progress())
    numbers = np.array([0.0, 1.0, 1.0, 5.0, np.nan], np.float32)
    tracker.write(
        Point(
            8,
            1001.0,
            {"train/loss": 0.5, "reward/speed": 2.0},
            {"weights/layer": numbers},
            {"eval/film_rank1": tmp_path / "film.mp4"},
        )
    )
    tracker.close()
    found = read_back(tmp_path)
    assert [(e.step, e.wall_time, e.value) for e in found.Scalars("train/loss")] == [
        (8, 1001.0, 0.5)
    ]
    (told,) = found.Histograms("weights/layer")
    held = told.histogram_value
    assert (held.min, held.max, held.num, held.sum) == (0.0, 5.0, 4.0, 7.0)
    assert sum(held.bucket) == 4
    (image,) = found.Images("eval/film_rank1")
    assert image.encoded_image_string == GIF[0]
    assert "reward/speed" in found.Tags()["scalars"]


def test_a_curve_carries_the_meaning_of_its_metric(tmp_path: Path, clock: FakeClock) -> None:
    tracker = board(tmp_path, clock)
    tracker.open(Progress())
    tracker.write(Point(8, 1.0, {"train/loss": 0.5, "reward/speed": 2.0}))
    tracker.close()
    (path,) = event_files(tmp_path / "tensorboard")
    values = [value for placed in read_events(path) for value in placed.event.summary.value]
    meanings = {value.tag: value.metadata.summary_description for value in values}
    assert meanings["train/loss"] == "the weighted sum of all parts"
    assert meanings["reward/speed"] == "sum of one term"


def test_tensorboards_reader_finds_nothing_odd(
    tmp_path: Path, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    tracker = board(tmp_path, clock)
    tracker.open(Progress())
    numbers = np.array([0.0, 1.0], np.float32)
    film = {"eval/film_rank1": tmp_path / "film.mp4"}
    tracker.write(Point(8, 1.0, {"train/loss": 0.5}, {"weights/layer": numbers}, film))
    tracker.close()
    caplog.clear()
    found = read_back(tmp_path)
    assert caplog.messages == []
    assert found.SummaryMetadata("train/loss").plugin_data.plugin_name == "scalars"


def test_a_resumed_run_is_one_curve(tmp_path: Path, clock: FakeClock) -> None:
    first = board(tmp_path, clock)
    assert first.open(Progress()) == -1
    write(first, 1, 10)
    first.close()
    second = board(tmp_path, clock)
    # The checkpoint was taken after iteration 6; 7 to 10 are made again.
    assert second.open(Progress(6, 48, 0)) == 48
    write(second, 7, 12)
    second.close()
    assert curve(tmp_path) == expected(12)


def test_a_viewer_that_saw_the_younger_points_forgets_them(
    tmp_path: Path, clock: FakeClock
) -> None:
    first = board(tmp_path, clock)
    first.open(Progress())
    write(first, 1, 10)
    first.close()
    viewer = read_back(tmp_path)
    second = board(tmp_path, clock)
    second.open(Progress(6, 48, 0))
    second.write(Point(56, 2000.0, {"train/loss": 7.0}))
    second.close()
    viewer.Reload()
    assert [(e.step, e.value) for e in viewer.Scalars("train/loss")][-2:] == [
        (48, pytest.approx(1 / 6)),
        (56, 7.0),
    ]


@given(kill=st.integers(0, 900), saved=st.integers(0, 10))
def test_any_cut_of_the_file_leaves_readable_events(
    kill: int, saved: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("cut")
    clock = FakeClock()
    tracker = board(folder, clock)
    tracker.open(Progress())
    write(tracker, 1, 10)
    tracker.close()
    (path,) = event_files(folder / "tensorboard")
    content = path.read_bytes()
    path.write_bytes(content[: max(len(content) - kill, 0)])
    again = board(folder, clock)
    known = again.open(Progress(saved, 8 * saved, 0))
    assert known <= 8 * saved
    # What the killed process did not get out is told again from the logs.
    write(again, known // 8 + 1 if known > 0 else 1, 11)
    again.close()
    steps = [
        placed.event.step
        for one in event_files(folder / "tensorboard")
        for placed in read_events(one)
        if any(value.tag == "train/loss" for value in placed.event.summary.value)
    ]
    assert steps == [8 * iteration for iteration in range(1, 12)]


def test_a_flipped_byte_ends_the_readable_part(tmp_path: Path) -> None:
    from tensorboardX.proto.event_pb2 import Event

    records = [frame(Event(step=step).SerializeToString()) for step in (1, 2, 3)]
    path = tmp_path / "events"
    broken = bytearray(b"".join(records))
    broken[len(records[0]) + 14] ^= 1
    path.write_bytes(broken)
    assert [placed.event.step for placed in read_events(path)] == [1]
    cut(path, 10)
    assert path.read_bytes() == records[0]

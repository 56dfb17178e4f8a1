"""Trackers as a user asks for them."""

from __future__ import annotations

from pathlib import Path

import pytest

from longhaul.app.session import carry_out
from longhaul.app.track import check_trackers, make_tracker
from longhaul.core.errors import ConfigError
from longhaul.core.progress import Progress
from longhaul.runs.clocks import Clocks
from longhaul.runs.config import TrackConfig
from longhaul.runs.jsonl import read_rows
from longhaul.runs.track.tracker import Point
from tests.app.small import QUIET, finished_run, small_config, stopped_run
from tests.runs.track.fakes import subject

accumulators = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")


def iterations(folder: Path) -> list[int]:
    board = accumulators.EventAccumulator(str(folder / "tensorboard"), size_guidance={}).Reload()
    return [int(one.value) for one in board.Scalars("iteration")]


def test_a_run_that_is_tracked_late_shows_its_whole_past(tmp_path: Path) -> None:
    run = stopped_run(tmp_path, iterations=2)
    assert not run.tensorboard.exists()
    config = small_config("gym:CartPole-v1", "track.to=['tensorboard']")
    assert carry_out(run, config, QUIET) == 0
    assert iterations(run.path) == [1, 2, 3]


def test_tracking_changes_nothing_in_the_run(tmp_path: Path) -> None:
    plain = finished_run(tmp_path / "plain")
    tracked = finished_run(
        tmp_path / "tracked", "track.to=['tensorboard']", "track.histogram_seconds=0.000001"
    )
    for name in ("metrics.jsonl", "episodes.jsonl", "events.jsonl"):
        assert (plain.path / name).read_bytes() == (tracked.path / name).read_bytes()
    assert iterations(tracked.path) == [1, 2, 3]


def test_a_tracker_that_cannot_be_written_to_is_told_of_and_the_run_ends_well(
    tmp_path: Path,
) -> None:
    run = stopped_run(tmp_path, iterations=1)
    run.tensorboard.write_text("this is no folder")
    config = small_config("gym:CartPole-v1", "track.to=['tensorboard']")
    assert carry_out(run, config, QUIET) == 0
    notes = [row for row in read_rows(run.sessions).rows if row["event"] == "tracker_lost_points"]
    assert notes
    assert notes[-1]["tracker"] == "tensorboard"
    assert not notes[-1]["finished"]
    assert "exists" in notes[-1]["problem"]


def test_a_tracker_named_twice_is_refused() -> None:
    with pytest.raises(ConfigError, match="twice"):
        TrackConfig(to=("tensorboard", "tensorboard"))


def test_a_film_that_is_none_leaves_the_curves_alone(tmp_path: Path) -> None:
    check_trackers(TrackConfig(to=("tensorboard",)))
    tracker = make_tracker("tensorboard", subject(tmp_path), TrackConfig(), Clocks())
    tracker.open(Progress())
    tracker.write(Point(8, 1.0, {"iteration": 1.0}, films={"eval/film": tmp_path / "none.mp4"}))
    tracker.close()
    assert iterations(tmp_path) == [1]

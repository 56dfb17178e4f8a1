"""Trackers as a user asks for them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

import pytest
from benchmarks.dead_tracker import DeadTracker

from longhaul.app.build.config import SessionOptions
from longhaul.app.session.run import run_session
from longhaul.app.session.start import begin_run
from longhaul.app.session.tracking import TRACKERS, TrackerKind, check_trackers
from longhaul.core.control import Progress
from longhaul.core.errors import ConfigError
from longhaul.runs.config import TrackConfig
from longhaul.runs.directory import Status
from longhaul.runs.lock import Clocks
from longhaul.runs.logs.jsonl import read_rows
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
    assert run_session(run, config, QUIET).exit_code == 0
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
    assert run_session(run, config, QUIET).exit_code == 0
    notes = [row for row in read_rows(run.sessions).rows if row["event"] == "tracker_lost_points"]
    assert notes
    assert notes[-1]["tracker"] == "tensorboard"
    assert not notes[-1]["finished"]
    assert "exists" in notes[-1]["problem"]


@pytest.mark.parametrize("is_new", [True, False], ids=("new", "resumed"))
def test_a_tracker_that_cannot_be_opened_is_told_of_before_the_first_step(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], *, is_new: bool
) -> None:
    config = small_config("gym:CartPole-v1", "track.to=['tensorboard']")
    run = begin_run(config, tmp_path).directory if is_new else stopped_run(tmp_path, iterations=1)
    run.tensorboard.write_text("this is no folder")
    if is_new:
        with pytest.raises(ConfigError, match=r"'tensorboard', which cannot be opened \(FileExis"):
            run_session(run, config, SessionOptions())
        assert read_rows(run.metrics).rows == []
        assert run.read_record().status is Status.FAILED
        run.tensorboard.unlink()
        assert run_session(run, config, QUIET).exit_code == 0
        return
    assert run_session(run, config, SessionOptions()).exit_code == 0
    lines = capsys.readouterr().err.splitlines()
    (told,) = [number for number, line in enumerate(lines) if "cannot be opened" in line]
    (first,) = [number for number, line in enumerate(lines) if line.startswith("64 steps")]
    assert told < first
    assert "it is retried every minute" in lines[told]


BOUNDARY = ("longhaul.runs.track.weights_and_biases", "longhaul.runs.track.mlflow")


@pytest.fixture
def _fresh_imports() -> Iterator[None]:
    """Let our modules import the packages they are given, and no other test see those."""
    kept = {name: sys.modules.pop(name) for name in BOUNDARY if name in sys.modules}
    yield
    for name in BOUNDARY:
        sys.modules.pop(name, None)
    sys.modules.update(kept)


def fake_wandb() -> ModuleType:
    """Return a package that behaves as W&B's does without a login."""

    class UsageError(Exception):
        pass

    def init(**options: object) -> None:
        raise UsageError("No API key configured. Use `wandb login` to log in.")

    package = ModuleType("wandb")
    package.__spec__ = ModuleSpec("wandb", None)
    vars(package).update(init=init, Settings=dict)
    return package


def fake_mlflow() -> tuple[ModuleType, ModuleType]:
    """Return a package that behaves as MLflow's does without its server."""

    def client(tracking_uri: str | None) -> None:
        raise ConnectionError(f"no answer from {tracking_uri}")

    package, entities = ModuleType("mlflow"), ModuleType("mlflow.entities")
    package.__spec__ = ModuleSpec("mlflow", None)
    vars(package).update(MlflowClient=client)
    vars(entities).update(Metric=tuple, Param=tuple)
    return package, entities


@pytest.mark.usefixtures("_fresh_imports")
def test_weights_and_biases_without_a_login_ends_a_new_run_with_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "wandb", fake_wandb())
    config = small_config("gym:CartPole-v1", "track.to=['wandb']")
    run = begin_run(config, tmp_path).directory
    with pytest.raises(ConfigError, match="No API key configured") as raised:
        run_session(run, config, QUIET)
    assert raised.value.exit_code == 2
    for remedy in ("`wandb login`", "WANDB_MODE=offline", "--track"):
        assert remedy in str(raised.value)
    assert read_rows(run.metrics).rows == []


@pytest.mark.usefixtures("_fresh_imports")
def test_mlflow_without_its_server_ends_a_new_run_with_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package, entities = fake_mlflow()
    monkeypatch.setitem(sys.modules, "mlflow", package)
    monkeypatch.setitem(sys.modules, "mlflow.entities", entities)
    config = small_config(
        "gym:CartPole-v1", "track.to=['mlflow']", "track.mlflow_uri='http://elsewhere'"
    )
    run = begin_run(config, tmp_path).directory
    with pytest.raises(ConfigError, match=r"no answer from http://elsewhere.*MLFLOW_TRACKING_URI"):
        run_session(run, config, QUIET)
    assert read_rows(run.metrics).rows == []


def test_a_tracker_that_does_not_answer_keeps_no_run_from_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    silent = TrackerKind("longhaul", "", lambda subject, track, clocks: DeadTracker())
    monkeypatch.setitem(TRACKERS, "mlflow", silent)
    run = finished_run(tmp_path, "track.to=['mlflow']", "track.patience_seconds=0.01")
    assert len(read_rows(run.metrics).rows) == 3


def test_a_tracker_named_twice_is_refused() -> None:
    with pytest.raises(ConfigError, match="twice"):
        TrackConfig(to=("tensorboard", "tensorboard"))


def test_a_film_that_is_none_leaves_the_curves_alone(tmp_path: Path) -> None:
    check_trackers(TrackConfig(to=("tensorboard",)))
    tracker = TRACKERS["tensorboard"].make(subject(tmp_path), TrackConfig(), Clocks())
    tracker.open(Progress())
    tracker.write(Point(8, 1.0, {"iteration": 1.0}, films={"eval/film": tmp_path / "none.mp4"}))
    tracker.close()
    assert iterations(tmp_path) == [1]

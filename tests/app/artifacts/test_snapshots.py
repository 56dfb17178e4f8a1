"""Checkpoints from all over a run, side by side."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from longhaul.app.artifacts.records import SnapshotRequest, snapshot_run
from longhaul.app.artifacts.report import report_run
from longhaul.app.evaluation.episode_player import Replay, Scenario
from longhaul.app.evaluation.load import Run
from longhaul.core.errors import CheckpointError, ConfigError
from longhaul.report.film import fit
from longhaul.report.run_data import gather
from longhaul.report.snapshots import read_snapshots, snapshot_chart
from longhaul.runs.directory import RunDirectory
from tests.app.small import finished_run, small_config, stopped_run

REQUEST = SnapshotRequest(count=4, step=6, seed=42)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    return finished_run(
        tmp_path_factory.mktemp("runs"),
        "checkpoint.every_iterations=1",
        "checkpoint.keep_last=1",
        "checkpoint.keep_spread=4",
        "total_timesteps=192",
        "learn.learning_rate=0.1",
    )


def test_checkpoints_from_the_first_to_the_last_are_shown_at_the_same_step(
    run: RunDirectory,
) -> None:
    told = snapshot_run(Run(run), REQUEST)
    assert told.endswith("(4 checkpoints)")
    shots = read_snapshots(run)
    iterations = [shot.iteration for shot, _ in shots]
    assert iterations == sorted(iterations)
    assert (iterations[0], iterations[-1], len(iterations)) == (1, 6, 4)
    assert {(shot.step, shot.seed) for shot, _ in shots} == {(6, 42)}
    assert report_run(run.path).plots.count("checkpoint_grid") == 1
    assert (run.plots / "checkpoint_grid.png").read_bytes()[:4] == b"\x89PNG"


def test_a_snapshot_is_what_its_checkpoint_plays(run: RunDirectory) -> None:
    snapshot_run(Run(run), REQUEST)
    for shot, path in read_snapshots(run):
        trained = Run(run).agent(shot.checkpoint)
        replay = Replay(trained.task.envs, trained.policy, trained.settings, Scenario(42))
        moments = replay.moments()
        while next(moments).step < 6:
            pass
        picture = replay.picture()
        replay.close()
        assert picture is not None
        with Image.open(path) as found:
            np.testing.assert_array_equal(found, fit(picture, columns=240, lines=120))


def test_a_run_without_snapshots_has_no_grid(tmp_path: Path) -> None:
    run = stopped_run(tmp_path)
    assert read_snapshots(run) == []
    assert snapshot_chart(gather(run.path)) is None
    (run.media / "snapshots").mkdir(parents=True)
    (run.media / "snapshots" / "index.json").write_text("{")
    assert read_snapshots(run) == []


def test_what_cannot_be_shown_is_said(tmp_path: Path) -> None:
    run = stopped_run(tmp_path, iterations=0)
    for path in run.checkpoints.glob("step-*"):
        (path / "manifest.json").unlink()
    with pytest.raises(CheckpointError, match="no checkpoint yet"):
        snapshot_run(Run(run), REQUEST)
    with pytest.raises(ConfigError, match=r"report\.snapshots = -1 must be at least 0"):
        small_config("gym:CartPole-v1", "report.snapshots=-1")

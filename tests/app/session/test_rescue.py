"""An exception that ends a run leaves a checkpoint of the last finished iteration behind."""

from __future__ import annotations

from pathlib import Path

import pytest

from longhaul.app.build.config import SessionOptions
from longhaul.app.session.run import run_session
from longhaul.app.session.start import begin_run, find_run
from longhaul.core.errors import EnvError, ResourceError
from longhaul.core.parts import RunControl, RunListener
from longhaul.runs import recorder
from longhaul.runs.checkpoints.store import Loaded, load_newest
from longhaul.runs.directory import RunDirectory, Status
from longhaul.runs.reader import read_sessions
from tests.app.small import QUIET, finished_run, small_config
from tests.engine.comparing import assert_equal

LONG = ("total_timesteps=256",)  # eight iterations
SETUPS = [(), ("collect.overlap=true", "learn.replay.enabled=true", "learn.replay.capacity=256")]


class Bomb(RunListener):
    """Raises an error in one iteration."""

    def __init__(self, iteration: int, error: Exception) -> None:
        self.iteration_of_error, self.error = iteration, error

    def steer(self, run: RunControl) -> None:
        if run.progress.iteration == self.iteration_of_error:
            raise self.error


@pytest.fixture(autouse=True)
def _every_iteration(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder, "KEEP_SECONDS", 0.0)
    monkeypatch.setattr(recorder, "KEEP_SHARE", 1e9)


def broken_run(root: Path, error: Exception, *overrides: str) -> RunDirectory:
    config = small_config("gym:CartPole-v1", *LONG, *overrides)
    run = begin_run(config, root).directory
    with pytest.raises(type(error)):
        run_session(run, config, QUIET, listeners=[Bomb(6, error)])
    return run


def newest(run: RunDirectory) -> Loaded:
    loaded = load_newest(run.checkpoints)
    assert loaded is not None
    return loaded


@pytest.mark.parametrize("setup", SETUPS, ids=["plain", "overlap and replay"])
@pytest.mark.parametrize("error", [RuntimeError("a bug"), EnvError("the simulator is gone")])
def test_the_resumed_run_is_the_undisturbed_one(
    tmp_path: Path, setup: tuple[str, ...], error: Exception
) -> None:
    whole = finished_run(tmp_path / "whole", *LONG, *setup)
    run = broken_run(tmp_path / "broken", error, *setup)
    assert newest(run).manifest.progress.iteration == 5
    assert run.read_record().status is Status.FAILED
    assert [row["iteration"] for row in read_sessions(run).rows if row["event"] == "rescued"] == [5]

    start = find_run(run.path, total_timesteps=None, overrides=())
    assert run_session(run, start.config, QUIET).exit_code == 0
    assert run.metrics.read_bytes() == whole.metrics.read_bytes()
    states, expected = newest(run).states, newest(whole).states
    states.pop("listeners", None)
    assert_equal(states, expected)


def test_a_state_too_large_to_be_kept_twice_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(recorder, "MOST_KEPT", 0)
    config = small_config("gym:CartPole-v1", *LONG)
    run = begin_run(config, tmp_path).directory
    bomb, shown = Bomb(6, RuntimeError("a bug")), SessionOptions(report=False)
    with pytest.raises(RuntimeError):
        run_session(run, config, shown, listeners=[bomb])
    assert "because the state is larger than 0 MiB" in capsys.readouterr().err
    assert load_newest(run.checkpoints) is None


def test_a_full_disk_is_not_filled_further(tmp_path: Path) -> None:
    run = broken_run(tmp_path, ResourceError("no space left"))
    assert load_newest(run.checkpoints) is None

"""A disk without room for a run's checkpoints is noticed before the first step."""

from __future__ import annotations

from pathlib import Path

import pytest

from longhaul.app.build.components import build_task
from longhaul.app.build.memory import LOG_MEGABYTES, checkpoint_bytes
from longhaul.app.session.run import run_session
from longhaul.app.session.start import begin_run
from longhaul.core.errors import ResourceError
from longhaul.runs.checkpoints.inspect import list_checkpoints
from longhaul.runs.directory import RunDirectory, Status
from longhaul.runs.logs.jsonl import read_rows
from tests.app.small import CARTPOLE, QUIET, finished_run, small_config

MEGABYTE = 1 << 20
REPLAY = (
    "learn.replay.enabled=true",
    "learn.replay.capacity=50000",
    "learn.replay.batch=32",
)


def set_free(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setattr("longhaul.app.build.memory.free_bytes", lambda folder: size)


def size_of_newest(run: RunDirectory) -> int:
    return sum(part.stat().st_size for part in list_checkpoints(run.checkpoints)[0].iterdir())


def test_a_run_is_refused_with_numbers_and_goes_on_once_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = small_config(CARTPOLE, "policy.hidden=[512, 512]")
    run = begin_run(config, tmp_path).directory
    set_free(monkeypatch, 70 * MEGABYTE)
    with pytest.raises(ResourceError, match=r"70\.0 MB are free .*two checkpoints of about") as no:
        run_session(run, config, QUIET)
    assert no.value.exit_code == 6
    assert "lower checkpoint.reserve_megabytes" in str(no.value)
    assert read_rows(run.metrics).rows == []
    assert run.read_record().status is Status.FAILED
    set_free(monkeypatch, 500 * MEGABYTE)
    assert run_session(run, config, QUIET).exit_code == 0


def test_room_for_two_checkpoints_logs_and_the_reserve_is_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = small_config(CARTPOLE, "checkpoint.reserve_megabytes=0")
    size = checkpoint_bytes(config, build_task(config))
    set_free(monkeypatch, 2 * size + LOG_MEGABYTES * MEGABYTE - 1)
    with pytest.raises(ResourceError):
        run_session(begin_run(config, tmp_path / "one").directory, config, QUIET)
    set_free(monkeypatch, 2 * size + LOG_MEGABYTES * MEGABYTE)
    assert run_session(begin_run(config, tmp_path / "two").directory, config, QUIET).exit_code == 0


@pytest.mark.parametrize(
    "overrides",
    [("policy.hidden=[512, 512]",), ("policy.hidden=[256, 256]", "collect.overlap=true")],
    ids=("plain", "overlap"),
)
def test_the_estimate_is_near_what_is_written(overrides: tuple[str, ...], tmp_path: Path) -> None:
    config = small_config(CARTPOLE, *overrides)
    written = size_of_newest(finished_run(tmp_path, *overrides))
    assert 0.8 * written <= checkpoint_bytes(config, build_task(config)) <= 3 * written


def test_a_replay_that_is_not_saved_needs_no_room() -> None:
    saved, dropped = (
        checkpoint_bytes(config, build_task(config))
        for config in (
            small_config(CARTPOLE, *REPLAY),
            small_config(CARTPOLE, *REPLAY, "learn.replay.saved=false"),
        )
    )
    assert dropped < saved / 2

"""Real runs that hang leave a dump that names the line; healthy ones leave nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from longhaul.app.session.run import run_session
from longhaul.app.session.start import begin_run
from longhaul.runs.directory import RunDirectory
from longhaul.runs.logs.jsonl import read_rows
from longhaul.runs.monitor.heartbeat import read_beat
from tests.app import sick
from tests.app.small import QUIET, finished_run, small_config
from tests.faults.gymnasium_walk import GYMNASIUM_ID
from tests.faults.trouble import Plan, tell

sick.register()
IMPATIENT = ("watch.least_seconds=0.6", "watch.first_seconds=0.6", "watch.factor=1")


def stalls(run: RunDirectory) -> list[dict[str, Any]]:
    return [row for row in read_rows(run.sessions).rows if row["event"] == "stall"]


def test_an_environment_that_hangs_is_dumped_with_its_line(tmp_path: Path) -> None:
    crash = tmp_path / "crash"
    config = small_config(
        "gym:Sick/Hanging-v0", *IMPATIENT, f'options.kwargs={{crash="{crash}"}}',
        "total_timesteps=320",
    )  # fmt: skip
    run = begin_run(config, tmp_path).directory
    crash.symlink_to(run.crash)  # the run's folder has a name of its own
    assert run_session(run, config, QUIET).exit_code == 0
    # A busy machine may be silent for so short a time elsewhere as well: the last one counts.
    *_, stall = [row for row in stalls(run) if row["stage"] == "collect"]
    assert stall["where"].endswith(f"sick.py:{sick.HANGS_AT} in hang_until_noticed")
    dump = (run.crash / stall["file"]).read_text()
    assert "never.wait(0.05)  # where it hangs" in dump
    assert "in step" in dump
    assert any(row["event"] == "stall_over" for row in read_rows(run.sessions).rows)


def test_a_learner_that_hangs_is_dumped_with_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hanging = "learn.algorithm=tests.app.sick:HangingLearner"
    config = small_config("gym:CartPole-v1", *IMPATIENT, "total_timesteps=320", hanging)
    run = begin_run(config, tmp_path).directory
    monkeypatch.setattr(sick.HangingLearner, "crash", str(run.crash))
    assert run_session(run, config, QUIET).exit_code == 0
    *_, stall = [row for row in stalls(run) if row["stage"] == "learn"]
    assert stall["where"].endswith(f"sick.py:{sick.HANGS_AT} in hang_until_noticed")
    assert "HangingLearner" not in stall["where"]
    assert "sick.py" in (run.crash / stall["file"]).read_text()


def test_a_healthy_run_leaves_no_dump_behind(tmp_path: Path) -> None:
    run = finished_run(tmp_path, "total_timesteps=2000")
    assert not run.crash.exists()
    assert stalls(run) == []


@pytest.mark.thorough
def test_a_worker_that_hangs_is_dumped_with_its_line(tmp_path: Path) -> None:
    told = tmp_path / "told"
    told.mkdir()
    tell(told, Plan("sleep", steps=(12,), times=1))
    run = finished_run(
        tmp_path / "run", f'options.kwargs={{folder="{told}"}}', "env.runtime=processes",
        "env.processes.workers=2", "env.processes.least_deadline_seconds=1",
        "env.processes.step_seconds=2", task=f"gym:{GYMNASIUM_ID}",
    )  # fmt: skip
    dump, *_ = run.crash.glob("hung-env*.txt")
    assert "hung in step" in dump.read_text()
    assert "trouble.py" in dump.read_text()


def test_the_heartbeat_tells_what_workers_do(tmp_path: Path) -> None:
    config = small_config(
        "gym:CartPole-v1", "env.runtime=processes", "env.processes.workers=2",
        "watch.heartbeat_seconds=0.001",
    )  # fmt: skip
    run = begin_run(config, tmp_path).directory
    seen: list[Any] = []

    def look(progress: object) -> None:
        beat = read_beat(run.heartbeat)
        seen.extend([] if beat is None else beat.workers)

    assert run_session(run, config, QUIET, also_until=look).exit_code == 0
    assert {beat.worker for beat in seen} == {0, 1}
    assert all(beat.age_seconds >= 0 and beat.pid > 0 for beat in seen)


@pytest.mark.slow
def test_a_million_steps_of_a_fast_environment_produce_no_dump(tmp_path: Path) -> None:
    run = finished_run(
        tmp_path, "num_envs=256", "collect.num_steps=64", "total_timesteps=1000000",
        "learn.minibatch_size=4096", "collect.chunk=0", task="probe:chase",
    )  # fmt: skip
    assert not run.crash.exists()
    assert not [row for row in read_rows(run.sessions).rows if row["event"] == "slow_steps"]

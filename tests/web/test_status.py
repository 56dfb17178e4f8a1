from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from longhaul.runs.directory import Status, write_status
from longhaul.runs.reader import read_run
from longhaul.web.summary import run_status
from tests.web.made import hold, made_run

NOW = 1_000_000.0


@pytest.mark.parametrize(
    ("status", "kind"),
    [(Status.FINISHED, "finished"), (Status.STOPPED, "stopped"), (Status.FAILED, "failed")],
)
def test_a_run_that_ended_stands_as_its_trainer_said(
    tmp_path: Path, status: Status, kind: str
) -> None:
    run = made_run(tmp_path)
    write_status(run.record, status, "because")
    found = run_status(read_run(run), now=NOW)
    assert (found.kind, found.words) == (kind, "because")


def test_a_run_with_a_beating_heart_is_running(tmp_path: Path) -> None:
    run = made_run(tmp_path)
    hold(run, wall=NOW - 3)
    assert run_status(read_run(run), now=NOW).kind == "running"


def test_a_silent_heart_is_a_stall(tmp_path: Path) -> None:
    run = made_run(tmp_path)
    hold(run, wall=NOW - 60)
    found = run_status(read_run(run), now=NOW)
    assert (found.kind, found.words) == ("stalled", "its last heartbeat was 60 s ago")


def test_a_stage_without_end_is_a_stall_unless_iterations_are_that_slow(tmp_path: Path) -> None:
    run = made_run(tmp_path)
    hold(run, wall=NOW, stage=300)
    state = read_run(run)
    assert run_status(state, now=NOW).kind == "stalled"
    assert run_status(state, now=NOW, slowest_iteration=100).kind == "running"


def test_a_trainer_that_is_gone_crashed(tmp_path: Path) -> None:
    run = made_run(tmp_path)
    with subprocess.Popen([sys.executable, "-c", "pass"]) as gone:
        gone.wait()
    hold(run, wall=NOW, pid=gone.pid)
    assert run_status(read_run(run), now=NOW).kind == "crashed"


def test_a_trainer_nobody_buried_crashed_all_the_same(tmp_path: Path) -> None:
    run = made_run(tmp_path)
    with subprocess.Popen([sys.executable, "-c", "print()"], stdout=subprocess.PIPE) as zombie:
        assert zombie.stdout is not None
        zombie.stdout.read()  # it ended, and nobody has waited for it
        hold(run, wall=NOW, pid=zombie.pid)
        while Path(f"/proc/{zombie.pid}/stat").read_text().split()[2] != "Z":
            pass
        assert run_status(read_run(run), now=NOW).kind == "crashed"


def test_a_number_that_is_another_process_now_is_no_trainer(tmp_path: Path) -> None:
    run = made_run(tmp_path)
    hold(run, wall=NOW)
    holder = json.loads(run.lock.read_text())
    holder["since"] = datetime(2020, 1, 1, tzinfo=UTC).isoformat()
    run.lock.write_text(json.dumps(holder))
    assert run_status(read_run(run), now=NOW).kind == "crashed"

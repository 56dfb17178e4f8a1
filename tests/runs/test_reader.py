from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from longhaul.core.control import Progress
from longhaul.core.errors import ConfigError
from longhaul.core.settings import Settings
from longhaul.runs.checkpoints.manifest import Stamp
from longhaul.runs.checkpoints.store import CheckpointContent, CheckpointStore
from longhaul.runs.config import CheckpointConfig
from longhaul.runs.directory import RunDirectory, Status, begin_record, create_run, write_status
from longhaul.runs.lock import Clocks, RunLock
from longhaul.runs.monitor.heartbeat import Heartbeat
from longhaul.runs.reader import (
    list_runs,
    read_checkpoints,
    read_episodes,
    read_events,
    read_metrics,
    read_run,
    read_sessions,
)
from tests.runs.conftest import NOON, FakeClock


def test_timings_stand_beside_the_metrics_of_their_iteration(run: RunDirectory) -> None:
    run.metrics.write_bytes(b'{"iteration":1,"a":1}\n{"iteration":2,"a":2}\ntorn')
    run.timings.write_bytes(b'{"iteration":2,"time/fps":9}\n{"iteration":3,"time/fps":8}\n')
    found = read_metrics(run)
    assert found.rows == [{"iteration": 1, "a": 1}, {"iteration": 2, "time/fps": 9, "a": 2}]
    assert found.skipped == 1


def test_a_run_without_logs_has_no_rows(run: RunDirectory) -> None:
    for read in (read_metrics, read_episodes, read_events, read_sessions):
        assert read(run).rows == []


def test_a_run_is_alive_while_its_lock_is_held(run: RunDirectory) -> None:
    assert read_run(run).status == "interrupted"
    with RunLock(run.lock, Clocks()):
        Heartbeat(run.heartbeat, Clocks()).beat()
        state = read_run(run)
        assert state.is_alive
        assert state.status == "running"
        assert state.beat is not None
        assert state.beat.stage == "starting"


@pytest.mark.parametrize("status", [Status.FINISHED, Status.STOPPED, Status.FAILED])
def test_a_run_that_ended_says_how(run: RunDirectory, clock: FakeClock, status: Status) -> None:
    write_status(run.record, status, "why")
    with RunLock(run.lock, clock.clocks()):
        state = read_run(run)
    assert not state.is_alive
    assert state.status == status.value


def test_runs_of_all_tasks_are_listed_oldest_first(tmp_path: Path) -> None:
    made = [
        create_run(
            tmp_path,
            begin_record(task, "n", 0, now=NOON + timedelta(hours=hours), command=[]),
            "",
        )
        for task, hours in (("b", 2), ("a", 3), ("b", 1))
    ]
    (tmp_path / "a" / "notes").mkdir()
    (tmp_path / "stray.txt").write_text("")
    listed = [run.directory.path for run in list_runs(tmp_path)]
    assert listed == [made[2].path, made[0].path, made[1].path]
    made[0].record.write_text("{")
    assert len(list_runs(tmp_path)) == 2
    assert list_runs(tmp_path / "none") == []


def test_what_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="not a run directory"):
        read_run(RunDirectory(tmp_path))


def test_checkpoints_are_listed_with_what_is_wrong(run: RunDirectory, clock: FakeClock) -> None:
    store = CheckpointStore(
        run.checkpoints, CheckpointConfig(), Stamp({}, facts={"tier": "snapshot"}), clock.clocks()
    )
    for number in (1, 2):
        path = store.save(
            CheckpointContent(Progress(number, number, 0), Settings([]), {"a": {}}, {})
        )
    (path / "manifest.json").write_text("")
    broken, good = read_checkpoints(run)
    assert broken.manifest is None
    assert "not JSON" in broken.problem
    assert good.manifest is not None
    assert good.manifest.facts == {"tier": "snapshot"}

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from longhaul.core.errors import LockedError, ResourceError
from longhaul.runs.lock import Clocks, Holder, RunLock, read_holder

HOLD = """
import sys
from pathlib import Path
from longhaul.runs.lock import Clocks
from longhaul.runs.lock import RunLock
lock = RunLock(Path(sys.argv[1]), Clocks(wall=lambda: 4e9))
sys.stdout.write("held")
sys.stdout.flush()
sys.stdin.read()
"""


def start_holder(path: Path) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stdout.read(4) == b"held"
    return process


def test_a_second_process_is_turned_away_and_told_by_whom(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with start_holder(path) as process:
        with pytest.raises(LockedError) as caught:
            RunLock(path, Clocks())
        words = str(caught.value)
        assert f"process {process.pid} on {os.uname().nodename}" in words
        assert "2096-10-02" in words
        assert str(tmp_path) in words
        assert caught.value.exit_code == 7
        process.kill()


def test_death_by_kill_9_frees_the_lock(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with start_holder(path) as process:
        holder = read_holder(path)
        assert holder is not None
        assert holder.is_alive
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert not holder.is_alive
    with RunLock(path, Clocks()) as lock:
        assert lock.is_held


def test_closing_lets_the_next_one_in(tmp_path: Path) -> None:
    first = RunLock(tmp_path / "lock", Clocks())
    with pytest.raises(LockedError, match=f"process {os.getpid()}"):
        RunLock(tmp_path / "lock", Clocks())
    first.close()
    first.close()
    assert not first.is_held
    RunLock(tmp_path / "lock", Clocks()).close()


def test_a_child_that_runs_another_program_does_not_inherit_the_lock(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with subprocess.Popen(["true"]) as child:
        RunLock(path, Clocks()).close()
        child.wait()
    with RunLock(path, Clocks()), subprocess.Popen(["cat"], stdin=subprocess.PIPE) as child:
        pass
    RunLock(path, Clocks()).close()


def test_a_pid_from_before_the_last_boot_is_dead() -> None:
    assert not Holder(os.getpid(), os.uname().nodename, "another boot", "").is_alive


def test_a_process_on_another_machine_is_believed_to_live() -> None:
    assert Holder(2**22 + 1, "elsewhere", "", "").is_alive


def test_an_unreadable_lock_file_names_nobody(tmp_path: Path) -> None:
    assert read_holder(tmp_path / "none") is None
    (tmp_path / "lock").write_bytes(b"{")
    assert read_holder(tmp_path / "lock") is None


def test_a_place_that_cannot_hold_a_lock_is_told(tmp_path: Path) -> None:
    with pytest.raises(ResourceError, match="lock"):
        RunLock(tmp_path / "missing" / "lock", Clocks())

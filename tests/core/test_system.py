"""Linux's ways are in one module, and each has a portable one that does the same."""

from __future__ import annotations

import json
import mmap
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from longhaul.app.diagnose.verify import Interruption, verify
from longhaul.core import system
from tests.app.small import CARTPOLE, small_config

SOURCE = Path(__file__).resolve().parents[2] / "src" / "longhaul"
ONLY_LINUX = re.compile(
    r"\bctypes\.(?!data\b)|import ctypes|import fcntl|prctl\(|memfd|posix_fallocate"
    r"|sched_\w*affinity|pidfd|epoll|eventfd|inotify|\bfsync\(|\bsys\.platform|[\"'f]/(proc|sys|dev/shm)\b"
)
REFUSED = """
import sys
import asyncio, multiprocessing, psutil, subprocess, typer, typer.main  # ask for the system too
sys.platform = "win32"
for name in ("fcntl", "resource", "termios", "pwd", "grp"):
    sys.modules[name] = None
"""
FOLLOWER = (
    "import os, signal, time; from longhaul.core.system import end_with; "
    "end_with(os.getppid(), signal.SIGTERM); print('here', flush=True); time.sleep(60)"
)
LEADER = (
    "import subprocess, sys, time; "
    "print(subprocess.Popen([sys.executable, '-c', sys.argv[1]]).pid, flush=True); time.sleep(60)"
)
TRAINS_UNTIL_ITS_PARENT_ENDS = """
import sys, time
from pathlib import Path
from longhaul.app.experiments.jobs import Child, longhaul_command
runs, log = sys.argv[1:]
child = Child(longhaul_command("train", "gym:CartPole-v1", "--runs-root", runs, "--total-timesteps",
    "1e9", "--name", "long", "--quiet"), Path(log))
print(child.pid, flush=True)
time.sleep(600)
"""


@pytest.fixture(params=["linux", "portable"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.delenv(system.PORTABLE, raising=False)
    if request.param == "portable":
        monkeypatch.setenv(system.PORTABLE, "1")
    return str(request.param)


def test_what_only_linux_has_is_used_in_one_module() -> None:
    users = {
        path.relative_to(SOURCE).as_posix()
        for path in SOURCE.rglob("*.py")
        if ONLY_LINUX.search(path.read_text("utf-8"))
    }
    assert users == {"core/system.py"}


def test_the_portable_ways_are_not_linuxs(way: str) -> None:
    assert system.is_linux() == (way == "linux")


def test_a_nameless_file_has_its_room_and_is_shared_by_its_descriptor(way: str) -> None:
    descriptor = system.nameless_file("test")
    try:
        system.allocate(descriptor, 3 * 2**20 + 5)
        assert os.fstat(descriptor).st_size == 3 * 2**20 + 5
        assert os.fstat(descriptor).st_nlink == 0
        assert not os.get_inheritable(descriptor)
        with mmap.mmap(descriptor, 8) as one, mmap.mmap(descriptor, 8) as other:
            one[:3] = b"abc"
            assert other[:8] == b"abc\0\0\0\0\0"
    finally:
        os.close(descriptor)


def test_processes_are_found_by_the_beginning_of_a_variable_or_the_whole_of_it(way: str) -> None:
    own = f"{os.getpid()}-"
    with subprocess.Popen(
        [sys.executable, "-c", "print('here', flush=True); input()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "LONGHAUL_TEST": f"{own}mark"},
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert system.processes_with("LONGHAUL_TEST", own) == [process.pid]
        assert system.processes_with("LONGHAUL_TEST", f"{own}mark\0") == [process.pid]
        assert system.processes_with("LONGHAUL_TEST", f"{own}ma\0") == []
        process.communicate(b"\n")


def test_a_process_ends_with_its_parent(way: str) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", LEADER, FOLLOWER], stdout=subprocess.PIPE, text=True
    )
    with parent:
        assert parent.stdout is not None
        words = {parent.stdout.readline().strip() for _ in range(2)}
        follower = psutil.Process(int((words - {"here"}).pop()))
        parent.kill()
    psutil.wait_procs([follower], timeout=30)
    assert not follower.is_running() or follower.status() == psutil.STATUS_ZOMBIE


def test_facts_of_the_machine_do_not_change(way: str) -> None:
    assert system.boot_id() == system.boot_id() != ""
    assert system.cores() >= 1


def test_memory_that_is_not_shared_is_absent_where_only_root_sees_it() -> None:
    from longhaul.runs.monitor.resources import ProcessUse, use_metrics

    seen = ProcessUse(1, "trainer", rss=5, uss=3, cpu_percent=0.0)
    unseen = ProcessUse(2, "worker", rss=7, uss=None, cpu_percent=0.0)
    metrics = use_metrics(seen, [unseen])
    assert metrics["mem/uss"] == 3
    assert metrics["mem/workers_rss"] == 7
    assert "mem/workers_uss" not in metrics


@pytest.mark.thorough
def test_killed_trainers_of_workers_change_nothing_without_linux(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(system.PORTABLE, "1")
    config = small_config(CARTPOLE, "env.runtime=processes", "env.processes.workers=2")
    result = verify(config, Interruption(iterations=12, interruptions=3, kill=True))
    assert result.equal, result.as_text()
    assert len(result.interruptions) == 3


def wait_until(condition: Callable[[], object], seconds: float = 60.0) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.05)


def test_a_run_survives_a_killed_worker_and_resumes_without_linux(tmp_path: Path) -> None:
    portable = {**os.environ, system.PORTABLE: "1"}

    def longhaul(*arguments: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen([sys.executable, "-m", "longhaul", *arguments], env=portable)

    def lines() -> int:
        return sum(log.read_bytes().count(b"\n") for log in tmp_path.rglob("metrics.jsonl"))

    trainer = longhaul(
        *("train", "gym:CartPole-v1", "--runs-root", str(tmp_path), "--total-timesteps", "1e9"),
        *("--quiet", "--no-report", "--set", "env.runtime=processes"),
    )
    with trainer:
        wait_until(lines)
        children = psutil.Process(trainer.pid).children()
        worker = next(one for one in children if "processes.process" in " ".join(one.cmdline()))
        worker.kill()
        seen = lines()
        wait_until(lambda: lines() > seen + 2)
        trainer.send_signal(signal.SIGINT)
    assert trainer.returncode == 130
    (folder,) = {path.parent for path in tmp_path.rglob("run.json")}
    assert "was killed by SIGKILL" in (folder / "sessions.jsonl").read_text()
    length = str((lines() + 2) * 2048)
    with longhaul("resume", str(folder), "--total-timesteps", length, "--quiet") as resumed:
        pass
    assert resumed.returncode == 0
    assert json.loads((folder / "run.json").read_text())["status"] == "finished"


@pytest.mark.thorough
def test_a_started_run_ends_with_its_parent_without_linux(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with subprocess.Popen(
        [sys.executable, "-c", TRAINS_UNTIL_ITS_PARENT_ENDS, str(tmp_path), str(log)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, system.PORTABLE: "1"},
    ) as parent:
        assert parent.stdout is not None
        run = psutil.Process(int(parent.stdout.readline()))
        wait_until(lambda: list(tmp_path.rglob("metrics.jsonl")))
        parent.kill()
    psutil.wait_procs([run], timeout=30)
    assert not run.is_running() or run.status() == psutil.STATUS_ZOMBIE
    record = json.loads(next(tmp_path.rglob("run.json")).read_text())
    assert record["reason"] == f"stopped by {signal.SIGTERM.name}"


@pytest.mark.parametrize(
    ("program", "code"),
    [
        ("sys.argv = ['longhaul', 'tasks']; from longhaul.cli.main import main; main()", 2),
        ("from longhaul import train", 1),
        ("import longhaul; longhaul.load('runs/a')", 1),
    ],
)
def test_windows_is_refused_in_one_line(program: str, code: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", REFUSED + program], capture_output=True, text=True, check=False
    )
    assert done.returncode == code
    last = done.stderr.strip().splitlines()[-1]
    assert last.endswith("longhaul needs Linux or macOS; on Windows, install it inside WSL 2")
    assert code != 2 or done.stderr.count("\n") == 1

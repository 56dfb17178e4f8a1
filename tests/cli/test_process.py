"""Nothing an environment has started outlives the command, however that ends."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from tests.faults.offspring import TASK, started

pytestmark = pytest.mark.thorough

KINDS = 4  # of processes that an env of this kind starts
LONG = ("--total-timesteps", "100_000_000")
SHORT = ("--total-timesteps", "128", "--set", "evaluate.final_episodes=1")


def begin(folder: Path, runtime: str, *more: str) -> subprocess.Popen[bytes]:
    command = [
        sys.executable, "-m", "longhaul", "train", TASK, "--runs-root", str(folder / "runs"),
        "--no-report", "--num-envs", "1", "--set", "collect.num_steps=64", "--set",
        f"env.runtime={runtime}", "--set", f'options.kwargs.folder="{folder}"', *more,
    ]  # fmt: skip
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def wait_for(condition: Callable[[], bool], seconds: float) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.05)
    return False


def is_gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def trains(folder: Path) -> bool:
    """Whether the run has come to its training, with all the processes its env starts."""
    rows = [path for path in folder.glob("runs/*/*/metrics.jsonl") if path.stat().st_size]
    return bool(rows) and len(started(folder)) >= KINDS


@pytest.mark.parametrize(
    ("runtime", "ending"),
    [
        ("processes", signal.SIGKILL),
        ("processes", signal.SIGTERM),
        ("serial", signal.SIGTERM),
        ("serial", signal.SIGINT),
    ],
)
def test_all_descendants_end_with_a_trainer_that_is_ended(
    tmp_path: Path, runtime: str, ending: signal.Signals
) -> None:
    trainer = begin(tmp_path, runtime, *LONG)
    try:
        assert wait_for(lambda: trains(tmp_path), 120)
        trainer.send_signal(ending)
        trainer.wait(60)
        pids = started(tmp_path)
        assert wait_for(lambda: all(is_gone(pid) for pid in pids), 20)
    finally:
        trainer.kill()
        clear(tmp_path)


@pytest.mark.parametrize("runtime", ["processes", "serial"])
def test_all_descendants_end_with_a_run_that_is_done(tmp_path: Path, runtime: str) -> None:
    trainer = begin(tmp_path, runtime, *SHORT)
    try:
        assert trainer.wait(120) == 0
        pids = started(tmp_path)
        assert len(pids) >= KINDS
        assert wait_for(lambda: all(is_gone(pid) for pid in pids), 20)
    finally:
        trainer.kill()
        clear(tmp_path)


def clear(folder: Path) -> None:
    """End what a failed test has left."""
    for pid in started(folder):
        if not is_gone(pid):
            psutil.Process(pid).kill()

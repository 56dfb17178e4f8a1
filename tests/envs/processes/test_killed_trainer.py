"""A trainer that is killed at the worst moments: while it starts its guard and its workers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest

from longhaul.core.system import is_linux, processes_with

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.skipif(
        not is_linux(), reason="elsewhere a worker looks for its parent now and then"
    ),
]

TRAINER = """
import numpy as np
from longhaul.core.seeds import DerivedSeeds, Seeds
from longhaul.envs.config import ProcessesConfig
from longhaul.envs.processes.vector import ProcessVectorEnv
from tests.faults.walk import WalkFactory
source, seeds = WalkFactory().source(), DerivedSeeds(Seeds(1))
vector = ProcessVectorEnv(source, 3, seeds, config=ProcessesConfig(workers=3))
vector.reset()
while True:
    vector.step(np.ones(3, np.int64))
"""
VARIABLE = "LONGHAUL_TEST_TRAINER"
START_SECONDS, GONE_SECONDS = 60.0, 20.0


@contextmanager
def trainer(mark: str) -> Iterator[subprocess.Popen[bytes]]:
    """Start a trainer whose mark everything below it inherits."""
    with subprocess.Popen(
        [sys.executable, "-c", TRAINER], env={**os.environ, VARIABLE: mark}, cwd=Path.cwd()
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def wait_for_children(process: subprocess.Popen[bytes], count: int) -> None:
    """Return at once when the trainer has so many processes: its guard, then its workers."""
    children = Path(f"/proc/{process.pid}/task")
    until = time.monotonic() + START_SECONDS
    while time.monotonic() < until:
        found = 0
        for thread in children.iterdir():
            with suppress(OSError):
                found += len((thread / "children").read_text().split())
        if found >= count:
            return
        assert process.poll() is None
    raise AssertionError(f"no {count} processes after {START_SECONDS:g} s")


def left(mark: str) -> list[int]:
    """Return what still lives a while after the trainer."""
    until = time.monotonic() + GONE_SECONDS
    while (found := processes_with(VARIABLE, mark)) and time.monotonic() < until:
        time.sleep(0.02)
    return found


def in_memory(pid: int) -> list[str]:
    """Return the names in /dev/shm that a process has open or mapped."""
    held = []
    for path in (Path(f"/proc/{pid}/fd"), Path(f"/proc/{pid}/map_files")):
        for link in path.iterdir():
            with suppress(OSError):
                held.append(str(link.readlink()))
    return [name for name in held if name.startswith("/dev/shm")]


@pytest.mark.parametrize("after_seconds", [0.0, 0.01, 0.1])
@pytest.mark.parametrize("children", [1, 2, 3, 4])
def test_nothing_outlives_a_trainer_that_is_killed_while_it_starts_a_process(
    children: int, after_seconds: float
) -> None:
    mark = uuid.uuid4().hex
    with trainer(mark) as process:
        wait_for_children(process, children)
        time.sleep(after_seconds)
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert not left(mark), [psutil.Process(pid).cmdline() for pid in left(mark)]


def test_a_trainer_and_its_workers_hold_no_name_in_memory_that_could_stay() -> None:
    mark = uuid.uuid4().hex
    with trainer(mark) as process:
        wait_for_children(process, 4)
        family = processes_with(VARIABLE, mark)
        assert len(family) == 5
        assert not {name for pid in family for name in in_memory(pid)}
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert not left(mark)

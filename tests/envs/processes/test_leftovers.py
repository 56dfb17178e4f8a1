"""Workers end with their trainer, however it ends, and leave nothing behind."""

from __future__ import annotations

import gc
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import psutil
import pytest

from longhaul.core.env import SingleEnvs
from longhaul.core.spaces import Discrete, EnvSpec, Part
from longhaul.envs.config import ProcessesConfig
from longhaul.envs.gymnasium.env import GymnasiumFactory
from longhaul.envs.processes.vector import ProcessVectorEnv
from tests.contracts.vector_env_contract import SEEDS, play, wishes
from tests.envs.processes.conftest import QUICK
from tests.faults.offspring import started
from tests.faults.trouble import Plan, tell
from tests.faults.walk import WalkFactory

pytestmark = pytest.mark.thorough

TRAINER = """
import json, sys
import numpy as np
from longhaul.core.seeds import DerivedSeeds, Seeds
from longhaul.envs.config import ProcessesConfig
from longhaul.envs.processes.vector import ProcessVectorEnv
from tests.faults.walk import WalkFactory
source, seeds = WalkFactory(sys.argv[1]).source(), DerivedSeeds(Seeds(1))
vector = ProcessVectorEnv(source, 2, seeds, config=ProcessesConfig(workers=2))
vector.reset()
print(json.dumps(list(vector.pids().values())), flush=True)
while True:
    vector.step(np.ones(2, np.int64))
"""


def named_memory(pid: int) -> list[str]:
    """Return what a process has mapped that would stay in /dev/shm after it."""
    maps = Path(f"/proc/{pid}/maps").read_text().splitlines()
    return [line for line in maps if "/dev/shm" in line]


def wait_for(condition: object, seconds: float) -> bool:
    """Look again and again until the condition holds."""
    assert callable(condition)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.02)
    return False


def is_gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


@pytest.mark.parametrize(
    ("doing", "ending"),
    [
        ("", signal.SIGTERM),
        ("", signal.SIGKILL),
        ("sleep", signal.SIGKILL),
        ("hold", signal.SIGKILL),
        ("stop", signal.SIGKILL),
    ],
)
def test_workers_end_with_their_trainer_whatever_they_do(
    tmp_path: Path, doing: str, ending: signal.Signals
) -> None:
    folder = tell(tmp_path, *([Plan(doing, steps=(2,))] if doing else []))
    trainer = subprocess.Popen(
        [sys.executable, "-c", TRAINER, folder], stdout=subprocess.PIPE, cwd=Path.cwd()
    )
    assert trainer.stdout is not None
    pids = json.loads(trainer.stdout.readline())
    assert len(pids) == 2
    assert not any(named_memory(pid) for pid in (trainer.pid, *pids))
    if doing == "stop":
        assert wait_for(
            lambda: all(psutil.Process(pid).status() == psutil.STATUS_STOPPED for pid in pids), 20
        )
    trainer.send_signal(ending)
    trainer.wait(10)
    trainer.stdout.close()
    assert wait_for(lambda: all(is_gone(pid) for pid in pids), 5)


def test_closing_leaves_no_process_no_zombie_and_no_descriptor(tmp_path: Path) -> None:
    me = psutil.Process()
    gc.collect()
    before = me.num_fds()
    vector = ProcessVectorEnv(WalkFactory().source(), 4, SEEDS, config=QUICK)
    vector.reset()
    pids = set(vector.pids().values())
    os.kill(min(pids), signal.SIGKILL)
    play(vector, wishes(vector, 20))
    pids |= set(vector.pids().values())
    vector.close()
    vector.close()
    assert not pids & {child.pid for child in me.children(recursive=True)}
    del vector
    gc.collect()  # the mapping of the shared memory goes with the last array
    assert me.num_fds() == before


@pytest.mark.parametrize("how", ["sleep", "stop", "hold", "kill", "runtime"])
def test_an_env_that_fails_to_close_is_ended_all_the_same(tmp_path: Path, how: str) -> None:
    vector = ProcessVectorEnv(
        WalkFactory(tell(tmp_path, Plan(how, "close"))).source(), 2, SEEDS, config=QUICK
    )
    vector.reset()
    pids = vector.pids()
    vector.close()
    assert all(is_gone(pid) for pid in pids.values())


def test_what_a_killed_worker_has_started_ends_before_it_is_replaced(tmp_path: Path) -> None:
    spec = EnvSpec("test:parent", {"obs": Part((2,))}, Discrete(2))
    factory = GymnasiumFactory(
        "tests.faults.offspring:Parent-v0", {"folder": str(tmp_path)}, masks="none"
    )
    vector = ProcessVectorEnv(
        SingleEnvs(spec, factory), 1, SEEDS, config=ProcessesConfig(workers=1)
    )
    try:
        vector.reset()
        assert wait_for(lambda: len(started(tmp_path)) == 4, 20)
        first = started(tmp_path)
        # One of them holds the worker's end of the channel open: the death is noticed all the same.
        os.kill(vector.pids()[0], signal.SIGKILL)
        vector.step(np.ones(1, np.int64))
        assert all(is_gone(pid) for pid in first)
        assert wait_for(lambda: len(started(tmp_path)) == 8, 20)
    finally:
        vector.close()
    assert all(is_gone(pid) for pid in started(tmp_path))


def test_requests_to_stop_are_the_trainers_alone() -> None:
    vector = ProcessVectorEnv(WalkFactory().source(), 2, SEEDS, config=QUICK)
    vector.reset()
    pids = vector.pids()
    assert all(os.getpgid(pid) != os.getpgid(0) for pid in pids.values())
    for pid in pids.values():
        os.kill(pid, signal.SIGINT)
        os.kill(pid, signal.SIGTERM)
    play(vector, wishes(vector, 5))
    assert vector.pids() == pids
    vector.close()

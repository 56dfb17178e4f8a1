"""Gives the same four faults to three vector environments and prints what becomes of each.

Run it by hand from the repository's folder: `python -m benchmarks.faults`. Every case runs in a
separate process, which is killed after a time limit.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import gymnasium as gym
import numpy as np
from benchmarks.fault_env import FaultyWalk

from longhaul.app.build.text import columns

FAULTS = {
    "killed": "worker killed (SIGKILL)",
    "hung": "worker asleep",
    "stopped": "worker stopped (SIGSTOP)",
    "raised": "exception in step",
}
SYSTEMS = {
    "gymnasium": "Gymnasium AsyncVectorEnv",
    "sb3": "SB3 SubprocVecEnv",
    "longhaul": "longhaul processes",
}
NUM_ENVS = 4
STEPS = 100
SEED = 7
SET_UP_LIMIT = 120.0

Advance = Callable[[Any], Sequence[Any]]
"""Takes one step in all environments and returns the arrays that came of it."""


def gymnasium_async(fault: str, claim: str) -> Advance:
    """Return the steps of Gymnasium's vector environment."""
    vector = gym.vector.AsyncVectorEnv(
        [partial(FaultyWalk, fault, claim)] * NUM_ENVS, shared_memory=True, context="spawn"
    )
    vector.reset(seed=SEED)
    return lambda actions: vector.step(actions)[:4]


def sb3_subproc(fault: str, claim: str) -> Advance:
    """Return the steps of Stable-Baselines3's vector environment."""
    from stable_baselines3.common.vec_env import SubprocVecEnv

    vector = SubprocVecEnv([partial(FaultyWalk, fault, claim)] * NUM_ENVS)
    vector.seed(SEED)
    vector.reset()
    return lambda actions: vector.step(actions)[:3]


def longhaul_processes(fault: str, claim: str) -> Advance:
    """Return the steps of longhaul's processes runtime, with its default settings."""
    from longhaul.core.seeds import DerivedSeeds, Seeds
    from longhaul.envs.gymnasium.env import GymnasiumFactory, gymnasium_envs
    from longhaul.envs.processes.vector import ProcessVectorEnv

    env_id = "benchmarks.fault_env:benchmarks/FaultyWalk-v0"
    factory = GymnasiumFactory(env_id, {"fault": fault, "claim": claim})
    vector = ProcessVectorEnv(gymnasium_envs(factory), NUM_ENVS, DerivedSeeds(Seeds(SEED)))
    vector.reset()

    def advance(actions: Any) -> Sequence[Any]:
        slots = vector.step(actions).slots
        return [slots.obs["obs"], slots.reward, slots.terminated, slots.truncated, slots.lost]

    return advance


OPENERS = {"gymnasium": gymnasium_async, "sb3": sb3_subproc, "longhaul": longhaul_processes}


def play(system: str, fault: str, folder: Path) -> dict[str, Any]:
    """Return what came of a hundred steps: how it ended, the longest step, and a digest."""
    advance = OPENERS[system](fault, str(folder / "claim"))
    (folder / "said").touch()
    digest = hashlib.blake2b(digest_size=16)
    drawn = np.random.default_rng(SEED).integers(0, 2, (STEPS, NUM_ENVS))
    longest = 0.0
    for actions in drawn:
        before = time.perf_counter()
        try:
            arrays = advance(actions)
        except Exception as error:  # noqa: BLE001 - how it ends is the question
            seconds = time.perf_counter() - before
            return {"ended": type(error).__name__, "seconds": seconds}
        longest = max(longest, time.perf_counter() - before)
        for array in arrays:
            digest.update(np.ascontiguousarray(array).tobytes())
    return {"ended": "", "seconds": longest, "digest": digest.hexdigest()}


@dataclass(frozen=True, slots=True)
class Case:
    """What became of one system under one fault."""

    happened: str
    seconds: float | None
    digest: str = ""

    def row(self, system: str, fault: str, undisturbed: str) -> tuple[str, ...]:
        """Return a line of the table."""
        waited = "-" if self.seconds is None else f"{self.seconds:.1f} s"
        equal = "-" if not self.digest else ("yes" if self.digest == undisturbed else "NO")
        return FAULTS[fault], SYSTEMS[system], self.happened, waited, equal


def run_case(system: str, fault: str, limit: float) -> Case:
    """Play one case in a separate process; the limit counts from when it is ready to step."""
    with TemporaryDirectory(prefix="longhaul-faults-") as folder:
        said = Path(folder) / "said"
        child = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.faults", "--play", system, fault, folder],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            wait_until(child, said.exists, SET_UP_LIMIT)
            wait_until(child, lambda: "ended" in said.read_text(), limit)
            found = json.loads(said.read_text())
        except TimeoutError:
            is_ready = said.exists()
            return Case(f"hung: no step in {limit:g} s" if is_ready else "never got ready", None)
        finally:
            end_session(child)
    if found["ended"]:
        return Case(f"run ended: {found['ended']}", None)
    return Case("went on", found["seconds"], found["digest"])


def wait_until(child: subprocess.Popen[bytes], is_so: Callable[[], bool], limit: float) -> None:
    """Wait until something is so; raise if it takes too long or the child ends before."""
    until = time.monotonic() + limit
    while not is_so():
        if time.monotonic() > until or (child.poll() is not None and not is_so()):
            raise TimeoutError
        time.sleep(0.02)


def end_session(child: subprocess.Popen[bytes]) -> None:
    """Kill whatever a case has left behind."""
    with suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()


def main() -> None:
    """Play all cases, or the one that is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--limit", type=float, default=20.0, help="seconds for each case")
    parser.add_argument("--systems", nargs="*", default=list(SYSTEMS), choices=list(SYSTEMS))
    parser.add_argument("--play", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.play:
        system, fault, folder = arguments.play
        found = play(system, fault, Path(folder))
        (Path(folder) / "found").write_text(json.dumps(found))
        (Path(folder) / "found").rename(Path(folder) / "said")
        # A vector env that lost a worker may wait for it even while it is closed.
        os._exit(0)
    rows: list[tuple[str, ...]] = []
    for system in arguments.systems:
        undisturbed = run_case(system, "none", arguments.limit)
        rows += [
            run_case(system, fault, arguments.limit).row(system, fault, undisturbed.digest)
            for fault in FAULTS
        ]
    rows.sort(key=lambda row: list(FAULTS.values()).index(row[0]))
    header = ("fault", "system", "what happened", "longest step", "as undisturbed")
    sys.stdout.write(columns(rows, header=header) + "\n")


if __name__ == "__main__":
    main()

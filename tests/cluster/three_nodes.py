"""A real cluster of three nodes on loopback, and a real trainer whose parts are killed."""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import psutil

from longhaul.cluster.connect import import_ray

STORE = 100 * 2**20
PATIENCE = 240.0  # seconds until a test that would hang fails; the machine may be busy
LOOK = 0.05
CONFIG = (
    "num_envs=12",
    "collect.num_steps=32",
    "collect.overlap=true",
    "learn.algorithm=vtrace",
    "learn.n_epochs=1",
    "policy.hidden=[16]",
    "env.runtime=serial",
    "env.check_seeds=false",
    "evaluate.final_episodes=0",
    "checkpoint.every_iterations=5",
    "cluster.collectors=4",
    "cluster.cpus_per_collector=0.5",
    "cluster.quorum=0.5",
    "cluster.connect_seconds=120",  # of a busy machine
    "cluster.start_seconds=240",
)


class ThreeNodes:
    """Three raylets with their own stores; closing it ends all of them."""

    def __init__(self) -> None:
        import_ray(only_loopback=True)
        cluster_utils: Any = importlib.import_module("ray.cluster_utils")
        one = {"num_cpus": 1, "object_store_memory": STORE}
        self._cluster = cluster_utils.Cluster(
            initialize_head=True, head_node_args={**one, "include_dashboard": False}
        )
        self._one = one
        self.nodes = [self._cluster.add_node(**one) for _ in range(2)]

    @property
    def address(self) -> str:
        return str(self._cluster.address)

    def kill_node(self, collectors: Sequence[int]) -> list[int]:
        """Kill a raylet with at least one of these processes; return those that die with it."""
        parents = {pid: psutil.Process(pid).ppid() for pid in collectors}
        for number, node in enumerate(self.nodes):
            raylet = node.all_processes["raylet"][0].process.pid
            victims = [pid for pid, parent in parents.items() if parent == raylet]
            if victims:
                os.kill(raylet, signal.SIGKILL)
                del self.nodes[number]
                return victims
        raise AssertionError("no collector lives on any node but the head's")

    def add_node(self) -> None:
        self.nodes.append(self._cluster.add_node(**self._one))

    def close(self) -> None:
        self._cluster.shutdown()


class Trainer:
    """A `longhaul train` on a cluster, followed by its logs."""

    def __init__(self, root: Path, address: str, *overrides: str, steps: int = 10**9) -> None:
        self._root = root
        flags = [word for one in (*CONFIG, *overrides) for word in ("--set", one)]
        self._begin(
            "train", "gym:CartPole-v1", "--cluster", address, "--runs-root", str(root),
            "--total-timesteps", str(steps), *flags,
        )  # fmt: skip

    def _begin(self, *words: str) -> None:
        command = [sys.executable, "-m", "longhaul", *words, "--no-report", "-q"]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL)

    @property
    def run(self) -> Path:
        (run,) = self._root.glob("*/*/")
        return run

    def rows(self, log: str) -> list[dict[str, Any]]:
        """Return the whole lines of a log."""
        files = list(self._root.glob(f"*/*/{log}.jsonl"))
        text = files[0].read_text() if files else ""
        return [json.loads(line) for line in text.split("\n")[:-1]]

    def events(self, event: str) -> list[dict[str, Any]]:
        return [row for row in self.rows("sessions") if row["event"] == event]

    def iterations(self) -> int:
        return len(self.rows("metrics"))

    def until(self, what: str, is_so: Callable[[], bool]) -> float:
        """Wait until something is so, while the trainer lives; return the seconds it took."""
        began = time.monotonic()
        while not is_so():
            assert self.process.poll() is None, f"the trainer ended before {what}"
            assert time.monotonic() - began < PATIENCE, f"no sign that {what}"
            time.sleep(LOOK)
        return time.monotonic() - began

    def go_on(self, iterations: int) -> float:
        """Wait for so many iterations more; return the seconds they took."""
        goal = self.iterations() + iterations
        return self.until(f"iteration {goal} is over", lambda: self.iterations() >= goal)

    def collectors(self) -> list[int]:
        """Return the process of every collector that joined the trainer of now."""
        joined = self.events("collector_joined")
        mine = [row for row in joined if row["pid"] == self.process.pid]
        return list({row["collector"]: int(row["process"]) for row in mine}.values())

    def until_replaced(self, victims: Sequence[int]) -> float:
        """Wait until others have taken the places of these collectors."""
        return self.until(
            f"{victims} are replaced", lambda: not set(victims) & set(self.collectors())
        )

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def resume(self) -> None:
        self._begin("resume", str(self.run))

    def stop(self) -> int:
        """Ask for a clean end; return the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(PATIENCE)

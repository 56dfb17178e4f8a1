"""A process that saves until it is killed; it forks so that torch is imported only once.

Reads lines of JSON, {"run": folder, "kill_at": number or null, "iterations": number}, and forks a
child for each. The child takes the run's lock, restores, and saves iteration after iteration.
Every event the interpreter audits that is about to change the run folder is counted; at number
`kill_at` the child kills itself with SIGKILL, and with null it writes one byte per event to
standard error until somebody else does. The parent answers with the child's pid, and with its exit
status once it is dead.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import torch

from longhaul.core.control import Progress, View
from longhaul.core.settings import Settings
from longhaul.core.state import State
from longhaul.runs.checkpoints.manifest import Stamp
from longhaul.runs.checkpoints.store import CheckpointStore
from longhaul.runs.config import CheckpointConfig
from longhaul.runs.directory import RunDirectory
from longhaul.runs.lock import Clocks, RunLock
from longhaul.runs.logs.jsonl import SessionLog
from longhaul.runs.recorder import Recorder

ITERATIONS = 100_000
CHANGES = ("open", "os.rename", "os.mkdir", "os.rmdir", "os.remove", "shutil.rmtree")


class Counter:
    """A part whose weights follow from the number of updates."""

    def __init__(self) -> None:
        self.updates = 0

    def weights(self) -> torch.Tensor:
        return torch.arange(2000, dtype=torch.float64) * self.updates

    def state_dict(self) -> State:
        return {"updates": self.updates, "weights": self.weights()}

    def load_state_dict(self, state: State) -> None:
        self.updates = state["updates"]
        if not torch.equal(state["weights"], self.weights()):
            raise ValueError("weights and updates do not belong together")


def open_recorder(run: RunDirectory, part: Counter, lock: RunLock) -> Recorder:
    config = CheckpointConfig(keep_last=2, reserve_megabytes=0)
    store = CheckpointStore(run.checkpoints, config, Stamp({"task": "count"}), Clocks())
    return Recorder(run, {"counter": part}, store, lock, SessionLog(run, Clocks()))


def count_on(run: RunDirectory, iterations: int) -> Recorder:
    """Go on counting for `iterations`, saving after each."""
    part = Counter()
    lock = RunLock(run.lock, Clocks())
    recorder = open_recorder(run, part, lock)
    progress, settings = recorder.restore(Settings([]))
    for _ in range(iterations):
        part.updates += 1
        progress = Progress(progress.iteration + 1, progress.env_steps + 10, progress.episodes)
        metrics = {"train/updates": float(part.updates)}
        recorder.record(View(progress, metrics, settings), [], [], {})
        recorder.checkpoint(progress, settings)
    recorder.close()
    lock.close()
    return recorder


def _watch(folder: str, kill_at: int | None) -> None:
    seen = 0

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal seen
        if event not in CHANGES or not str(arguments[0]).startswith(folder):
            return
        if event == "open" and not arguments[2] & (os.O_WRONLY | os.O_RDWR):
            return
        seen += 1
        if kill_at is None:
            os.write(2, b".")
        elif seen == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)


def main() -> None:
    for line in sys.stdin:
        command = json.loads(line)
        pid = os.fork()
        if pid == 0:
            _watch(command["run"], command["kill_at"])
            code = 1
            try:
                count_on(RunDirectory(Path(command["run"])), command["iterations"])
                code = 0
            finally:
                # A reader that still waits for events must not wait for ever.
                os.write(2, b"!" * 200)
                os._exit(code)
        sys.stdout.write(f"{pid}\n")
        sys.stdout.flush()
        _, status = os.waitpid(pid, 0)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(status)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()

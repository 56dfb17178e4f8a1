"""heartbeat.json: written every few seconds with the present stage and progress of a run."""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import msgspec

from longhaul.core.control import Progress
from longhaul.core.env import Workers
from longhaul.runs.durable import replace_file
from longhaul.runs.lock import Clocks


class Background:
    """Calls `work` every so many seconds, from a daemon thread, between `start` and `close`."""

    def __init__(self, name: str, every_seconds: float, work: Callable[[], None]) -> None:
        self._every = every_seconds
        self._work = work
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    @property
    def ident(self) -> int | None:
        """The thread's number; None before it started."""
        return self._thread.ident

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def close(self) -> bool:
        """End the thread and wait for it; return whether it was running."""
        self._ended.set()
        was_running = self._thread.is_alive()
        if was_running:
            self._thread.join()
        return was_running

    def _run(self) -> None:
        while not self._ended.wait(self._every):
            self._work()


@dataclass(frozen=True, slots=True)
class WorkerBeat:
    """What one worker process is doing, and for how long it has shown no progress."""

    worker: int
    pid: int
    stage: str
    env: int | None
    age_seconds: float


@dataclass(frozen=True, slots=True)
class Beat:
    """What heartbeat.json holds."""

    stage: str
    stage_seconds: float
    progress: Progress
    rates: dict[str, float]
    pid: int
    host: str
    wall: float
    monotonic: float
    details: dict[str, str] = field(default_factory=dict)
    workers: list[WorkerBeat] = field(default_factory=list)


def read_beat(path: Path) -> Beat | None:
    """Return the last beat; None if there is none yet or it is unreadable."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Beat)
    except (OSError, msgspec.DecodeError):
        return None


class Heartbeat:
    """Rewrites heartbeat.json at most every `every_seconds`: on updates and from a thread.

    The thread keeps it current during a long stage. A beat that cannot be written is skipped,
    because it must not end the run; `failures` counts them.
    """

    def __init__(
        self,
        path: Path,
        clocks: Clocks,
        *,
        every_seconds: float = 2.0,
        workers: Callable[[], list[WorkerBeat]] = list,
    ) -> None:
        self._path = path
        self._clocks = clocks
        self._every = every_seconds or float("inf")
        self._workers = workers
        self._lock = threading.Lock()
        self._thread = Background("heartbeat", self._every, self._beat_if_old)
        self._written_at = -float("inf")
        self._stage, self._stage_since = "starting", clocks.monotonic()
        self._progress = Progress()
        self._rates: dict[str, float] = {}
        self._details: dict[str, str] = {}
        self.failures = 0

    def start(self) -> None:
        """Write the first beat and start the thread."""
        self.beat()
        if self._every != float("inf"):
            self._thread.start()

    def enter_stage(self, stage: str) -> None:
        """Set the present stage."""
        with self._lock:
            self._stage, self._stage_since = stage, self._clocks.monotonic()
        self._beat_if_old()

    def update(
        self,
        progress: Progress,
        rates: Mapping[str, float],
        details: Mapping[str, str] | None = None,
    ) -> None:
        """Set progress, rates and further details."""
        with self._lock:
            self._progress = progress
            self._rates = {name: float(rate) for name, rate in rates.items()}
            self._details = dict(details) if details is not None else self._details
        self._beat_if_old()

    def beat(self) -> None:
        """Write the file now."""
        with self._lock:
            now = self._clocks.monotonic()
            content = {
                "stage": self._stage,
                "stage_seconds": now - self._stage_since,
                "progress": {
                    "iteration": self._progress.iteration,
                    "env_steps": self._progress.env_steps,
                    "episodes": self._progress.episodes,
                },
                "rates": self._rates,
                "pid": os.getpid(),
                "host": socket.gethostname(),
                "wall": self._clocks.wall(),
                "monotonic": now,
                "details": self._details,
                "workers": [asdict(worker) for worker in self._workers()],
            }
            self._written_at = now
            try:
                # After a power cut a beat is useless, so it is not forced to disk.
                encoded = json.dumps(content, allow_nan=False).encode()
                replace_file(self._path, encoded, durable=False)
            except (OSError, ValueError):
                self.failures += 1

    def close(self) -> None:
        """End the thread and write a last beat."""
        self._thread.close()
        self.beat()

    def _beat_if_old(self) -> None:
        if self._clocks.monotonic() - self._written_at >= self._every:
            self.beat()

    def __enter__(self) -> Heartbeat:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class WorkerRegistry:
    """The groups of workers that are running; thread-safe."""

    def __init__(self, clocks: Clocks) -> None:
        self._clocks = clocks
        self._lock = threading.Lock()
        self._groups: list[Workers] = []
        self._signs: dict[int, tuple[int, float]] = {}  # by process: signs of life, and since when

    def add(self, group: Workers) -> None:
        """Add a group that starts."""
        with self._lock:
            self._groups.append(group)

    def remove(self, group: Workers) -> None:
        """Remove a group that is about to end."""
        with self._lock:
            self._groups = [one for one in self._groups if one is not group]

    def groups(self) -> Sequence[Workers]:
        """Return the running groups."""
        with self._lock:
            return tuple(self._groups)

    def beats(self) -> list[WorkerBeat]:
        """Return what every worker does, and for how long it has shown no progress."""
        now = self._clocks.monotonic()
        beats: list[WorkerBeat] = []
        signs: dict[int, tuple[int, float]] = {}
        for group in self.groups():
            for state in group.states():
                known = self._signs.get(state.pid)
                is_same = known is not None and known[0] == state.signs
                since = known[1] if known is not None and is_same else now
                signs[state.pid] = (state.signs, since)
                beats.append(
                    WorkerBeat(state.worker, state.pid, state.stage, state.env, now - since)
                )
        self._signs = signs
        return beats

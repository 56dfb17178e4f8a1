"""Monitoring a run while it trains: heartbeat, stages, workers and stalls."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack

import torch

from longhaul.app.session.display import Display
from longhaul.core.control import Progress, RunLength
from longhaul.core.metrics import Metrics
from longhaul.core.parts import Recorded, RunListener
from longhaul.engine.summary import StageTimer
from longhaul.runs.directory import RunDirectory
from longhaul.runs.lock import Clocks
from longhaul.runs.logs.jsonl import WriteNote
from longhaul.runs.monitor.heartbeat import Heartbeat, WorkerRegistry
from longhaul.runs.monitor.resources import WatchConfig
from longhaul.runs.monitor.stalls import ProgressSignal
from longhaul.runs.monitor.watchdog import Reporting, Watchdog


class Monitoring(RunListener):
    """All monitoring of one session."""

    def __init__(
        self, run: RunDirectory, config: WatchConfig, clocks: Clocks, display: Display
    ) -> None:
        self._run = run
        self._config = config
        self._display = display
        self.clocks = clocks
        self.signal = ProgressSignal()
        self.workers = WorkerRegistry(clocks)
        self.heartbeat = Heartbeat(
            run.heartbeat,
            clocks,
            every_seconds=config.heartbeat_seconds,
            workers=self.workers.beats,
        )
        self.timer = StageTimer(entered=self._enter, left=self.signal.leave)

    def _enter(self, stage: str) -> None:
        self.signal.enter(stage)
        self.heartbeat.enter_stage(stage)
        self._display.stage(stage)

    def advance(self, stage: str) -> None:
        """Record progress inside a long stage; `stage` describes it."""
        self.signal.advance()
        self.heartbeat.enter_stage(stage)

    def guard(self, stack: ExitStack, note: WriteNote) -> None:
        """Watch for stalls until the stack is closed, and report them in sessions.jsonl."""
        if self._config.enabled:
            reporting = Reporting(self._run.crash, self._display.notice, note, self.workers.groups)
            stack.enter_context(Watchdog(self.signal, self._config, reporting, self.clocks))

    def iteration(self, recorded: Recorded) -> None:
        """Update the heartbeat with progress and speed."""
        rates = {name: recorded.timings[name] for name in ("time/fps", "time/session_fps")}
        self.heartbeat.update(recorded.progress, rates)


class TimeLeft(RunListener):
    """Estimates the remaining time of a run from the speed of this session."""

    def __init__(self, length: RunLength, clock: Callable[[], float] = time.perf_counter) -> None:
        self._length = length
        self._clock = clock
        self._began = 0.0
        self._first = self._done = 0

    def begin(self, progress: Progress) -> None:
        """Start counting."""
        self._began = self._clock()
        self._first = self._done = self._length.done(progress)

    def iteration(self, recorded: Recorded) -> None:
        """Record the progress."""
        self._done = self._length.done(recorded.progress)

    def take(self) -> Metrics:
        """Return the remaining time; empty while nothing of the length is done."""
        done = self._done - self._first
        if done <= 0:
            return {}
        left = max(self._length.total - self._done, 0)
        return {"time/eta_seconds": left * (self._clock() - self._began) / done}


def torch_memory() -> dict[str, float]:
    """Return torch's memory on every GPU."""
    found = {}
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        for number in range(torch.cuda.device_count()):
            found[f"gpu/{number}_allocated"] = float(torch.cuda.memory_allocated(number))
            found[f"gpu/{number}_reserved"] = float(torch.cuda.memory_reserved(number))
    return found

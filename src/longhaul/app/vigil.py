"""Watching over a run while it trains: its heartbeat, its stages, its workers, its stalls."""

from __future__ import annotations

from contextlib import ExitStack

from longhaul.app.display import Display
from longhaul.core.metrics import Metrics
from longhaul.core.progress import Progress
from longhaul.engine.watch import Watch
from longhaul.runs.clocks import Clocks
from longhaul.runs.directory import RunDirectory
from longhaul.runs.heartbeat import Heartbeat
from longhaul.runs.recorder import Recorder
from longhaul.runs.stalls import Pulse
from longhaul.runs.watch_config import WatchConfig
from longhaul.runs.watchdog import Reporting, Watchdog
from longhaul.runs.workforce import Workforce


class Vigil:
    """Everything that watches one process's share of a run."""

    def __init__(
        self, run: RunDirectory, config: WatchConfig, clocks: Clocks, display: Display
    ) -> None:
        self._run = run
        self._config = config
        self.clocks = clocks
        self._display = display
        self.pulse = Pulse()
        self.workforce = Workforce(clocks)
        self.heartbeat = Heartbeat(
            run.heartbeat,
            clocks,
            every_seconds=config.heartbeat_seconds,
            workers=self.workforce.beats,
        )
        self.watch = Watch(entered=self._enter, left=self.pulse.leave)

    def _enter(self, stage: str) -> None:
        self.pulse.enter(stage)
        self.heartbeat.enter_stage(stage)
        self._display.stage(stage)

    def advance(self, stage: str) -> None:
        """Take note of progress inside a long stage, in the words of `stage`."""
        self.pulse.advance()
        self.heartbeat.enter_stage(stage)

    def guard(self, stack: ExitStack, recorder: Recorder) -> None:
        """Look for stalls until the stack is left, and tell of them in the sessions."""
        if self._config.enabled:
            reporting = Reporting(
                self._run.crash, self._display.notice, recorder.note, self.workforce.groups
            )
            stack.enter_context(Watchdog(self.pulse, self._config, reporting, self.clocks))

    def write(self, progress: Progress, metrics: Metrics) -> None:
        """Tell the heartbeat how far the run is and how fast; a metric sink's part."""
        rates = {name: metrics[name] for name in ("time/fps", "time/session_fps")}
        self.heartbeat.update(progress, rates)

    def close(self) -> None:
        """Nothing: what watches is closed by whoever opened it."""

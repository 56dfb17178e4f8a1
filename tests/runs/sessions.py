"""A session of a run as the app would hold it, with a part that counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from longhaul.core.control import Progress, View
from longhaul.core.env import Episode
from longhaul.core.parts import RunListener
from longhaul.core.settings import Settings
from longhaul.core.state import State
from longhaul.runs.checkpoints.manifest import Stamp
from longhaul.runs.checkpoints.store import CheckpointStore
from longhaul.runs.config import CheckpointConfig
from longhaul.runs.directory import RunDirectory
from longhaul.runs.lock import RunLock
from longhaul.runs.logs.jsonl import SessionLog
from longhaul.runs.recorder import Recorder
from tests.runs.conftest import LEVELS, RATE, FakeClock


class Counter:
    """A part that counts."""

    def __init__(self) -> None:
        self.count = 0

    def state_dict(self) -> State:
        return {"count": self.count}

    def load_state_dict(self, state: State) -> None:
        self.count = state["count"]


@dataclass(frozen=True)
class Change:
    setting: str

    def as_row(self) -> dict[str, Any]:
        return {"setting": self.setting, "why": "it was due"}


class Session:
    """One process's hold on a run, as the app would assemble it."""

    def __init__(
        self,
        run: RunDirectory,
        clock: FakeClock,
        *,
        listeners: Sequence[RunListener] = (),
        versions: dict[str, str] | None = None,
        **config: Any,
    ) -> None:
        self.part = Counter()
        self.lock = RunLock(run.lock, clock.clocks())
        self.clock = clock
        stamp = Stamp({"task": "count"}, versions or {"torch": "2"})
        store = CheckpointStore(run.checkpoints, CheckpointConfig(**config), stamp, clock.clocks())
        self.log = SessionLog(run, clock.clocks())
        self.recorder = Recorder(run, {"part": self.part}, store, self.lock, self.log)
        for listener in listeners:
            self.recorder.add_listener(listener)
        self.progress, self.settings = self.recorder.restore(Settings([RATE, LEVELS]))

    def iterate(self, times: int = 1) -> None:
        for _ in range(times):
            self.clock.seconds += 0.37
            self.part.count += 1
            number = self.progress.iteration + 1
            self.progress = Progress(number, number * 8, number // 2)
            metrics = {"train/loss": 1 / number, "rollout/count": float(self.part.count)}
            episode = Episode(0, number, 7, 8, 1.5, "end", {"x": 2.0})
            view = View(self.progress, metrics, self.settings)
            changes = [Change("rate")] if number % 2 else []
            if changes:
                moved = RATE.to(1 / number)
                self.settings = self.settings.with_([moved, LEVELS.to((number, number))])
            self.recorder.record(view, changes, [episode], {"time/fps": self.clock.seconds})

    def save(self) -> Path:
        return self.recorder.checkpoint(self.progress, self.settings)

    def end(self) -> None:
        self.recorder.close()
        self.lock.close()

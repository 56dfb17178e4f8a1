from __future__ import annotations

from longhaul.core.control import Progress
from longhaul.core.settings import Settings
from longhaul.core.state import State
from longhaul.runs.checkpoints.manifest import Stamp
from longhaul.runs.checkpoints.store import CheckpointStore
from longhaul.runs.config import CheckpointConfig
from longhaul.runs.directory import RunDirectory
from longhaul.runs.lock import RunLock
from longhaul.runs.logs.jsonl import SessionLog
from longhaul.runs.recorder import Recorder
from tests.runs.conftest import FakeClock


class Ponderous:
    """A part that takes four seconds to be saved."""

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock

    def state_dict(self) -> State:
        self.clock.seconds += 4.0
        return {}

    def load_state_dict(self, state: State) -> None:
        raise NotImplementedError


def test_checkpoints_that_take_long_are_written_less_often(
    run: RunDirectory, clock: FakeClock
) -> None:
    config = CheckpointConfig(every_seconds=5.0, most_share=0.1)
    store = CheckpointStore(run.checkpoints, config, Stamp({}, {}), clock.clocks())
    progress = Progress(1, 8, 0)
    with RunLock(run.lock, clock.clocks()) as lock:
        log = SessionLog(run, clock.clocks())
        recorder = Recorder(run, {"part": Ponderous(clock)}, store, lock, log)
        _, settings = recorder.restore(Settings([]))
        recorder.checkpoint(progress, settings)
        clock.seconds += 35.0
        assert not recorder.due(progress)
        clock.seconds += 1.5
        assert recorder.due(progress)
        recorder.checkpoint(Progress(2, 16, 0), settings)
        assert not recorder.due(progress)
        recorder.request()
        assert recorder.due(progress), "what is asked for outright is never put off"
        recorder.close()

from __future__ import annotations

import threading
from pathlib import Path

from longhaul.core.control import Progress
from longhaul.runs.lock import Clocks
from longhaul.runs.monitor.heartbeat import Heartbeat, read_beat
from tests.runs.conftest import FakeClock


def test_a_beat_tells_stage_progress_rates_and_both_clocks(
    tmp_path: Path, clock: FakeClock
) -> None:
    wall = FakeClock()
    heartbeat = Heartbeat(tmp_path / "heartbeat.json", Clocks(wall, clock))
    heartbeat.update(Progress(3, 300, 2), {"time/fps": 1234.5}, {"device": "cpu"})
    wall.seconds, clock.seconds = 5000.0, 1010.0
    heartbeat.enter_stage("learn")
    clock.seconds += 4.0
    heartbeat.beat()
    beat = read_beat(tmp_path / "heartbeat.json")
    assert beat is not None
    assert (beat.stage, beat.stage_seconds) == ("learn", 4.0)
    assert beat.progress == Progress(3, 300, 2)
    assert beat.rates == {"time/fps": 1234.5}
    assert beat.details == {"device": "cpu"}
    assert (beat.wall, beat.monotonic) == (5000.0, 1014.0)


def test_news_is_written_at_most_every_few_seconds(tmp_path: Path, clock: FakeClock) -> None:
    path = tmp_path / "heartbeat.json"
    heartbeat = Heartbeat(path, clock.clocks(), every_seconds=2.0)
    heartbeat.enter_stage("collect")
    clock.seconds += 1.9
    heartbeat.enter_stage("learn")
    beat = read_beat(path)
    assert beat is not None
    assert beat.stage == "collect"
    clock.seconds += 0.1
    heartbeat.update(Progress(1, 1, 0), {})
    beat = read_beat(path)
    assert beat is not None
    assert beat.stage == "learn"


def test_the_thread_beats_while_the_loop_is_busy(tmp_path: Path) -> None:
    ticks, ticked = [0.0], threading.Event()

    def monotonic() -> float:
        if threading.current_thread().name == "heartbeat":
            ticks[0] += 10.0
            if ticks[0] > 30.0:
                ticked.set()
        return ticks[0]

    clocks = Clocks(lambda: 0.0, monotonic)
    with Heartbeat(tmp_path / "heartbeat.json", clocks, every_seconds=0.001):
        assert ticked.wait(30)
    beat = read_beat(tmp_path / "heartbeat.json")
    assert beat is not None
    assert beat.monotonic > 0
    assert "heartbeat" not in [thread.name for thread in threading.enumerate()]


def test_a_beat_that_cannot_be_written_does_not_stop_the_run(
    tmp_path: Path, clock: FakeClock
) -> None:
    heartbeat = Heartbeat(tmp_path / "missing" / "heartbeat.json", clock.clocks())
    heartbeat.beat()
    assert heartbeat.failures == 1
    heartbeat = Heartbeat(tmp_path / "heartbeat.json", clock.clocks())
    heartbeat.update(Progress(), {"time/fps": float("nan")})
    assert heartbeat.failures == 1


def test_no_beat_or_half_a_beat_reads_as_none(tmp_path: Path) -> None:
    assert read_beat(tmp_path / "heartbeat.json") is None
    (tmp_path / "heartbeat.json").write_bytes(b'{"stage":')
    assert read_beat(tmp_path / "heartbeat.json") is None

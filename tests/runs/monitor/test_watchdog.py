"""Stacks of a run that is stuck or held up, with the line that is to blame."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from longhaul.core.env import Workers, WorkerState
from longhaul.runs.lock import Clocks
from longhaul.runs.monitor.resources import WatchConfig
from longhaul.runs.monitor.stalls import ProgressSignal
from longhaul.runs.monitor.watchdog import (
    Reporting,
    Watchdog,
    innermost_line,
    next_file,
    thread_stacks,
)

WORKER_STACK = """Thread 0x00007f5c (most recent call first):
  File "/lib/threading.py", line 320 in wait
  File "/lib/other.py", line 7 in idle

Current thread 0x00007f5d (most recent call first):
  File "/games/maze.py", line 41 in step
  File "/longhaul/worker.py", line 180 in _step
"""


@dataclass
class Listening:
    """What a watchdog said, and where it wrote."""

    crash: Path
    told: list[str] = field(default_factory=list)
    noted: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    clock: float = 0.0

    def watchdog(self, pulse: ProgressSignal, workers: Sequence[Workers] = ()) -> Watchdog:
        def note(event: str, **facts: Any) -> None:
            self.noted.append((event, facts))

        reporting = Reporting(self.crash, self.told.append, note, lambda: workers)
        clocks = Clocks(wall=lambda: 0.0, monotonic=lambda: self.clock)
        return Watchdog(pulse, WatchConfig(), reporting, clocks)

    def look(self, watchdog: Watchdog, seconds: float) -> None:
        for _ in range(int(2 * seconds)):
            self.clock += 0.5
            watchdog.look(0.5)


@pytest.fixture
def listening(tmp_path: Path) -> Listening:
    return Listening(tmp_path / "crash")


def hang_in_the_middle_of_learning(stop: threading.Event, begun: threading.Event) -> None:
    begun.set()
    stop.wait()  # the line that hangs


LINE_THAT_HANGS = hang_in_the_middle_of_learning.__code__.co_firstlineno + 2


@contextmanager
def hanging(name: str) -> Iterator[None]:
    """Have a thread of this name hang in a known line."""
    stop, begun = threading.Event(), threading.Event()
    thread = threading.Thread(target=hang_in_the_middle_of_learning, args=(stop, begun), name=name)
    thread.start()
    begun.wait()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def test_a_stall_is_dumped_with_the_line_that_hangs(listening: Listening) -> None:
    pulse = ProgressSignal()
    pulse.enter("learn")
    pulse.leave("learn")
    pulse.enter("learn")
    watchdog = listening.watchdog(pulse)
    with hanging("learn-1"):
        listening.look(watchdog, 31)
    (event, facts) = listening.noted[0]
    assert event == "stall"
    assert facts["stage"] == "learn"
    assert facts["where"].endswith(
        f"test_watchdog.py:{LINE_THAT_HANGS} in hang_in_the_middle_of_learning"
    )
    dump = (listening.crash / facts["file"]).read_text()
    assert "stop.wait()  # the line that hangs" in dump
    assert "thread 'MainThread'" in dump
    assert "stuck in 'learn': no progress for 30 s" in listening.told[0]


def test_the_end_of_a_stall_is_told(listening: Listening) -> None:
    pulse = ProgressSignal()
    pulse.enter("learn")
    pulse.leave("learn")
    watchdog = listening.watchdog(pulse)
    listening.look(watchdog, 31)
    pulse.enter("collect")
    listening.look(watchdog, 1)
    assert [event for event, _ in listening.noted] == ["stall", "stall_over"]
    assert len(list(listening.crash.iterdir())) == 1


class Crew:
    """Workers of which one hangs."""

    def states(self) -> tuple[WorkerState, ...]:
        return (WorkerState(0, 11, "idle", None, 5), WorkerState(1, 12, "step", 3, 6))

    def stack(self, worker: int) -> str:
        assert worker == 1, "only the busy one is asked"
        return WORKER_STACK


def test_the_line_of_a_busy_worker_is_named_first(listening: Listening) -> None:
    pulse = ProgressSignal()
    pulse.enter("collect")
    pulse.leave("collect")
    pulse.enter("collect")
    listening.look(listening.watchdog(pulse, [Crew()]), 31)
    where = listening.noted[0][1]["where"]
    assert where == "/games/maze.py:41 in step (worker 1 (process 12) in 'step' of env 3)"
    assert "maze.py" in (listening.crash / listening.noted[0][1]["file"]).read_text()


def steps(
    pulse: ProgressSignal, watchdog: Watchdog, listening: Listening
) -> Callable[[float], None]:
    def step(seconds: float) -> None:
        pulse.begin_step()
        listening.look(watchdog, seconds)
        pulse.end_step()

    return step


def test_slow_steps_are_captured_once_per_window(listening: Listening) -> None:
    pulse = ProgressSignal()
    pulse.enter("collect")
    watchdog = listening.watchdog(pulse)
    for _ in range(100):
        pulse.steps += 50
        listening.look(watchdog, 0.5)
    step = steps(pulse, watchdog, listening)
    for _ in range(4):
        step(2.0)
        listening.look(watchdog, 0.5)
    assert listening.noted == []
    for _ in range(6):
        step(2.0)
        listening.look(watchdog, 0.5)
    assert [event for event, _ in listening.noted] == ["slow_steps"]
    trace = (listening.crash / listening.noted[0][1]["file"]).read_text()
    assert trace.count("a step running for") == 5
    assert "test_watchdog.py" in trace


def test_a_healthy_run_leaves_no_crash_folder_behind(listening: Listening) -> None:
    listening.crash.mkdir()
    (listening.crash / "interpreter-held-1.txt").touch()  # of a trainer that was killed
    with listening.watchdog(ProgressSignal()):
        pass
    assert not any(listening.crash.iterdir())


@pytest.mark.slow
def test_native_code_that_holds_the_interpreter_is_named(tmp_path: Path) -> None:
    told: list[str] = []
    config = WatchConfig(least_seconds=0.5, first_seconds=0.5)
    reporting = Reporting(tmp_path / "crash", told.append, lambda event, **facts: None)
    with Watchdog(ProgressSignal(), config, reporting, Clocks()) as watchdog:
        while not any(tmp_path.glob("crash/interpreter-held-*.txt")):
            watchdog.look(0.0)
        ctypes.PyDLL(None).sleep(9)  # keeps the interpreter's lock
        while not any("held up the whole interpreter" in text for text in told):
            watchdog.look(0.0)
    (held,) = (text for text in told if "held up" in text)
    assert "test_native_code_that_holds_the_interpreter_is_named" in held
    assert (tmp_path / "crash" / "interpreter-held-1.txt").exists()


def test_stacks_of_threads_begin_with_the_main_one() -> None:
    with hanging("waiting"):
        stacks = thread_stacks()
    assert stacks[0].is_main
    assert any(stack.name == "waiting" and "stop.wait()" in stack.lines for stack in stacks)


def test_the_innermost_line_is_that_of_the_thread_that_was_asked() -> None:
    assert innermost_line(WORKER_STACK) == "/games/maze.py:41 in step"
    assert innermost_line("nothing of the kind") == ""


def test_files_of_one_kind_are_numbered(tmp_path: Path) -> None:
    next_file(tmp_path, "stall").touch()
    assert next_file(tmp_path, "stall") == tmp_path / "stall-2.txt"

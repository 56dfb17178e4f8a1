"""A thread that detects stalls and slow steps, and writes the stacks of all threads."""

from __future__ import annotations

import faulthandler
import os
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import BinaryIO

from longhaul.core.env import IDLE, Workers
from longhaul.runs.lock import Clocks
from longhaul.runs.monitor.heartbeat import Background
from longhaul.runs.monitor.resources import WatchConfig
from longhaul.runs.monitor.stalls import (
    Burst,
    ProgressSignal,
    Recovery,
    SlowStep,
    SlowStepDetector,
    Stall,
    StallDetector,
)

DEEPEST = 60  # frames shown per thread
_WAITING = ("/threading.py", "/queue.py", "/selectors.py", "/concurrent/futures/")


@dataclass(frozen=True, slots=True)
class ThreadStack:
    """One thread and the lines it is in, innermost last."""

    name: str
    where: str
    """The innermost line outside the library it waits in: `file:line in function`."""
    lines: str
    is_main: bool = False

    def as_text(self) -> str:
        """Return the stack under a headline."""
        return f"thread {self.name!r}, in {self.where}\n{self.lines}"


def thread_stacks(*, leave_out: int | None = None) -> list[ThreadStack]:
    """Return the stacks of all Python threads, the main one first."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    main = threading.main_thread().ident
    found = [
        ThreadStack(
            names.get(number, f"thread {number}"),
            line_of(frame),
            "".join(traceback.format_stack(frame, limit=DEEPEST)),
            number == main,
        )
        for number, frame in sys._current_frames().items()
        if number != leave_out
    ]
    return sorted(found, key=lambda stack: not stack.is_main)


def line_of(frame: FrameType) -> str:
    """Return the innermost line that is not inside a waiting function of the standard library."""
    innermost: FrameType | None = frame
    while innermost is not None and any(part in innermost.f_code.co_filename for part in _WAITING):
        innermost = innermost.f_back
    shown = innermost or frame
    code = shown.f_code
    return f"{code.co_filename}:{shown.f_lineno} in {code.co_name}"


def innermost_line(stack: str) -> str:
    """Return the innermost line of a stack written by `faulthandler`, empty if it holds none."""
    # Other threads may come before the current one.
    _, _, current = stack.rpartition("Current thread")
    for line in map(str.strip, (current or stack).splitlines()):
        if line.startswith('File "') and " in " in line:
            file, _, rest = line.removeprefix('File "').partition('", line ')
            number, _, function = rest.partition(" in ")
            if not any(part in file for part in _WAITING):
                return f"{file}:{number} in {function}"
    return ""


def main_line(stacks: str) -> str:
    """Return the innermost line of the main thread, which `faulthandler` writes last."""
    return innermost_line(stacks.rpartition("Thread 0x")[2])


def next_file(folder: Path, stem: str) -> Path:
    """Return the first name of `stem`-1.txt, `stem`-2.txt, ... that is not taken."""
    number = 1
    while (path := folder / f"{stem}-{number}.txt").exists():
        number += 1
    return path


LOOK_SECONDS = 0.5
REARM_SECONDS = 5.0
HELD_FACTOR = 2.0  # of `least_seconds`, after which the C timer fires


@dataclass(frozen=True, slots=True)
class Reporting:
    """Where a watchdog finds workers, and where it reports to."""

    crash: Path
    notify: Callable[[str], None]
    note: Callable[..., None]
    """Writes one event with its facts into the sessions."""
    workers: Callable[[], Sequence[Workers]] = tuple


class Watchdog:
    """Checks the progress signal twice a second.

    Native code that never returns may hold the interpreter lock, and then no Python thread runs.
    As a last resort faulthandler's C timer is reset while this thread runs, and writes all stacks
    if it does not.
    """

    def __init__(
        self, pulse: ProgressSignal, config: WatchConfig, reporting: Reporting, clocks: Clocks
    ) -> None:
        self._pulse = pulse
        self._config = config
        self._reporting = reporting
        self._clocks = clocks
        self._stalls = StallDetector(config)
        self._slow = SlowStepDetector(config)
        self._burst = Burst(config.slow_steps, config.slow_window_seconds)
        self._slow_stacks: list[str] = []
        self._thread = Background("watchdog", LOOK_SECONDS, self._watch)
        self._looked_at = 0.0
        self._held: BinaryIO | None = None
        self._armed_at = -float("inf")

    def start(self) -> None:
        """Start the thread."""
        for left_over in self._reporting.crash.glob("interpreter-held-*.txt"):
            with suppress(OSError):
                if not left_over.stat().st_size:
                    left_over.unlink()  # of a trainer that was killed
        self._looked_at = self._clocks.monotonic()
        self._thread.start()

    def close(self) -> None:
        """End the thread."""
        if self._thread.close():
            self.look(0.0)  # reports a run that recovered and ended since the last look
        self._disarm()

    def _watch(self) -> None:
        now = self._clocks.monotonic()
        # Time in which this thread did not run does not count: the whole process was stopped.
        self.look(min(now - self._looked_at, 2 * LOOK_SECONDS))
        self._looked_at = now
        self._arm(now)

    def look(self, elapsed: float) -> None:
        """Read the progress signal, `elapsed` seconds after the last look, and report stalls."""
        sign = self._pulse.read()
        slow = self._slow.look(sign, elapsed)
        if slow is not None:
            self._take_slow(slow)
        match self._stalls.look(sign, elapsed):
            case Stall() as stall:
                self._dump(stall)
            case Recovery(stage, seconds):
                self._reporting.notify(f"the run continues: {stage!r} took {seconds:.0f} s")
                self._reporting.note("stall_over", stage=stage, seconds=round(seconds, 1))

    def _dump(self, stall: Stall) -> None:
        """Write all stacks of a stuck run and report where it is."""
        own, others = self._stacks()
        where = self._place(stall.stage, own, others)
        headline = (
            f"stuck in {stall.stage!r}: no progress for {stall.seconds:.0f} s "
            f"(limit {stall.limit:.0f} s), at {where}"
        )
        path = self._write(f"stall-{stall.stage}", headline, own, others)
        self._reporting.notify(f"{headline}; see {path}" if path else headline)
        self._reporting.note(
            "stall",
            stage=stall.stage,
            seconds=round(stall.seconds, 1),
            limit=round(stall.limit, 1),
            where=where,
            file="" if path is None else path.name,
        )

    def _take_slow(self, slow: SlowStep) -> None:
        """Keep the stack of a slow step; write all kept stacks when there are many."""
        own, others = self._stacks()
        where = self._place("collect", own, others)
        parts = [f"a step running for {slow.seconds:.1f} s, at {where}\n"]
        parts += [stack.as_text() for stack in own]
        parts += [_worker_text(pid, text) for pid, text in others]
        self._slow_stacks = [*self._slow_stacks, "\n".join(parts)][-self._config.slow_steps :]
        if not self._burst.add(self._clocks.monotonic()):
            return
        headline = (
            f"{self._config.slow_steps} steps of the environments took longer than "
            f"{self._slow.limit:.1f} s within {self._config.slow_window_seconds:.0f} s (usual time "
            f"{1000 * slow.usual:.1f} ms); the last at {where}"
        )
        path = self._keep("slow-steps", "\n\n".join([headline, *self._slow_stacks]))
        self._slow_stacks = []
        self._reporting.notify(f"{headline}; see {path}" if path else headline)
        self._reporting.note(
            "slow_steps",
            seconds=round(slow.seconds, 2),
            usual_seconds=round(slow.usual, 6),
            where=where,
            file="" if path is None else path.name,
        )

    def _stacks(self) -> tuple[list[ThreadStack], list[tuple[str, str]]]:
        """Return the stacks of our threads, and of the workers that are doing something."""
        others = []
        for group in self._reporting.workers():
            for state in group.states():
                if state.stage != IDLE:
                    doing = f"worker {state.worker} (process {state.pid}) in {state.stage!r}"
                    if state.env is not None:
                        doing += f" of env {state.env}"
                    others.append((doing, group.stack(state.worker)))
        return thread_stacks(leave_out=self._thread.ident), others

    def _place(
        self, stage: str, own: Sequence[ThreadStack], others: Sequence[tuple[str, str]]
    ) -> str:
        """Return where the run is stuck: the line of a busy worker, else of the stage's thread."""
        for doing, stack in others:
            if line := innermost_line(stack):
                return f"{line} ({doing})"
        # With overlap a separate thread collects while the main one learns.
        named = [stack for stack in own if stack.name.startswith(stage)]
        at = (*named, *own)[0]
        return at.where

    def _write(
        self,
        stem: str,
        headline: str,
        own: Sequence[ThreadStack],
        others: Sequence[tuple[str, str]],
    ) -> Path | None:
        parts = [headline, f"{self._clocks.stamp()}, process {os.getpid()}"]
        parts += [stack.as_text() for stack in own]
        parts += [_worker_text(doing, text) for doing, text in others]
        return self._keep(stem, "\n\n".join(parts))

    def _keep(self, stem: str, text: str) -> Path | None:
        """Write a file into the crash folder; a failure to write must not end the run."""
        folder = self._reporting.crash
        try:
            folder.mkdir(exist_ok=True)
            path = next_file(folder, stem)
            path.write_text(text + "\n")
        except OSError:
            return None
        return path

    def _arm(self, now: float) -> None:
        """Reset faulthandler's timer, and report what it wrote if it fired."""
        if now - self._armed_at < REARM_SECONDS:
            return
        self._armed_at = now
        try:
            if self._held is None:
                self._reporting.crash.mkdir(exist_ok=True)
                self._held = self._held_path.open("wb")
            elif self._held_path.stat().st_size:
                self._report_held()
        except OSError:
            return
        seconds = HELD_FACTOR * self._config.least_seconds + REARM_SECONDS
        faulthandler.dump_traceback_later(seconds, file=self._held)

    @property
    def _held_path(self) -> Path:
        return self._reporting.crash / f"interpreter-held-{os.getpid()}.txt"

    def _report_held(self) -> None:
        assert self._held is not None
        where = main_line(self._held_path.read_text(errors="replace"))
        path = next_file(self._reporting.crash, "interpreter-held")
        self._held_path.rename(path)
        self._held.close()
        self._held = self._held_path.open("wb")
        headline = f"native code held up the whole interpreter, at {where}"
        self._reporting.notify(f"{headline}; see {path}")
        self._reporting.note("interpreter_held", where=where, file=path.name)

    def _disarm(self) -> None:
        if self._held is None:
            return
        faulthandler.cancel_dump_traceback_later()
        self._held.close()
        self._held = None
        with suppress(OSError):
            if not self._held_path.stat().st_size:
                self._held_path.unlink()
            self._reporting.crash.rmdir()  # if nothing else is in it

    def __enter__(self) -> Watchdog:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _worker_text(doing: str, stack: str) -> str:
    return f"{doing}\n{stack or '(no stack available)'}"

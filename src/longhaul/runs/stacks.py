"""Where the threads of this process are in their programs, as text that names the lines."""

from __future__ import annotations

import sys
import threading
import traceback
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

DEEPEST = 60  # frames told of one thread
_WAITING = ("/threading.py", "/queue.py", "/selectors.py", "/concurrent/futures/")


@dataclass(frozen=True, slots=True)
class ThreadStack:
    """One thread and the lines it is in, innermost last."""

    name: str
    where: str
    """The innermost line of its own, not of the library it waits in: `file:line in function`."""
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
    """Return the innermost line that is not a library's waiting."""
    innermost: FrameType | None = frame
    while innermost is not None and any(part in innermost.f_code.co_filename for part in _WAITING):
        innermost = innermost.f_back
    shown = innermost or frame
    code = shown.f_code
    return f"{code.co_filename}:{shown.f_lineno} in {code.co_name}"


def innermost_line(stack: str) -> str:
    """Return the innermost line of a stack written by `faulthandler`, empty if it holds none."""
    # Other threads may be told before the one that was asked.
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

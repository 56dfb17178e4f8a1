"""A process that works when asked and dies where asked; it forks so that torch is imported once.

Reads lines of JSON, one `Order` each, and forks a child for it: the child does what a command
does, and every change of a file below the runs' root passes through `native/files.c`. The
answer is the child's exit status. A child that is to die does so before or after one named change,
by SIGKILL. A recording child writes every change, its bytes included, into a journal.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import signal
import stat
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import IO

import longhaul
from tests.durability import native
from tests.durability.doing import do
from tests.durability.power import Change

BEFORE, AFTER, FAILED = range(3)
"""Moments of a change; one that failed is over as well."""
PACKAGE = str(Path(longhaul.__file__).parent)
LOW = ("durable.py", "errors.py", "segments.py")
"""Files whose functions do a step of something; their caller says of what."""
STAGES = (
    ("create_run", "set-up"),
    ("rewind_log", "rewind"),
    ("remove_leftovers", "resume"),
    ("restore", "resume"),
    ("_rotate", "rotation"),
    ("compress_sealed", "rotation"),
    ("remove_surplus", "retention"),
    ("checkpoint", "checkpoint"),
    ("conclude", "finish"),
    ("assemble", "set-up"),
    ("__enter__", "set-up"),
    ("record", "logging"),
)
WATCHER = ctypes.CFUNCTYPE(
    None,
    ctypes.c_int,
    ctypes.c_char_p,
    ctypes.c_char_p,
    ctypes.c_char_p,
    ctypes.c_void_p,
    ctypes.c_longlong,
    ctypes.c_longlong,
)


@dataclass(frozen=True)
class Order:
    """What one child does.

    `kill` is the name of a point, its occurrence, and before or after; without a name the
    occurrence counts all changes.
    """

    root: str
    """The folder that is watched; the runs are in `runs` inside it."""
    workload: str
    kill: tuple[str, int, int] | None = None
    journal: str = ""
    points: str = ""
    """A file for the names of the points that were passed, in order."""
    notes: str = ""
    """A file for what the work began with and what it saved."""
    bug: bool = False
    """Plant a bug: folders are not synced."""


class Eye:
    """Sees every change of a file, names it, and kills or records."""

    def __init__(self, order: Order) -> None:
        self._order = order
        self._seen: Counter[str] = Counter()
        self._journal = open_to_append(order.journal)
        self._points = open_to_append(order.points)
        self._notes = open_to_append(order.notes)
        self._count = 0
        self._lock = threading.Lock()
        self._watch = WATCHER(self.see)  # kept, because C holds only its address

    def open(self) -> None:
        """Begin to see."""
        library = ctypes.CDLL(None)
        library.files_watch(self._order.root.encode(), self._watch)

    def see(
        self, moment: int, op: bytes, path: bytes, other: bytes, place: int, length: int, at: int
    ) -> None:
        """Take one change, before and after it happens."""
        name = point_name(op.decode(), path.decode(), sys._getframe(1), self._order.root)
        with self._lock:
            if moment == BEFORE:
                self._seen[name] += 1
                self._count += 1
                if self._points is not None:
                    os.write(self._points, f"{name}\n".encode())
            when = BEFORE if moment == BEFORE else AFTER
            places = (name, self._seen[name], when), ("", self._count, when)
            if self._order.kill in places:
                os.kill(os.getpid(), signal.SIGKILL)
            if moment == AFTER and self._journal is not None:
                content = ctypes.string_at(place, length) if op == b"write" else b""
                self.write(Change(op.decode(), path.decode(), other.decode(), length, at, content))

    def note(self, word: str, done: int) -> None:
        """Write how far the work has come beside the changes of files."""
        self.write(Change(word, str(done), "", 0, 0))
        if self._notes is not None:
            os.write(self._notes, f"{word} {done}\n".encode())

    def write(self, change: Change) -> None:
        """Write one change into the journal."""
        if self._journal is not None:
            head = {**asdict(change), "content": len(change.content)}
            os.write(self._journal, json.dumps(head).encode() + b"\n" + change.content)


def open_to_append(path: str) -> int | None:
    """Return a descriptor of the file, None for no file."""
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND) if path else None


def read_journal(path: Path) -> Iterator[Change]:
    """Yield the changes of a journal."""
    with path.open("rb") as file:
        while line := file.readline():
            head = json.loads(line)
            yield Change(**{**head, "content": file.read(head["content"])})


def point_name(op: str, path: str, frame: FrameType | None, root: str) -> str:
    """Return stage, function, operation and file, without numbers that differ between runs."""
    names: list[str] = []
    doing = ""
    while frame is not None:
        code = frame.f_code
        if code.co_filename.startswith(PACKAGE):
            names.append(code.co_name)
            if not doing and not code.co_filename.endswith(LOW):
                doing = code.co_qualname
        frame = frame.f_back
    below = path[len(root) + 1 :].split("/", 3)
    of = below[2].rpartition(".")[2] if len(below) > 2 else ""
    if of in ("explore", "search"):
        stage = of
    else:
        stage = next((stage for function, stage in STAGES if function in names), "beside")
    file = below[3] if len(below) > 3 else "/".join(("runs", "TASK", "RUN")[: len(below)])
    file = re.sub(r"[0-9a-f]{8}-?([0-9a-f]{4}-?){3}[0-9a-f]{12}", "*", file)
    file = re.sub(r"\d+", "#", file)
    return f"{stage}: {doing}: {op} {file}"


def work(order: Order) -> int:
    """Do what the command does, under the eye; return its exit code."""
    eye = Eye(order)
    if order.journal or order.points or order.kill:
        eye.open()
    return do(order.workload, Path(order.root), eye.note)


def files_only(sync: Callable[[int], None]) -> Callable[[int], None]:
    """Return a way to sync that leaves folders out."""

    def sync_file(descriptor: int) -> None:
        if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
            sync(descriptor)

    return sync_file


def serve() -> None:
    """Fork a child for every order; before the first of a kind, import everything by doing it."""
    warm = set[str]()
    for line in sys.stdin:
        read = json.loads(line)
        order = Order(**{**read, "kill": None if read["kill"] is None else tuple(read["kill"])})
        if order.workload not in warm:
            with TemporaryDirectory() as folder:
                work(replace(order, root=folder, kill=None, journal="", points="", notes=""))
            warm.add(order.workload)
        pid = os.fork()
        if pid == 0:
            code = 1
            if order.bug:
                os.fsync = files_only(os.fsync)  # type: ignore[assignment]
            try:
                code = work(order)
            except Exception as error:  # noqa: BLE001 - the answer says that it failed
                sys.stderr.write(f"{type(error).__name__}: {error}\n")
                sys.stderr.flush()
                code = getattr(error, "exit_code", 1)
            finally:
                os._exit(code)
        _, status = os.waitpid(pid, 0)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(status)}\n")
        sys.stdout.flush()


class Children:
    """The running server, as its user sees it."""

    def __init__(self, stdin: IO[str], stdout: IO[str], errors: Path) -> None:
        self._stdin = stdin
        self._stdout = stdout
        self._errors = errors

    def work(self, order: Order) -> int:
        """Return the exit status of a child that did this."""
        self._stdin.write(json.dumps(asdict(order)) + "\n")
        self._stdin.flush()
        return int(self._stdout.readline())

    def last_error(self) -> str:
        """Return what a child said last."""
        lines = self._errors.read_text().splitlines()
        return lines[-1] if lines else ""


@contextmanager
def children(folder: Path) -> Iterator[Children]:
    """Run the server."""
    variables = {
        **os.environ,
        "LD_PRELOAD": str(native.library("files")),
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    errors = folder / "children.err"
    with (
        errors.open("a") as said,
        subprocess.Popen(
            [sys.executable, "-m", "tests.durability.child"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=said,
            text=True,
            env=variables,
        ) as process,
    ):
        assert process.stdin is not None
        assert process.stdout is not None
        yield Children(process.stdin, process.stdout, errors)


if __name__ == "__main__":
    serve()

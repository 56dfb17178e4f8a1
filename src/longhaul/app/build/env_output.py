"""Redirecting what environments print to log files, apart from longhaul's own output."""

from __future__ import annotations

import io
import os
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from types import TracebackType
from typing import Concatenate, ParamSpec, Protocol, TextIO, TypeVar

from longhaul.app.build.faults import keeping_tracebacks
from longhaul.envs.guard import FOLDER, open_log, printable

LONGEST_LOG = 4 << 20
"""Bytes a file may have; beyond that its first half is kept and the rest is overwritten."""
CUT = b"\n[longhaul: the file was full; what was printed between here and the next line is gone]\n"
LOOK_SECONDS = 1.0
LONGEST_SHOWN = 2000
"""Characters shown of what was printed before a run directory existed."""

P = ParamSpec("P")
T = TypeVar("T")
Placed = TypeVar("Placed", bound="InRun")


class InRun(Protocol):
    """An object with a run directory."""

    @property
    def path(self) -> Path:
        """The run's directory."""


class EnvOutput:
    """While it is open, everything printed in this process goes to a file, native code included.

    The descriptors 1 and 2 point to the file, which costs nothing per step. A stream without one
    of these descriptors, as in a notebook, is replaced; the output of native code is then not
    redirected. Longhaul's own output goes to `out` and `err`.
    """

    def __init__(self, folder: Path | None = None, name: str = "trainer") -> None:
        self._folder = folder
        self._path = None if folder is None else folder / f"{name}.log"
        self._log = -1
        self._restores: list[Callable[[], None]] = []
        self._sizes: dict[str, int] = {}
        self._ended = threading.Event()
        self._watcher: threading.Thread | None = None
        self._has_notified = False
        self.out: TextIO = sys.stdout
        self.err: TextIO = sys.stderr
        self.notify: Callable[[str], None] = lambda line: None

    def __enter__(self) -> EnvOutput:
        self._log = self._open()
        self.out, self.err = sys.stdout, sys.stderr
        if self.out is not None:
            self.out, sys.stdout, restore = _put_aside(sys.stdout, 1, self._log)
            self._restores.append(restore)
        if self.err is not None:
            self.err, sys.stderr, restore = _put_aside(sys.stderr, 2, self._log)
            self._restores.append(restore)
        if self._path is not None:
            self._sizes = self._measured()
            self._watcher = threading.Thread(target=self._watch, name="env-output", daemon=True)
            self._watcher.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._ended.set()
        if self._watcher is not None:
            self._watcher.join()
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
        if self._path is not None:
            self._look()
        for restore in reversed(self._restores):
            restore()
        if self._path is None and error is not None:
            self._show()
        os.close(self._log)
        self._remove_empty()

    def _open(self) -> int:
        """Return a descriptor of the log; of a temporary file if the log cannot be opened."""
        if self._path is not None and (log := open_log(self._path)) is not None:
            return log
        self._path = None
        with tempfile.TemporaryFile(buffering=0) as nameless:
            return os.dup(nameless.fileno())

    def _watch(self) -> None:
        while not self._ended.wait(LOOK_SECONDS):
            self._look()

    def _look(self) -> None:
        """Truncate files that are too long, and report once that something is printed."""
        assert self._folder is not None
        for name, size in self._measured().items():
            path = self._folder / name
            if size > self._sizes.get(name, 0) and not self._has_notified:
                self._has_notified = True
                who = "the environment" if path != self._path else "the environment or a library"
                self.notify(f"{who} prints; see {path}")
            if size > LONGEST_LOG:
                _cut(path)

    def _measured(self) -> dict[str, int]:
        """Return the size of every log file."""
        assert self._folder is not None
        with suppress(OSError), os.scandir(self._folder) as entries:
            return {
                entry.name: entry.stat(follow_symlinks=False).st_size
                for entry in entries
                if entry.name.endswith(".log")
            }
        return {}

    def _remove_empty(self) -> None:
        if self._folder is None:
            return
        with suppress(OSError):
            for name, size in self._measured().items():
                if not size:
                    (self._folder / name).unlink()
            self._folder.rmdir()  # if nothing else is in it

    def _show(self) -> None:
        """Print the end of the output of an environment that could not be made."""
        size = os.fstat(self._log).st_size
        said = os.pread(self._log, LONGEST_SHOWN, max(size - LONGEST_SHOWN, 0))
        if self.err is not None and said.strip():
            shown = printable(said.decode(errors="replace"))
            sys.stderr.write(f"the environment printed: {shown}\n")


class _LogText(io.TextIOBase):
    """A text stream that writes to the log while it is open, then to the original stream."""

    def __init__(self, before: TextIO, log: int) -> None:
        self._before = before
        self._log: int | None = log

    def write(self, text: str) -> int:
        if self._log is None:
            return self._before.write(text)
        os.write(self._log, text.encode(errors="replace"))
        return len(text)

    def flush(self) -> None:
        if self._log is None:
            with suppress(ValueError):  # closed since; Python flushes this object when it ends
                self._before.flush()

    def give_back(self) -> None:
        """Write to the original stream from now on: a library may have kept this object."""
        self._log = None


def _put_aside(stream: TextIO, number: int, log: int) -> tuple[TextIO, TextIO, Callable[[], None]]:
    """Return longhaul's stream, the stream of everything else, and the undo function."""
    if not _is_descriptor(stream, number):
        other = _LogText(stream, log)

        def give_back() -> None:
            other.give_back()
            if number == 1:
                sys.stdout = stream
            else:
                sys.stderr = stream

        # It has what callers use of a text stream.
        return stream, other, give_back  # type: ignore[return-value]
    stream.flush()
    kept = os.dup(number)
    shown = os.fdopen(kept, "w", buffering=1, encoding=stream.encoding, errors=stream.errors)
    os.dup2(log, number)
    by_line = isinstance(stream, io.TextIOWrapper) and stream.line_buffering
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(line_buffering=True)

    def restore() -> None:
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(line_buffering=by_line)
        os.dup2(kept, number)
        with suppress(OSError):  # the reader of a pipe may be gone
            shown.close()

    return shown, stream, restore


def _is_descriptor(stream: TextIO, number: int) -> bool:
    try:
        return stream.fileno() == number
    except (OSError, ValueError, AttributeError):
        return False


def _cut(path: Path) -> None:
    """Keep the first half of a log that is too long; every writer appends."""
    if (log := open_log(path)) is not None:
        with suppress(OSError):
            os.ftruncate(log, LONGEST_LOG // 2)
            os.write(log, CUT)
        os.close(log)


@dataclass(frozen=True, slots=True)
class Streams:
    """The streams of longhaul's own output."""

    out: TextIO
    err: TextIO


_OPEN: ContextVar[EnvOutput | None] = ContextVar("env_output", default=None)


@contextmanager
def env_output(folder: Path | None = None, name: str = "trainer") -> Iterator[EnvOutput]:
    """Redirect what is printed inside to a log in this folder.

    Without a folder it is dropped, or shown in one line if the inside fails.
    """
    if (outer := _OPEN.get()) is not None:
        yield outer
        return
    with EnvOutput(folder, name) as output:
        token = _OPEN.set(output)
        try:
            yield output
        finally:
            _OPEN.reset(token)


def own_streams() -> Streams:
    """Return the streams for longhaul's own output, inside and outside of `env_output`."""
    output = _OPEN.get()
    if output is None:
        return Streams(sys.stdout, sys.stderr)
    return Streams(output.out, output.err)


def notify_prints(notify: Callable[[str], None]) -> None:
    """Report the first output of an environment, and its log file, through `notify`."""
    if (output := _OPEN.get()) is not None:
        output.notify = notify


def with_env_output(
    name: str,
) -> Callable[[Callable[Concatenate[Placed, P], T]], Callable[Concatenate[Placed, P], T]]:
    """Decorate a function of a run: its environments' output and tracebacks go to the run."""

    def decorate(
        function: Callable[Concatenate[Placed, P], T],
    ) -> Callable[Concatenate[Placed, P], T]:
        @wraps(function)
        def call(run: Placed, /, *args: P.args, **kwargs: P.kwargs) -> T:
            path = run.path
            with env_output(path / FOLDER, name), keeping_tracebacks(path / "crash"):
                return function(run, *args, **kwargs)

        return call

    return decorate

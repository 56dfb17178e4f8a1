"""Recording faults of environments in the run directory."""

from __future__ import annotations

import tempfile
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from longhaul.core.errors import EnvError, LonghaulError
from longhaul.envs.faults import Fault, Listeners, Repro
from longhaul.envs.guard import FOLDER
from longhaul.envs.processes.repro import write_repro
from longhaul.runs.logs.jsonl import WriteNote
from longhaul.runs.monitor.heartbeat import WorkerRegistry
from longhaul.runs.monitor.watchdog import innermost_line, next_file

MOST_TRACEBACKS = 20
"""Files with tracebacks in the crash folder of a run."""
LONGEST_TRACEBACK = 200_000
REPORTED_SINGLY = 3
"""Faults of one kind that are each reported; later ones are reported by their number."""


class KeptError(EnvError):
    """An environment that cannot run, whose traceback is in the file the message names."""


class FaultLog:
    """Writes faults of environments into the sessions, and files about them into `crash/`."""

    def __init__(
        self,
        crash: Path,
        notify: Callable[[str], None],
        workers: WorkerRegistry,
        write_note: WriteNote,
    ) -> None:
        self._crash = crash
        self._notify = notify
        self._workers = workers
        self._write_note = write_note
        self._counts: Counter[tuple[str, str, str]] = Counter()
        self._traces: dict[tuple[str, str], Path | None] = {}
        self._last_raised: tuple[int | None, int | None, int | None, str] | None = None

    @property
    def listeners(self) -> Listeners:
        """What a vector env reports to."""
        return Listeners(
            on_fault=self.note,
            on_repro=self.keep,
            on_workers=self._workers.add,
            on_workers_gone=self._workers.remove,
            output=self._crash.parent / FOLDER,
        )

    def note(self, fault: Fault) -> None:
        """Record one fault."""
        self._write_note("env_fault", **fault.facts())
        if fault.kind == "hung" and fault.traceback:
            self._notify(f"{fault}{self._kept_stack(fault)}")
        elif fault.kind == "unusable":
            self._report_some(fault, "; the transition is dropped and its episode abandoned")
        elif fault.kind == "raised":
            self._report_raised(fault)
        elif fault.kind in ("hung", "died", "retired"):
            self._notify(str(fault))

    def _report_raised(self, fault: Fault) -> None:
        """Report an exception once, however often the same step is retried."""
        place = (fault.env, fault.seed, fault.step, fault.error)
        if place == self._last_raised:
            return
        self._last_raised = place
        trace = (fault.stage, fault.error)
        if fault.traceback and trace not in self._traces:
            text = f"{fault}\n\n{fault.traceback}"
            self._traces[trace] = write_traceback(self._crash, text)
        path = self._traces.get(trace)
        self._report_some(fault, "" if path is None else f"; see {path}")

    def _report_some(self, fault: Fault, then: str) -> None:
        """Report the first few faults of a kind, then the 10th, the 100th and so on."""
        kind = (fault.kind, fault.stage, fault.error)
        self._counts[kind] += 1
        count = self._counts[kind]
        if count <= REPORTED_SINGLY:
            self._notify(f"{fault}{then}")
        elif str(count).strip("0") == "1":
            self._notify(f"{fault}{then} ({count} times so far)")

    def _kept_stack(self, fault: Fault) -> str:
        """Write the stack of a hung worker to a file, and return its place in words."""
        place = "construct" if fault.env is None else f"env{fault.env}"
        where = innermost_line(fault.traceback)
        self._crash.mkdir(exist_ok=True)
        path = next_file(self._crash, f"hung-{place}")
        path.write_text(f"{fault}\nsilent for {fault.seconds} s, at {where}\n\n{fault.traceback}\n")
        return f", at {where}; see {path}"

    def keep(self, repro: Repro) -> None:
        """Write a repro file and report its path."""
        path = write_repro(repro, self._crash)
        self._notify(
            f"{repro.env_id}: seed {repro.seed} is quarantined ({repro.error}); see {path}"
        )


def write_traceback(crash: Path, text: str) -> Path | None:
    """Write a file in a run's crash folder; None if there are too many or the disk is full."""
    for number in range(1, MOST_TRACEBACKS + 1):
        path = crash / f"raised-{number}.txt"
        try:
            crash.mkdir(parents=True, exist_ok=True)
            with path.open("x") as file:
                file.write(f"{text[-LONGEST_TRACEBACK:]}\n")
        except FileExistsError:
            continue
        except OSError:
            return None
        return path
    return None


@contextmanager
def keeping_tracebacks(crash: Path | None = None) -> Iterator[None]:
    """Write the traceback of an environment error that ends the command; the message names it.

    Without a crash folder, it goes to a temporary file.
    """
    try:
        yield
    except EnvError as error:
        if isinstance(error, KeptError) or not _carries_traceback(error):
            raise
        text = "".join(traceback.format_exception(error))
        path = _temporary(text) if crash is None else write_traceback(crash, text)
        if path is None:
            raise
        raise KeptError(f"{error}; traceback in {path}") from error.__cause__


def _carries_traceback(error: BaseException) -> bool:
    """Whether the cause is an exception of the environment's code, here or in a worker."""
    cause: BaseException | None = error
    while cause is not None:
        if not isinstance(cause, LonghaulError) or vars(cause).get("__notes__"):
            return True
        cause = cause.__cause__
    return False


def _temporary(text: str) -> Path | None:
    with suppress(OSError):
        with tempfile.NamedTemporaryFile(
            "w", prefix="longhaul-traceback-", suffix=".txt", delete=False
        ) as file:
            file.write(text[-LONGEST_TRACEBACK:])
        return Path(file.name)
    return None

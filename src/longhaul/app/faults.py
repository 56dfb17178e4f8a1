"""What environments do wrong, on its way into the run directory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from longhaul.envs.faults import Fault, Listeners, Repro
from longhaul.envs.processes.repro import write_repro
from longhaul.runs.recorder import Recorder
from longhaul.runs.stacks import innermost_line, next_file
from longhaul.runs.workforce import Workforce


class FaultLog:
    """Writes faults of environments into the sessions, and repro files into the crash folder.

    Environments are made before there is a recorder: what they do wrong by then is kept for it.
    """

    def __init__(self, crash: Path, tell: Callable[[str], None], workforce: Workforce) -> None:
        self._crash = crash
        self._tell = tell
        self._workforce = workforce
        self._early: list[Fault] = []
        self._recorder: Recorder | None = None

    @property
    def listeners(self) -> Listeners:
        """What a vector env reports to."""
        return Listeners(
            on_fault=self.note,
            on_repro=self.keep,
            on_workers=self._workforce.add,
            on_workers_gone=self._workforce.remove,
        )

    def open(self, recorder: Recorder) -> None:
        """Write from now on, beginning with what has been kept."""
        self._recorder = recorder
        for fault in self._early:
            self.note(fault)
        self._early.clear()

    def note(self, fault: Fault) -> None:
        """Write one fault down."""
        if self._recorder is None:
            self._early.append(fault)
            return
        self._recorder.note("env_fault", **fault.facts())
        if fault.kind == "hung" and fault.traceback:
            self._tell(f"{fault}{self._kept_stack(fault)}")
        elif fault.kind == "unusable":
            self._tell(f"{fault}; the transition is dropped and its episode given up")
        elif fault.kind in ("hung", "died", "retired"):
            self._tell(str(fault))

    def _kept_stack(self, fault: Fault) -> str:
        """Write down where a hung worker was, and return that in words."""
        place = "construct" if fault.env is None else f"env{fault.env}"
        where = innermost_line(fault.traceback)
        self._crash.mkdir(exist_ok=True)
        path = next_file(self._crash, f"hung-{place}")
        path.write_text(f"{fault}\nsilent for {fault.seconds} s, at {where}\n\n{fault.traceback}\n")
        return f", at {where}; see {path}"

    def keep(self, repro: Repro) -> None:
        """Write a repro file and say where it is."""
        path = write_repro(repro, self._crash)
        self._tell(f"{repro.env_id}: seed {repro.seed} is set aside; see {path}")

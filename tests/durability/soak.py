"""Trains for hours under random faults and compares the end with an undisturbed run.

`make soak HOURS=2` runs it. The undisturbed run comes first, at full speed. The disturbed one is
slowed down to last the given time, and is the command a user types, started again whenever it
ends. In the middle third the trainer is stopped and slowed down but never ended, which shows what
it gathers as it ages. The folder holds `soak.jsonl`: every fault, start, end and measurement. The
same command with the same folder goes on with an interrupted soak.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import psutil

from longhaul.core.errors import ResourceError
from longhaul.runs.directory import RunDirectory, Status
from longhaul.runs.logs.jsonl import iterate_rows
from longhaul.runs.monitor.heartbeat import read_beat
from tests.durability import native
from tests.durability.digests import differing, run_digest
from tests.durability.paced_cartpole import CLOCK, DIALS, ID, PACE, SLOW, open_dials
from tests.durability.soak_report import summary
from tests.durability.soak_system import (
    files_below,
    fill,
    is_alive,
    mapped_names,
    names_in_memory,
    only_run,
    send,
    use,
    words,
)

ROOT = Path(__file__).parents[2]
CONFIG = Path(__file__).with_name("soak.toml")
ITERATIONS_PER_HOUR = 1800
STEPS_IN_TURN = 32 * 4
"""Steps that a worker takes one after another in an iteration."""
DISK_MEGABYTES = 96
GRACE_SECONDS = 600.0
"""How long the run may take to finish once the faults have stopped."""
LINGER_SECONDS = 20.0
"""How long a worker may outlive its trainer."""
ENDS_TRAINER = (
    "kill trainer",
    "kill trainer and worker",
    "terminate trainer",
    "interrupt trainer",
)
ENDINGS = (0, 130, 143)
EARLY_ENDINGS = (-signal.SIGINT, -signal.SIGTERM, 1)
"""By a signal while Python itself starts, before a line of ours: excused if no file was touched."""
MOST_UNEXPECTED = 5
FULL = ResourceError.exit_code
KINDS = (
    ["kill trainer"] * 4
    + ["terminate trainer"] * 2
    + ["interrupt trainer", "stop trainer", "full disk"]
    + ["kill worker"] * 4
    + ["stop worker", "kill trainer and worker", "slow steps", "clock", "kill guard"]
)
MILD = ("stop trainer", "kill worker", "kill worker", "stop worker", "slow steps", "clock")


@dataclass
class Soak:
    """One soak: its folder, its trainer and what is due when."""

    folder: Path
    hours: float
    seed: int
    gap_seconds: float
    iterations: int
    random: random.Random = field(init=False)
    trainer: subprocess.Popen[bytes] | None = None
    doomed: list[tuple[float, psutil.Process, subprocess.Popen[bytes]]] = field(
        default_factory=list
    )
    """Processes of a trainer that was ended: when they must be gone, and the trainer."""
    undo: list[tuple[float, Callable[[], Any]]] = field(default_factory=list)
    """What ends a fault that lasts: when, and what to call."""
    killed: bool = False
    is_asked: bool = False
    """Whether the trainer was sent a signal that asks it to stop."""
    found: dict[str, tuple[int, int]] = field(default_factory=dict)
    """The run's files when the trainer was started."""
    unexpected: int = 0
    disk_full_until: float = 0.0

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.log = self.folder / "soak.jsonl"
        past = list(iterate_rows(self.log)) if self.log.exists() else []
        self.before = max((row["elapsed"] for row in past), default=0.0)
        self.random = random.Random(f"{self.seed} {len(past)}")
        self.began = time.monotonic()
        self.dials = open_dials(self.folder / "dials")
        self.dials[:] = 0.0
        self.has_disk = False
        self.foreign = names_in_memory()

    @property
    def elapsed(self) -> float:
        """Seconds the soak has lasted, earlier sessions included."""
        return self.before + time.monotonic() - self.began

    def write(self, event: str, **facts: Any) -> None:
        """Log an event."""
        row = {"elapsed": round(self.elapsed, 2), "event": event, **facts}
        with self.log.open("a") as file:
            file.write(json.dumps(row) + "\n")

    def command(self, root: Path) -> list[str]:
        """Return what a user would type."""
        given = [f"gym:{ID}", "--name", "soak", "--config", str(CONFIG), "--runs-root", str(root)]
        length = ["--set", f"total_iterations={self.iterations}"]
        return [sys.executable, "-m", "longhaul", "train", *given, *length, "--no-report", "--json"]

    def reference(self) -> dict[str, str]:
        """Return the digest of the undisturbed run, which is trained unless it was before."""
        kept = self.folder / "reference.json"
        if not kept.exists():
            began = time.monotonic()
            root = self.folder / "undisturbed"
            subprocess.run(self.command(root), cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
            digest = run_digest(only_run(root))
            kept.write_text(json.dumps(digest, indent=1))
            self.write("reference", seconds=round(time.monotonic() - began, 1))
            self.before, self.began = 0.0, time.monotonic()
        found: dict[str, str] = json.loads(kept.read_text())
        return found

    def mount(self) -> Path:
        """Return the folder of the disturbed run, a small disk if this user may mount one."""
        disk = self.folder / "disk"
        disk.mkdir(exist_ok=True)
        self.has_disk = disk.is_mount()
        if not self.has_disk and os.geteuid() == 0:
            options = ["-t", "tmpfs", "-o", f"size={DISK_MEGABYTES}m", "tmpfs", str(disk)]
            self.has_disk = subprocess.run(["mount", *options], check=False).returncode == 0
        kind = f"tmpfs of {DISK_MEGABYTES} MB" if self.has_disk else "no mount: disk never full"
        self.write("disk", kind=kind)
        return disk

    def start(self, root: Path) -> None:
        """Start the trainer."""
        self.found = files_below(root)
        variables = {**os.environ, DIALS: str(self.folder / "dials")}
        if native.compiler():
            variables["LD_PRELOAD"] = str(native.library("clock"))
        with (self.folder / "trainer.err").open("ab") as errors:
            self.trainer = subprocess.Popen(
                self.command(root),
                cwd=ROOT,
                env=variables,
                stdout=subprocess.DEVNULL,
                stderr=errors,
            )
        self.killed = self.is_asked = False
        self.write("start", pid=self.trainer.pid)

    def workers(self) -> list[psutil.Process]:
        """Return the living processes below the trainer."""
        try:
            return psutil.Process(self.trainer.pid).children(recursive=True) if self.trainer else []
        except psutil.Error:
            return []

    def strike(self, kind: str) -> None:
        """Do one fault; what ends a fault that lasts is called later."""
        assert self.trainer is not None
        below = self.workers()
        workers = [one for one in below if words(one)[1:2] == ["-c"]]
        if kind in ENDS_TRAINER:
            due = time.monotonic() + LINGER_SECONDS
            self.doomed += [(due, one, self.trainer) for one in below]
        self.killed = self.killed or kind.startswith("kill trainer")
        self.is_asked = self.is_asked or kind in ("terminate trainer", "interrupt trainer")
        some = self.random.sample(workers, min(1, len(workers)))
        trainer = [psutil.Process(self.trainer.pid)]
        seconds = 0.0
        match kind:
            case "kill trainer":
                send(trainer, signal.SIGKILL)
            case "kill trainer and worker":
                send([*some, *trainer], signal.SIGKILL)
            case "terminate trainer":
                send(trainer, signal.SIGTERM)
            case "interrupt trainer":
                send(trainer, signal.SIGINT)
            case "kill worker":
                send(some, signal.SIGKILL)
            case "kill guard":
                send([one for one in below if one not in workers], signal.SIGKILL)
            case _:
                seconds = self.begin(kind, trainer if kind == "stop trainer" else some)
        self.write("fault", kind=kind, seconds=round(seconds, 1), workers=len(workers))

    def begin(self, kind: str, stopped: list[psutil.Process]) -> float:
        """Begin a fault that lasts; return for how many seconds."""
        seconds = self.random.uniform(2, 25)
        end: Callable[[], None]
        match kind:
            case "stop trainer" | "stop worker":
                send(stopped, signal.SIGSTOP)
                end = partial(send, stopped, signal.SIGCONT)
            case "slow steps":
                self.dials[SLOW] = self.random.choice([0.05, 0.5, 2.0])
                end = partial(self.turn, SLOW, 0.0)
            case "clock":
                self.turn(CLOCK, self.random.choice([-86400.0, -3600.0, 3600.0, 86400.0]))
                end = partial(self.turn, CLOCK, self.random.choice([0.0, float(self.dials[CLOCK])]))
            case _:
                if self.has_disk:
                    fill(self.folder / "disk" / "ballast")
                    self.disk_full_until = time.monotonic() + seconds + 60
                end = partial((self.folder / "disk" / "ballast").unlink, missing_ok=True)
        self.undo.append((time.monotonic() + seconds, end))
        return seconds

    def turn(self, dial: int, value: float) -> None:
        """Change a number that the trainer and its environments read."""
        self.dials[dial] = value

    def calm(self) -> None:
        """End all faults that last."""
        for _, end in self.undo:
            end()
        self.undo.clear()
        self.dials[:] = 0.0

    def pace(self, run: RunDirectory | None, end: float) -> None:
        """Slow the steps down by as much as makes the run last as long as the soak."""
        beat = None if run is None else read_beat(run.heartbeat)
        if beat is not None:
            left = max(1, self.iterations - beat.progress.iteration)
            seconds = max(0.0, end - self.elapsed) / left
            self.dials[PACE] = min(max(0.0, (seconds - 0.3) / STEPS_IN_TURN), 0.05)

    def measure(self, run: RunDirectory | None) -> None:
        """Log what the processes hold and what the run's files take."""
        assert self.trainer is not None
        facts: dict[str, Any] = {"workers": [], "age": None}
        try:
            process = psutil.Process(self.trainer.pid)
            facts |= {"age": round(time.time() - process.create_time(), 1), **use(process)}
            facts["workers"] = [use(one) for one in process.children(recursive=True)]
        except psutil.Error:
            pass
        if run is not None:
            sizes = {path: path.stat().st_size for path in run.path.glob("*.jsonl*")}
            facts["log_bytes"] = sum(sizes.values())
            facts["crash_bytes"] = sum(
                path.stat().st_size for path in run.crash.glob("*") if path.is_file()
            )
            beat = read_beat(run.heartbeat)
            facts["iteration"] = None if beat is None else beat.progress.iteration
        new = names_in_memory() - self.foreign
        facts["shared"], facts["shared_names"] = len(new), sorted(new)[:20]
        facts["mapped"] = mapped_names([self.trainer.pid, *(one.pid for one in self.workers())])
        self.write("sample", **facts)

    def look_after(self, root: Path) -> int | None:
        """Start the trainer again if it ended; return the exit code of a finished run."""
        now = time.monotonic()
        for due, end in [one for one in self.undo if one[0] <= now]:
            end()
            self.undo.remove((due, end))
        for doomed in [one for one in self.doomed if one[0] <= now]:
            self.doomed.remove(doomed)
            _, process, trainer = doomed
            if not is_alive(process):
                continue
            if trainer.poll() is None:  # it is stopped, or saves what it has
                self.doomed.append((now + LINGER_SECONDS, process, trainer))
            else:
                self.write("orphan", pid=process.pid, command=words(process))
        code = None if self.trainer is None else self.trainer.poll()
        if self.trainer is not None and code is None:
            return None
        if code is not None:
            excused = (
                code in ENDINGS
                or (code == -signal.SIGKILL and self.killed)
                or (code == FULL and now < self.disk_full_until)
                or (code in EARLY_ENDINGS and self.is_asked and files_below(root) == self.found)
            )
            self.write("end", code=code, expected=excused)
            self.unexpected += not excused
            if code == 0 or self.unexpected >= MOST_UNEXPECTED:
                return code
        self.start(root)
        return None

    def run(self) -> int:
        """Disturb the run until the time is over, let it finish, and compare."""
        expected = self.reference()
        root, end = self.mount(), self.hours * 3600.0
        next_fault, next_sample = 5.0, 0.0
        code = None
        while code is None and self.elapsed < end + GRACE_SECONDS:
            code = self.look_after(root)
            run = only_run(root, at_least=0)
            if self.elapsed >= next_sample:
                self.measure(run)
                next_sample = self.elapsed + 60.0
            if self.elapsed >= end:
                self.calm()
            elif self.elapsed >= next_fault and code is None:
                is_middle = end / 3 <= self.elapsed < 2 * end / 3
                self.strike(self.random.choice(MILD if is_middle else KINDS))
                next_fault = self.elapsed + self.gap()
                self.pace(run, end)
            time.sleep(0.1)
        self.calm()
        if self.trainer is not None and self.trainer.poll() is None:
            self.trainer.kill()
        run = only_run(root)
        problems = differing(expected, run_digest(run)) if code == 0 else [f"ended with {code}"]
        problems += [f"{self.unexpected} unexpected ends"] if self.unexpected else []
        if run.read_record().status is not Status.FINISHED:
            problems.append("status is not finished")
        self.write("result", equal=not problems, problems=problems, digest=expected)
        sys.stdout.write(summary(list(iterate_rows(self.log))))
        return 1 if problems else 0

    def gap(self) -> float:
        """Return the seconds until the next fault; some hit what the one before left."""
        if self.random.random() < 0.2:
            return self.random.uniform(0.0, 5.0)
        return self.random.expovariate(1.0 / self.gap_seconds)


def main() -> None:
    """Read the arguments and soak."""
    parser = argparse.ArgumentParser(prog="make soak", description=__doc__)
    parser.add_argument("--hours", type=float, default=2.0)
    parser.add_argument("--folder", type=Path, default=ROOT / "runs" / "soak")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--iterations", type=int, default=0, help="of the run; 1800 an hour")
    parser.add_argument("--gap", type=float, default=20.0, help="mean seconds between faults")
    given = parser.parse_args()
    iterations = given.iterations or max(20, round(given.hours * ITERATIONS_PER_HOUR))
    soak = Soak(given.folder.resolve(), given.hours, given.seed, given.gap, iterations)
    try:
        code = soak.run()
    finally:
        if soak.trainer is not None and soak.trainer.poll() is None:
            soak.trainer.kill()
        soak.calm()
    sys.exit(code)


if __name__ == "__main__":
    main()

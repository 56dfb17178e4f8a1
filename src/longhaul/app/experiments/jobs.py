"""Commands in separate processes, and the loop that runs several of them in parallel."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Protocol, TypeVar

from longhaul.cluster.commands import CommandNodes
from longhaul.cluster.config import ClusterConfig
from longhaul.cluster.connect import check_cluster
from longhaul.core.errors import ConfigError
from longhaul.core.system import PARENT, end_with, is_linux

END_SECONDS = 120.0
"""Time limit for a run to write its last checkpoint."""


def longhaul_command(*arguments: str) -> list[str]:
    """Return the command of this installation with its arguments."""
    return [sys.executable, "-m", "longhaul", *arguments]


class Child:
    """A started command whose output goes to a file.

    Ctrl-C in the terminal does not reach it: the parent decides when it stops. If the parent dies,
    the system sends it SIGTERM; where the system cannot, `longhaul` itself looks after its parent.
    """

    def __init__(self, command: Sequence[str], log: Path) -> None:
        self._asked: float | None = None
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env={**os.environ, PARENT: str(os.getpid())},
                preexec_fn=partial(end_with, os.getpid(), signal.SIGTERM) if is_linux() else None,
            )

    @property
    def pid(self) -> int:
        """The process."""
        return self._process.pid

    def poll(self) -> int | None:
        """Return the exit code, None while it runs."""
        return self._process.poll()

    def wait(self, seconds: float) -> int | None:
        """Wait for the exit code and return it, None after so many seconds."""
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def ask_to_stop(self) -> None:
        """Send SIGTERM, after which a run saves a checkpoint and ends."""
        if self._process.poll() is None:
            self._asked = self._asked or time.monotonic()
            self._process.send_signal(signal.SIGTERM)

    def end(self, seconds: float = END_SECONDS) -> int:
        """Stop it and return the exit code; kill it `seconds` after the first SIGTERM."""
        self.ask_to_stop()
        try:
            self.wait(max(0.0, (self._asked or 0.0) + seconds - time.monotonic()))
        finally:
            if self._process.poll() is None:
                os.killpg(self.pid, signal.SIGKILL)  # it leads a separate session
            self._process.wait()
        return self._process.returncode


class Process(Protocol):
    """A started command."""

    def poll(self) -> int | None:
        """Return the exit code, None while it runs."""

    def ask_to_stop(self) -> None:
        """Ask it to save a checkpoint and end."""

    def end(self) -> int:
        """Stop it and return the exit code; kill it if it takes long."""


Launch = Callable[[Sequence[str], Path], Process]


@dataclass(slots=True)
class Job:
    """A started command and the file of its output."""

    process: Process
    log: Path
    asked: float | None = field(default=None, init=False)
    """When it was asked to stop."""

    def ask_to_stop(self) -> None:
        """Ask it once to save a checkpoint and end; it is polled until it has ended."""
        if self.asked is None:
            self.asked = time.monotonic()
            self.process.ask_to_stop()

    def poll(self) -> int | None:
        """Return the exit code, None while it runs; a job that does not stop is killed."""
        if self.asked is not None and time.monotonic() - self.asked > END_SECONDS:
            return self.process.end()
        return self.process.poll()

    def output(self) -> str:
        """Return its output so far."""
        return self.log.read_text(errors="replace") if self.log.is_file() else ""


AnyJob = TypeVar("AnyJob", bound=Job)


class JobPolicy(Protocol[AnyJob]):
    """Decides which job is next, what its state means, and when to stop."""

    def begin(self, live: Sequence[AnyJob]) -> AnyJob | None:
        """Start the next job and return it, None if there is none to start now."""

    def look(self, job: AnyJob, code: int | None) -> None:
        """Handle a job's state; `code` is its exit code, None while it runs."""

    def stop_reason(self) -> str:
        """Return why all jobs must stop now, empty to continue."""


def run_jobs(
    policy: JobPolicy[AnyJob], jobs: int, *, rest: Callable[[], None] = lambda: time.sleep(0.2)
) -> str:
    """Run up to `jobs` jobs in parallel until none is left; return why it stopped early, if so.

    In any case, all running jobs are stopped, save their checkpoints and have ended when this
    returns.
    """
    live: list[AnyJob] = []
    try:
        while True:
            for job in tuple(live):
                code = job.poll()
                if code is not None:
                    live.remove(job)
                policy.look(job, code)
            if reason := policy.stop_reason():
                return reason
            while len(live) < jobs and (job_ := policy.begin(live)) is not None:
                live.append(job_)
            if not live:
                return ""
            rest()
    finally:
        for job in live:
            job.ask_to_stop()
        for job in live:
            job.process.end()


@dataclass(frozen=True, slots=True)
class TrialPlace:
    """The machines that train the runs, and the number of parallel runs."""

    cluster: str = ""
    """Address of a Ray cluster as in `cluster.address`; empty: this machine, without Ray."""
    jobs: int = 1
    cpus_per_job: float = 1.0
    """CPUs the cluster reserves for each run."""

    def __post_init__(self) -> None:
        if self.jobs < 1:
            raise ConfigError(f"--jobs must be at least 1, not {self.jobs}")
        if not self.cpus_per_job > 0:
            raise ConfigError(f"--cpus-per-job must be more than 0, not {self.cpus_per_job}")

    def check(self) -> None:
        """Raise if the cluster is not available; nothing is started."""
        check_cluster(ClusterConfig(address=self.cluster))

    @contextmanager
    def open(self) -> Iterator[Launch]:
        """Yield the function that starts commands; it is valid inside the context."""
        if not self.cluster:
            yield Child
            return
        with CommandNodes(self.cluster, Child, cpus=self.cpus_per_job) as nodes:
            yield nodes


HERE = TrialPlace()
"""This machine, one run after another."""

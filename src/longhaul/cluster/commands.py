"""Commands that run on the nodes of a Ray cluster, as they would run here."""

from __future__ import annotations

import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

from longhaul.cluster.config import ClusterConfig
from longhaul.cluster.connect import ClusterError, Connection, OwnCluster, connect, told
from longhaul.core.errors import LockedError

MOST_DEATHS = 3
"""Nodes or actors that may die under one command before it is given up."""
LOCKED_SECONDS = 120.0
"""How long a command whose first process is not quite dead may find its run locked."""
END_SECONDS = 150.0
LOOK_SECONDS = 0.1
STORE_MEGABYTES = 80  # the least Ray takes; nothing but exit codes goes through it
PASSED_ON = "LONGHAUL_"
"""Beginning of the variables a command has on its node as well."""


class RunningCommand(Protocol):
    """A started command."""

    def poll(self) -> int | None:
        """Return the exit code, None while it runs."""

    def ask_to_stop(self) -> None:
        """Ask it to leave a checkpoint and end."""


Start = Callable[[Sequence[str], Path], RunningCommand]


@dataclass(frozen=True, slots=True)
class CommandSpec:
    """A command, and what it takes along to wherever it runs."""

    command: tuple[str, ...]
    log: Path
    folder: Path
    """Where relative paths begin, if the node has it."""
    environment: dict[str, str]


class CommandHost:
    """An actor that runs one command on its node and tells how it is getting on."""

    def __init__(self, start: Start, errand: CommandSpec) -> None:
        self._start = start
        self._errand = errand
        self._running: RunningCommand | None = None

    def poll(self) -> int | None:
        """Begin the command if it has not begun; return its exit code, None while it runs."""
        if self._running is None:
            self._running = self._begin()
        return self._running.poll()

    def _begin(self) -> RunningCommand:
        errand = self._errand
        if not errand.log.parent.is_dir():
            raise ClusterError(
                f"the node {socket.gethostname()} has no folder {errand.log.parent}; what runs on "
                "a cluster needs a --runs-root that all nodes share"
            )
        if errand.folder.is_dir():
            os.chdir(errand.folder)
        os.environ.update(errand.environment)
        # Nodes need not have their Python at the same place.
        return self._start([sys.executable, *errand.command[1:]], errand.log)

    def ask_to_stop(self) -> None:
        """Ask the command to leave a checkpoint and end."""
        if self._running is not None:
            self._running.ask_to_stop()


class RemoteCommand:
    """A command on some node, begun again on another one if its own dies.

    That is for commands that go on where they were when they are given again, as `train` does.
    """

    def __init__(
        self,
        ray: Any,
        hire: Callable[[], Any],
        name: str,
        *,
        clock: Callable[[], float] = time.monotonic,
        rest: Callable[[float], None] = time.sleep,
    ) -> None:
        self._ray, self._hire, self._name = ray, hire, name
        self._clock, self._rest = clock, rest
        self._code: int | None = None
        self._deaths = 0
        self._died_at = 0.0
        self._is_asked = False
        self._begin()

    def _begin(self) -> None:
        self._has_begun = False
        self._actor = self._hire()
        self._answer = self._actor.poll.remote()

    def poll(self) -> int | None:
        """Return the exit code, None while the command runs or waits for room on a node."""
        if self._code is None:
            ready, _ = self._ray.wait([self._answer], timeout=0)
            if ready:
                self._hear()
        return self._code

    def _hear(self) -> None:
        errors = self._ray.exceptions
        try:
            code = self._ray.get(self._answer)
        except errors.RayTaskError as error:
            raise told(self._name, error) from error
        except errors.RayError:
            self._mourn()
            return
        self._has_begun = True
        if code is None:
            self._answer = self._actor.poll.remote()
        elif self._is_held_by_the_dead(code):
            self._dismiss()
            self._begin()
        else:
            self._settle(code)

    def _mourn(self) -> None:
        """Begin again after a death, unless there were too many or nobody wants it any more."""
        self._deaths += 1
        self._died_at = self._clock()
        if self._is_asked or self._deaths > MOST_DEATHS:
            self._settle(-signal.SIGKILL)
        else:
            self._begin()

    def _is_held_by_the_dead(self, code: int) -> bool:
        """Whether the run is locked by the process that died with its node a moment ago."""
        recently = self._clock() - self._died_at < LOCKED_SECONDS
        return code == LockedError.exit_code and self._deaths > 0 and recently

    def _settle(self, code: int) -> None:
        self._code = code
        self._dismiss()

    def _dismiss(self) -> None:
        self._ray.kill(self._actor, no_restart=True)

    def ask_to_stop(self) -> None:
        """Ask the command to leave a checkpoint and end."""
        if self._code is None and not self._is_asked:
            self._is_asked = True
            self._actor.ask_to_stop.remote()

    def end(self) -> int:
        """Return the exit code of a command that was asked to stop, by force if it takes long."""
        self.ask_to_stop()
        until = self._clock() + END_SECONDS
        # One that waits for room on a node has nothing to save.
        while self.poll() is None and self._has_begun and self._clock() < until:
            self._rest(LOOK_SECONDS)
        if self._code is None:
            self._settle(-signal.SIGKILL)
        assert self._code is not None
        return self._code


class CommandNodes:
    """Starts commands wherever the cluster has room; those that find none wait for it."""

    def __init__(self, address: str, start: Start, *, cpus: float) -> None:
        self._address = address
        self._start = start
        self._cpus = cpus
        self._connection: Connection | None = None

    def __enter__(self) -> CommandNodes:
        own = OwnCluster(len(os.sched_getaffinity(0)), STORE_MEGABYTES)
        self._connection = connect(ClusterConfig(address=self._address), own)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._connection is not None
        self._connection.close()

    def __call__(self, command: Sequence[str], log: Path) -> RemoteCommand:
        """Have a command begin on a node; its words go to a file."""
        assert self._connection is not None
        ray = self._connection.ray
        passed_on = {name: v for name, v in os.environ.items() if name.startswith(PASSED_ON)}
        errand = CommandSpec(tuple(command), log.resolve(), Path.cwd(), passed_on)
        kind = ray.remote(CommandHost).options(
            num_cpus=self._cpus, max_restarts=0, max_task_retries=0, scheduling_strategy="SPREAD"
        )
        return RemoteCommand(ray, lambda: kind.remote(self._start, errand), log.stem)

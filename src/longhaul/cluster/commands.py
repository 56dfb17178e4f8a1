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
from typing import Any, Protocol

from longhaul.cluster.config import ClusterConfig
from longhaul.cluster.connect import ClusterError, Connection, OwnCluster, actor_error, connect
from longhaul.core.errors import LockedError
from longhaul.core.system import cores

MOST_DEATHS = 3
"""Deaths of nodes or actors after which a command is abandoned."""
LOCKED_SECONDS = 120.0
"""How long a restarted command may find its run locked by its former process."""
END_SECONDS = 150.0
LOOK_SECONDS = 0.1
STORE_MEGABYTES = 80  # the minimum of Ray; only exit codes go through it
PASSED_ON = "LONGHAUL_"
"""Prefix of the environment variables that are passed on to the node."""


class RunningCommand(Protocol):
    """A started command."""

    def poll(self) -> int | None:
        """Return the exit code, None while it runs."""

    def ask_to_stop(self) -> None:
        """Ask it to leave a checkpoint and end."""


Start = Callable[[Sequence[str], Path], RunningCommand]


@dataclass(frozen=True, slots=True)
class CommandSpec:
    """A command with its log, folder and environment."""

    command: tuple[str, ...]
    log: Path
    folder: Path
    """Where relative paths begin, if the node has it."""
    environment: dict[str, str]


class CommandHost:
    """An actor that runs one command on its node and returns its exit code."""

    def __init__(self, start: Start, spec: CommandSpec) -> None:
        self._start = start
        self._spec = spec
        self._running: RunningCommand | None = None

    def poll(self) -> int | None:
        """Begin the command if it has not begun; return its exit code, None while it runs."""
        if self._running is None:
            self._running = self._begin()
        return self._running.poll()

    def _begin(self) -> RunningCommand:
        spec = self._spec
        if not spec.log.parent.is_dir():
            raise ClusterError(
                f"the node {socket.gethostname()} has no folder {spec.log.parent}; on a cluster, "
                "--runs-root must be a folder that all nodes share"
            )
        if spec.folder.is_dir():
            os.chdir(spec.folder)
        os.environ.update(spec.environment)
        # Nodes need not have their Python at the same place.
        return self._start([sys.executable, *spec.command[1:]], spec.log)

    def ask_to_stop(self) -> None:
        """Ask the command to leave a checkpoint and end."""
        if self._running is not None:
            self._running.ask_to_stop()


class RemoteCommand:
    """A command on a node, restarted on another one if its node dies.

    For commands that continue where they stopped, as `train` does.
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
        """Return the exit code, None while the command runs or waits for a free node."""
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
            raise actor_error(self._name, error) from error
        except errors.RayError:
            self._on_death()
            return
        self._has_begun = True
        if code is None:
            self._answer = self._actor.poll.remote()
        elif self._is_locked_by_dead_process(code):
            self._dismiss()
            self._begin()
        else:
            self._settle(code)

    def _on_death(self) -> None:
        """Restart after a death, unless there were too many or a stop was requested."""
        self._deaths += 1
        self._died_at = self._clock()
        if self._is_asked or self._deaths > MOST_DEATHS:
            self._settle(-signal.SIGKILL)
        else:
            self._begin()

    def _is_locked_by_dead_process(self, code: int) -> bool:
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
        # A command that waits for a free node has nothing to save.
        while self.poll() is None and self._has_begun and self._clock() < until:
            self._rest(LOOK_SECONDS)
        if self._code is None:
            self._settle(-signal.SIGKILL)
        assert self._code is not None
        return self._code


class CommandNodes:
    """Starts commands on nodes with free processors; the others wait."""

    def __init__(self, address: str, start: Start, *, cpus: float) -> None:
        self._address = address
        self._start = start
        self._cpus = cpus
        self._connection: Connection | None = None

    def __enter__(self) -> CommandNodes:
        own = OwnCluster(cores(), STORE_MEGABYTES)
        self._connection = connect(ClusterConfig(address=self._address), own)
        return self

    def __exit__(self, *_: object) -> None:
        assert self._connection is not None
        self._connection.close()

    def __call__(self, command: Sequence[str], log: Path) -> RemoteCommand:
        """Start a command on a node; its output goes to a file."""
        assert self._connection is not None
        ray = self._connection.ray
        passed_on = {name: v for name, v in os.environ.items() if name.startswith(PASSED_ON)}
        spec = CommandSpec(tuple(command), log.resolve(), Path.cwd(), passed_on)
        kind = ray.remote(CommandHost).options(
            num_cpus=self._cpus, max_restarts=0, max_task_retries=0, scheduling_strategy="SPREAD"
        )
        return RemoteCommand(ray, lambda: kind.remote(self._start, spec), log.stem)

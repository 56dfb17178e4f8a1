"""Where runs that belong together are trained: here, or on the nodes of a cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from longhaul.app.child_process import Child
from longhaul.cluster.commands import CommandNodes
from longhaul.cluster.config import ClusterConfig
from longhaul.cluster.connect import check_cluster
from longhaul.core.errors import ConfigError


class Process(Protocol):
    """A started command."""

    def poll(self) -> int | None:
        """Return the exit code, None while it runs."""

    def ask_to_stop(self) -> None:
        """Ask it to leave a checkpoint and end."""

    def end(self) -> int:
        """Return the exit code once it has ended, by force if it takes long."""


Launch = Callable[[Sequence[str], Path], Process]


def end_all(processes: Sequence[Process]) -> None:
    """Have all of them leave their checkpoints side by side, and return when they have ended."""
    for process in processes:
        process.ask_to_stop()
    for process in processes:
        process.end()


@dataclass(frozen=True, slots=True)
class TrialPlace:
    """Which machines train the runs, and how many of them side by side."""

    cluster: str = ""
    """Address of a Ray cluster as `cluster.address` takes it; empty: this machine, without Ray."""
    jobs: int = 1
    cpus_per_job: float = 1.0
    """Processors the cluster sets aside for each run."""

    def __post_init__(self) -> None:
        if self.jobs < 1:
            raise ConfigError(f"--jobs must be at least 1, not {self.jobs}")
        if not self.cpus_per_job > 0:
            raise ConfigError(f"--cpus-per-job must be more than 0, not {self.cpus_per_job}")

    def check(self) -> None:
        """Raise if the cluster is not to be had; nothing is started."""
        check_cluster(ClusterConfig(address=self.cluster))

    @contextmanager
    def open(self) -> Iterator[Launch]:
        """Yield how to start a command; on a cluster for as long as it is joined."""
        if not self.cluster:
            yield Child
            return
        with CommandNodes(self.cluster, Child, cpus=self.cpus_per_job) as nodes:
            yield nodes


HERE = TrialPlace()
"""One run after the other on this machine."""

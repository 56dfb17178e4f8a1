"""What went wrong with environments and their processes, as facts for the run's logs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from longhaul.core.workers import Workers

FaultKind = Literal[
    "died", "hung", "stuck", "raised", "unusable", "not_reproducible", "leaked", "replaced",
    "retired",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that happened to a worker or an environment; for sessions.jsonl."""

    kind: FaultKind
    worker: int | None  # None for an env in the trainer's process
    pid: int | None
    stage: str
    error: str
    env_id: str
    env: int | None = None
    seed: int | None = None
    step: int | None = None
    traceback: str = ""
    last_actions: tuple[Any, ...] = ()
    seconds: float | None = None  # silent for, or replaced within

    def facts(self) -> dict[str, Any]:
        """Return what is known of it, as plain values."""
        known = {name: value for name, value in asdict(self).items() if value not in (None, "", ())}
        if self.last_actions:
            known["last_actions"] = list(self.last_actions)
        return known

    def __str__(self) -> str:
        place = f"worker {self.worker}"
        if self.env is not None:
            place = f"env {self.env}, seed {self.seed}, step {self.step}"
        return f"{self.env_id}, {place}: {self.kind} in {self.stage}: {self.error}"


@dataclass(frozen=True, slots=True)
class Repro:
    """Everything needed to see a failure again."""

    env_id: str
    spec: dict[str, Any]  # its arrays
    factory: str  # module:name of the class that makes the env, empty if it cannot be written down
    arguments: dict[str, Any]  # its fields
    env: int
    episode: int
    seed: int
    start: Any
    settings: dict[str, Any] | None
    actions: list[Any]  # [L][rows]...
    is_whole: bool  # whether the actions lead from the seed to the failure
    failure: str
    stage: str
    error: str
    traceback: str
    format: int = 1

    @property
    def name(self) -> str:
        """The name of its file."""
        return f"repro-env{self.env}-seed{self.seed}.json"


@dataclass(frozen=True, slots=True)
class Listeners:
    """Who is told what; by default nobody."""

    on_fault: Callable[[Fault], None] = lambda fault: None
    on_repro: Callable[[Repro], None] = lambda repro: None
    on_mark: Callable[[dict[str, Any]], None] = lambda mark: None
    on_workers: Callable[[Workers], None] = lambda workers: None
    """Told of every group of workers that is made."""
    on_workers_gone: Callable[[Workers], None] = lambda workers: None
    output: Path | None = None
    """The folder for what workers print; without one they print where the trainer does."""


SILENCE = Listeners()

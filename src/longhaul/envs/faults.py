"""Faults of environments, their listeners, and lost episodes."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from longhaul.core.env import EnvEvent, StepBuffers, Workers
from longhaul.core.errors import NumericalError
from longhaul.core.spaces import EnvSpec
from longhaul.core.state import State
from longhaul.envs.ledger import EpisodeLedger

FaultKind = Literal[
    "died", "hung", "stuck", "raised", "unusable", "not_reproducible", "leaked", "replaced",
    "retired",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault of a worker or an environment; for sessions.jsonl."""

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
        """Return the known fields as plain values."""
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
    """Everything needed to reproduce a failure."""

    env_id: str
    spec: dict[str, Any]  # its arrays
    factory: str  # module:name of the class that makes the env, empty if it cannot be serialized
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
    """Callbacks for faults and workers; by default they do nothing."""

    on_fault: Callable[[Fault], None] = lambda fault: None
    on_repro: Callable[[Repro], None] = lambda repro: None
    on_mark: Callable[[dict[str, Any]], None] = lambda mark: None
    on_workers: Callable[[Workers], None] = lambda workers: None
    """Called with every group of workers that is made."""
    on_workers_gone: Callable[[Workers], None] = lambda workers: None
    output: Path | None = None
    """The folder for the output of workers; without one they share the trainer's output."""


NO_LISTENERS = Listeners()


LAST_ACTIONS = 32
_ADDRESS = re.compile(r"0x[0-9a-fA-F]{5,}")


@dataclass(frozen=True, slots=True)
class FaultPolicy:
    """How many invalid transitions are tolerated, and who is notified of faults."""

    most_dropped: int = 100  # transitions, before the run stops
    listeners: Listeners = NO_LISTENERS


@dataclass(frozen=True, slots=True)
class AbandonedEpisode:
    """An episode that will not be continued, and why."""

    env: int
    kind: FaultKind
    stage: str
    error: str
    traceback: str = ""
    quarantined: bool = False  # its seed failed too often
    in_step: bool = True  # the outcome of the current step is lost with it


class LostEpisodes:
    """Counts lost episodes, and marks their rows so they are not taken for results."""

    def __init__(
        self,
        spec: EnvSpec,
        ledger: EpisodeLedger,
        slots: StepBuffers,
        last_actions: Callable[[int], Sequence[Any]],
        *,
        most_dropped: int,
    ) -> None:
        self._spec = spec
        self._ledger = ledger
        self._slots = slots
        self._last_actions = last_actions
        self._most_dropped = most_dropped
        self._events: list[EnvEvent] = []
        self.dropped = 0  # transitions with unusable values
        self.abandoned: set[int] = set()  # envs whose episode was abandoned and not yet replaced

    @property
    def has_no_events(self) -> bool:
        """Whether no event was added since the events were taken."""
        return not self._events

    def add_event(self, event: EnvEvent) -> None:
        """Keep an event for the step's record."""
        self._events.append(event)

    def take_events(self) -> tuple[EnvEvent, ...]:
        """Return the events since the last call."""
        events = tuple(self._events)
        self._events.clear()
        return events

    def abandon(self, given_up: AbandonedEpisode, *, step: int) -> None:
        """Record an episode abandoned at `step`; the outcome of the current step is lost."""
        env = given_up.env
        number, facts = self._ledger.numbers[env], self._facts(given_up, step)
        self.add_event(EnvEvent("episode_lost", env, number, facts, ends_episode=True))
        if given_up.in_step:
            self.lose_rows(env)
        self.mend_rows(env)
        self.abandoned.add(env)
        if given_up.kind == "unusable":
            self._count_dropped(given_up, step)

    def fault(self, given_up: AbandonedEpisode, *, step: int) -> Fault:
        """Return a fault in the trainer's process, for the listeners."""
        env, ledger = given_up.env, self._ledger
        return Fault(
            given_up.kind,
            None,
            None,
            given_up.stage,
            given_up.error,
            self._spec.id,
            env=env,
            seed=ledger.seeds[env],
            step=step,
            traceback=given_up.traceback,
            last_actions=tuple(self._last_actions(env)),
        )

    def _facts(self, given_up: AbandonedEpisode, step: int) -> dict[str, Any]:
        env = given_up.env
        facts = {
            "env_id": self._spec.id,
            "seed": self._ledger.seeds[env],
            "step": step,
            "kind": given_up.kind,
            "stage": given_up.stage,
            "error": timeless(given_up.error),
            "quarantined": given_up.quarantined,
            "last_actions": list(self._last_actions(env)),
        }
        if given_up.traceback:
            facts["traceback"] = timeless(given_up.traceback)
        return facts

    def _count_dropped(self, given_up: AbandonedEpisode, step: int) -> None:
        self.dropped += 1
        if self.dropped > self._most_dropped:
            raise NumericalError(
                f"{self._ledger.where(given_up.env, step)}: {given_up.error}; {self.dropped} "
                "transitions were dropped, more than env.most_dropped"
            )

    def lose_rows(self, env: int) -> None:
        """Mark the outcome of an env's last step as not known."""
        rows = self._ledger.rows(env)
        slots = self._slots
        slots.lost[rows] = True
        for flags in (slots.terminated, slots.truncated, slots.forced):
            flags[rows] = False
        for numbers in (slots.reward, *slots.terms.values()):
            numbers[rows] = 0.0

    def mend_rows(self, env: int) -> None:
        """Leave finite numbers and an all-true mask until the next reset."""
        rows = self._ledger.rows(env)
        for part in self._slots.obs.values():
            if np.issubdtype(part.dtype, np.floating):
                np.nan_to_num(part[rows], copy=False)
        if self._slots.mask is not None:
            self._slots.mask[rows] = True

    def state_dict(self) -> State:
        """Return the counts that decide what happens later."""
        return {"dropped": self.dropped}

    def load_state_dict(self, state: State) -> None:
        """Continue with saved counts."""
        self.dropped = state["dropped"]


def timeless(text: str) -> str:
    """Return a text without addresses in memory, which differ from process to process."""
    return _ADDRESS.sub("0x...", text)

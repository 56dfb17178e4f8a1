"""The search of one goal, which a kill at any moment only sets back to its last checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from longhaul.core.control import Progress
from longhaul.core.search import Search, SearchSpace
from longhaul.core.seeds import Seeds
from longhaul.core.settings import Settings
from longhaul.core.state import State
from longhaul.engine.demo import Demo, play
from longhaul.engine.explorer import Explorer
from longhaul.runs.checkpoints.manifest import Stamp
from longhaul.runs.checkpoints.store import CheckpointContent, CheckpointStore
from longhaul.runs.config import CheckpointConfig
from longhaul.runs.lock import Clocks, installed_versions

PART = "search"
SAVE_SECONDS = 15.0
KEPT = CheckpointConfig(keep_last=2, keep_best=0, best_metric="none")


@dataclass(frozen=True, slots=True)
class GoalRequest:
    """Which goal of which task is searched, and what decides the course of the search."""

    task: str
    goal: str
    seed: int
    count: int
    """Simulators that search side by side."""
    options: str
    """A digest of the task's options."""
    save_seconds: float = SAVE_SECONDS
    """Time between two checkpoints; when one is written changes nothing in the search."""


@dataclass(frozen=True, slots=True)
class SearchStatus:
    """How the search of a goal stands."""

    goal: str
    cells: int = 0
    steps: int = 0
    reach: float = 0.0
    seconds: float = 0.0
    leg: int = 0
    """Parts of the goal that are solved."""
    legs: int = 1
    solved: bool = False
    verified: bool = False
    decisions: int = 0
    digest: str = ""
    """Of the archive, once the search has stopped."""
    demo: str = ""
    film: str = ""


class GoalSearch:
    """Searches a goal within a budget of time; the same call again continues."""

    def __init__(
        self,
        request: GoalRequest,
        search: Search,
        folder: Path,
        *,
        threads: int,
        clocks: Clocks | None = None,
    ) -> None:
        self._request = request
        self._search = search
        self._threads = threads
        self._clocks = clocks or Clocks()
        identity = {
            "task": request.task,
            "goal": request.goal,
            "seed": str(request.seed),
            "simulators": str(request.count),
            "options": request.options,
        }
        stamp = Stamp(identity=identity, versions=installed_versions())
        self._store = CheckpointStore(folder, KEPT, stamp, self._clocks)
        self._spent = 0.0

    def run(
        self,
        budget_seconds: float,
        show: Callable[[SearchStatus], None],
        stop_reason: Callable[[], str | None],
    ) -> tuple[SearchStatus, Demo | None]:
        """Search until the goal is solved, the budget is spent or a stop is requested."""
        request = self._request
        with opened(self._search, request.goal, request.count, self._threads) as space:
            explorer = self._restored(space)
            self._advance(explorer, budget_seconds, show, stop_reason)
            self._save(explorer)
            status = self._status(explorer, digest=explorer.digest())
        if explorer.solution is None:
            return status, None
        return status, self._demo(explorer)

    def _restored(self, space: SearchSpace) -> Explorer:
        """Return the search as its newest checkpoint has it, or a new one."""
        request = self._request
        rng = Seeds(request.seed).generator("explore", request.goal)
        explorer = Explorer(space, rng)
        loaded = self._store.load_newest() if self._store.folder.is_dir() else None
        if loaded is None:
            explorer.begin()
        else:
            state = loaded.states[PART]
            self._spent = float(state["seconds"])
            explorer.load_state_dict(state["explorer"])
        return explorer

    def _advance(
        self,
        explorer: Explorer,
        budget_seconds: float,
        show: Callable[[SearchStatus], None],
        stop_reason: Callable[[], str | None],
    ) -> None:
        clock = self._clocks.monotonic
        before, since, saved = self._spent, clock(), clock()
        while explorer.solution is None and stop_reason() is None:
            if self._spent >= budget_seconds:
                return
            explorer.advance()
            now = clock()
            self._spent = before + now - since
            show(self._status(explorer))
            if now - saved >= self._request.save_seconds:
                self._save(explorer)
                saved = clock()

    def _save(self, explorer: Explorer) -> None:
        state: State = {"explorer": explorer.state_dict(), "seconds": self._spent}
        progress = Progress(explorer.steps // self._request.count, explorer.steps)
        self._store.folder.mkdir(parents=True, exist_ok=True)
        self._store.save(CheckpointContent(progress, Settings([]), {PART: state}, {}))

    def _status(self, explorer: Explorer, *, digest: str = "") -> SearchStatus:
        return SearchStatus(
            goal=self._request.goal,
            cells=len(explorer.archive),
            steps=explorer.steps,
            reach=explorer.reach,
            seconds=self._spent,
            leg=explorer.leg + (explorer.solution is not None),
            legs=explorer.legs,
            solved=explorer.solution is not None,
            decisions=len(explorer.solution or b""),
            digest=digest,
        )

    def _demo(self, explorer: Explorer) -> Demo:
        """Return the solution with the digest of the state it leads to in a new simulator."""
        request, decisions = self._request, explorer.solution or b""
        found = {
            "seed": request.seed,
            "simulators": request.count,
            "steps": explorer.steps,
            "cells": len(explorer.archive),
        }
        with opened(self._search, request.goal, 1, 1) as space:
            demo = Demo(request.task, request.goal, dict(space.facts), tuple(decisions), "", found)
            return with_end(space, demo)


def with_end(space: SearchSpace, demo: Demo) -> Demo:
    """Return a demonstration with the digest of where its decisions lead."""
    for _ in play(space, demo):
        pass
    return replace(demo, end=space.digest(0))


@contextmanager
def opened(search: Search, goal: str, count: int, threads: int) -> Iterator[SearchSpace]:
    """Yield the simulators of a goal; they are closed afterwards."""
    space = search.space(goal, count, threads)
    try:
        yield space
    finally:
        space.close()

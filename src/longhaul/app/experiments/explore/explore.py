"""Searching the goals of a task one after another, and writing what was found."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain
from pathlib import Path

from longhaul.app.build.components import build_task
from longhaul.app.build.paths import search_of
from longhaul.app.build.sources import ConfigSources, resolve
from longhaul.app.build.text import columns
from longhaul.app.experiments.explore.display import (
    ExploreDisplay,
    choose_explore_display,
    outcome,
)
from longhaul.app.experiments.explore.search import (
    SAVE_SECONDS,
    GoalRequest,
    GoalSearch,
    SearchStatus,
    opened,
)
from longhaul.core.errors import ConfigError, suggestion
from longhaul.core.search import Search, SearchSpace
from longhaul.core.system import cores
from longhaul.engine.demo import SUFFIX, Demo, play, verify
from longhaul.report.film import FilmError, encode
from longhaul.report.summary import duration
from longhaul.runs.checkpoints.inspect import remove_leftovers
from longhaul.runs.directory import slug
from longhaul.runs.durable import replace_file, storage_errors, sync_directory, sync_place
from longhaul.runs.lock import Clocks, RunLock
from longhaul.runs.signals import SignalRequests

ALL = "all"
STATE_FILE = "explore.json"
FILM_RATE = 15.0
"""Pictures per second of a film, one for each decision."""


@dataclass(frozen=True, slots=True)
class ExploreRequest:
    """What is searched, for how long, and where the results go."""

    task: str
    goals: str = ALL
    budget_seconds: float = 60.0
    """For each goal."""
    seed: int = 0
    count: int = 192
    """Simulators that search side by side; part of what decides the result."""
    threads: int = 0
    preset: str = ""
    overrides: tuple[str, ...] = ()
    name: str = ""
    root: Path = Path("runs")
    films: bool = True
    save_seconds: float = SAVE_SECONDS
    quiet: bool = False

    def __post_init__(self) -> None:
        if self.count < 1:
            raise ConfigError(f"--simulators must be at least 1, not {self.count}")
        if not self.budget_seconds > 0:
            raise ConfigError(f"--budget must be more than 0 seconds, not {self.budget_seconds}")

    @property
    def folder(self) -> Path:
        """Where the state of the search, the demonstrations and the films are."""
        name = self.name or f"seed-{self.seed}"
        return self.root / slug(self.task) / f"{slug(name)}.explore"


@dataclass(frozen=True, slots=True)
class ExploreReport:
    """How the searches of a task ended."""

    task: str
    folder: str
    goals: tuple[SearchStatus, ...]
    exit_code: int = 0
    reason: str = ""

    @property
    def solved(self) -> int:
        """Goals that are solved, and whose solution was repeated by a replay."""
        return sum(status.verified for status in self.goals)

    def as_text(self) -> str:
        """Return the table for people."""
        head = ("goal", "", "decisions", "steps", "cells", "time", "demonstration")
        rows = [
            (
                status.goal,
                outcome(status),
                str(status.decisions or "-"),
                f"{status.steps:,}",
                f"{status.cells:,}",
                duration(status.seconds),
                status.demo or "-",
            )
            for status in self.goals
        ]
        spent = duration(sum(status.seconds for status in self.goals))
        steps = sum(status.steps for status in self.goals)
        lines = [columns([head, *rows])]
        lines.append(f"{self.solved} of {len(self.goals)} solved in {spent}, {steps:,} steps")
        lines.append(f"in {self.folder}")
        if self.reason:
            lines.append(f"{self.reason}; run the same command to continue")
        return "\n".join(lines)

    def as_json(self) -> str:
        """Return everything, for programs."""
        return json.dumps({**asdict(self), "solved": self.solved}, indent=1)


def chosen_goals(search: Search, text: str) -> tuple[str, ...]:
    """Return the goals a user lists, by commas; `all` means every one."""
    if text.strip() == ALL:
        return tuple(goal for goal in search.goals if goal not in search.by_name)
    names = tuple(dict.fromkeys(part.strip() for part in text.split(",")))
    for name in names:
        if name not in search.goals:
            close = suggestion(name, search.goals)
            raise ConfigError(
                f"there is no goal {name!r}{close} (goals: {', '.join(search.goals)})"
            )
    return names


def run_explore(request: ExploreRequest) -> ExploreReport:
    """Search goal after goal; the same call again continues."""
    config = resolve(
        ConfigSources(request.task, preset=request.preset, overrides=request.overrides)
    )
    search = search_of(build_task(config))
    goals = chosen_goals(search, request.goals)
    folder = request.folder
    options = hashlib.sha256(json.dumps(config.options, sort_keys=True).encode()).hexdigest()
    display = choose_explore_display(len(goals), reach=search.reach, quiet=request.quiet)
    with storage_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        sync_place(folder)
    with (
        RunLock(folder / "lock", Clocks()) as lock,
        SignalRequests() as signals,
        display,
    ):
        explored = Explored(request, search, options[:16], display, signals, lock)
        report = explored.run(goals)
    return replace(report, exit_code=signals.exit_code, reason=signals.stop_reason or "")


class Explored:
    """Searches goals one after another and keeps their demonstrations and films."""

    def __init__(
        self,
        request: ExploreRequest,
        search: Search,
        options: str,
        display: ExploreDisplay,
        signals: SignalRequests,
        lock: RunLock,
    ) -> None:
        self._request = request
        self._search = search
        self._options = options
        self._display = display
        self._signals = signals
        self._lock = lock
        self._known = self._load()

    def run(self, goals: Sequence[str]) -> ExploreReport:
        """Search until all goals are solved or out of budget, or a stop is requested."""
        for goal in goals:
            if self._signals.stop_reason is not None:
                break
            known = self._known.get(goal)
            if known is None or not known.verified:
                self._known[goal] = self._searched(goal)
                self._save()
            if self._known[goal].verified:
                # The archive is large, and the demonstration says all that is still needed of it.
                shutil.rmtree(self._state(goal), ignore_errors=True)
            self._display.done(self._known[goal])
        found = tuple(self._known.get(goal, SearchStatus(goal)) for goal in goals)
        return ExploreReport(self._request.task, str(self._request.folder), found)

    def _state(self, goal: str) -> Path:
        return self._request.folder / "state" / slug(goal)

    def _searched(self, goal: str) -> SearchStatus:
        request, state = self._request, self._state(goal)
        with storage_errors(state):
            state.mkdir(parents=True, exist_ok=True)
            sync_place(state)
            remove_leftovers(state, self._lock)
        searching = GoalSearch(
            GoalRequest(
                request.task,
                goal,
                request.seed,
                request.count,
                self._options,
                request.save_seconds,
            ),
            self._search,
            state,
            threads=request.threads or cores(),
        )
        status, demo = searching.run(
            request.budget_seconds, self._display.show, lambda: self._signals.stop_reason
        )
        return status if demo is None else self._kept(status, demo)

    def _kept(self, status: SearchStatus, demo: Demo) -> SearchStatus:
        """Write a demonstration that a fresh simulator repeats, and its film."""
        folder = self._request.folder
        path = folder / "demos" / f"{slug(demo.goal)}{SUFFIX}"
        with storage_errors(path):
            path.parent.mkdir(exist_ok=True)
            sync_directory(folder)
            replace_file(path, demo.as_text().encode())
        with opened(self._search, demo.goal, 1, 1) as space:
            is_repeated = verify(space, demo)
        film = folder / "films" / f"{slug(demo.goal)}.mp4"
        if self._request.films and is_repeated:
            with opened(self._search, demo.goal, 1, 1) as space:
                self._film(space, demo, film)
        return replace(
            status,
            verified=is_repeated,
            demo=str(path),
            film=str(film) if film.is_file() else "",
        )

    def _film(self, space: SearchSpace, demo: Demo, path: Path) -> None:
        """Film a replay, one picture for each decision; a task without pictures has no film."""
        pictures = (space.frame(0) for _ in play(space, demo))
        first = next(pictures)
        if first is None:
            return
        shown = (picture for picture in pictures if picture is not None)
        try:
            with storage_errors(path):
                encode(chain([first], shown), path, frames_per_second=FILM_RATE)
        except FilmError as error:
            self._display.notice(f"no film of {demo.goal}: {error}")

    def _load(self) -> dict[str, SearchStatus]:
        """Return the results of earlier calls."""
        path = self._request.folder / STATE_FILE
        if not path.is_file():
            return {}
        try:
            rows = json.loads(path.read_bytes())["goals"]
            return {row["goal"]: SearchStatus(**row) for row in rows}
        except (ValueError, KeyError, TypeError) as error:
            raise ConfigError(
                f"{path} cannot be read ({error}); move it or use another --name"
            ) from error

    def _save(self) -> None:
        folder = self._request.folder
        rows = [asdict(status) for status in self._known.values()]
        with storage_errors(folder):
            replace_file(folder / STATE_FILE, json.dumps({"goals": rows}, indent=1).encode())

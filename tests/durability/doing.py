"""What a child does: the commands `train`, `explore` and `search`, in one process.

A trial of a search is trained in the same process. A kill therefore ends both at once, as the end
of a machine does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from longhaul.app.build.config import SessionOptions
from longhaul.app.build.sources import ConfigSources, resolve
from longhaul.app.experiments.explore.explore import ExploreRequest, run_explore
from longhaul.app.experiments.explore.search import GoalSearch
from longhaul.app.experiments.jobs import Launch, Process, TrialPlace
from longhaul.app.experiments.search.plan import SearchRequest
from longhaul.app.experiments.search.runner import SearchRunner, search
from longhaul.app.experiments.search.study import SearchStudy
from longhaul.app.session.run import run_session
from longhaul.app.session.start import start_or_resume
from longhaul.core.control import Progress
from longhaul.core.settings import Settings
from longhaul.engine.explorer import Explorer
from longhaul.runs.recorder import Recorder
from tests.durability.workload import (
    SEARCH_NAME,
    SIMULATORS,
    TRIAL_STEPS,
    TRIALS,
    WORKLOADS,
    Workload,
)

Note = Callable[[str, int], None]
"""Takes `saved`, `began` or `finished`, and how far the work had come."""
QUIET = SessionOptions(quiet=True)


@contextmanager
def instead(*places: tuple[Any, str, Any]) -> Iterator[None]:
    """Put other functions into these places."""
    kept = [(place, name, vars(place)[name]) for place, name, _ in places]
    try:
        for place, name, value in places:
            setattr(place, name, value)
        yield
    finally:
        for place, name, value in kept:
            setattr(place, name, value)


def do(workload: str, world: Path, note: Note) -> int:
    """Start the command or continue it; return its exit code."""
    work, root = WORKLOADS[workload], world / "runs"
    match work.command:
        case "train":
            return train(work, root, note)
        case "explore":
            return explore(work, root, note)
        case "search":
            return search_for(work, root, note)


def train(work: Workload, root: Path, note: Note) -> int:
    """Do what `longhaul train` does."""
    save, restore = Recorder.checkpoint, Recorder.restore

    def save_and_note(recorder: Recorder, progress: Progress, settings: Settings) -> Path:
        path = save(recorder, progress, settings)
        note("saved", progress.iteration)
        return path

    def restore_and_note(recorder: Recorder, settings: Settings) -> tuple[Progress, Settings]:
        progress, settings = restore(recorder, settings)
        note("began", progress.iteration)
        return progress, settings

    config = resolve(ConfigSources(work.task, overrides=work.overrides))
    start = start_or_resume(config, root, choice="auto", notify=lambda line: None)
    if start.is_over:
        return 0
    with instead((Recorder, "checkpoint", save_and_note), (Recorder, "restore", restore_and_note)):
        outcome = run_session(start.directory, start.config, QUIET, task=start.task)
    note("finished", 0)
    return outcome.exit_code


def explore(work: Workload, root: Path, note: Note) -> int:
    """Do what `longhaul explore` does, with a checkpoint after every step."""
    save, restore = GoalSearch._save, GoalSearch._restored

    def save_and_note(searching: GoalSearch, explorer: Explorer) -> None:
        save(searching, explorer)
        note("saved", explorer.steps)

    def restore_and_note(searching: GoalSearch, space: Any) -> Explorer:
        explorer = restore(searching, space)
        note("began", explorer.steps)
        return explorer

    request = ExploreRequest(
        work.task,
        count=SIMULATORS,
        root=root,
        overrides=work.overrides,
        budget_seconds=1e9,
        save_seconds=0.0,
        films=False,
        quiet=True,
    )
    with instead((GoalSearch, "_save", save_and_note), (GoalSearch, "_restored", restore_and_note)):
        report = run_explore(request)
    note("finished", 0)
    return report.exit_code


class Ended:
    """A trial that was trained when it was started."""

    def __init__(self, code: int) -> None:
        self._code = code

    def poll(self) -> int | None:
        """Return its exit code."""
        return self._code

    def ask_to_stop(self) -> None:
        """Do nothing."""

    def end(self) -> int:
        """Return its exit code."""
        return self._code


@dataclass(frozen=True, slots=True)
class ThisProcess(TrialPlace):
    """Trains trials here, one after another."""

    @contextmanager
    def open(self) -> Iterator[Launch]:
        """Yield what trains a trial."""
        yield trained_here


def trained_here(command: Sequence[str], log: Path) -> Process:
    """Train what a command of a search names."""
    words = dict(pairwise(command))
    log.write_bytes(b"")
    flags = {"name": words["--name"], "seed": int(words["--seed"])}
    config = resolve(ConfigSources(words["train"], file=Path(words["--config"]), flags=flags))
    root = Path(words["--runs-root"])
    start = start_or_resume(config, root, choice="auto", notify=lambda line: None)
    if start.is_over:
        return Ended(0)
    return Ended(run_session(start.directory, start.config, QUIET, task=start.task).exit_code)


def search_for(work: Workload, root: Path, note: Note) -> int:
    """Do what `longhaul search` does, except for its page."""
    finish, run = SearchStudy.finish, SearchRunner.run

    def finish_and_note(study: SearchStudy, number: int, value: float) -> None:
        finish(study, number, value)
        note("saved", number + 1)

    def note_and_run(runner: SearchRunner, stop_reason: Callable[[], str | None]) -> str:
        found = runner.findings().records
        note("began", sum(record.state == "complete" for record in found))
        return run(runner, stop_reason)

    request = SearchRequest(
        work.task,
        trials=TRIALS,
        space=("learn.learning_rate=log:1e-4..1e-2",),
        objective="rollout/ep_rew_mean",
        pruner="none",
        timesteps=TRIAL_STEPS,
        place=ThisProcess(),
        name=SEARCH_NAME,
        overrides=work.overrides,
        root=root,
    )
    with instead((SearchStudy, "finish", finish_and_note), (SearchRunner, "run", note_and_run)):
        found = search(request, lambda line: None)
    note("finished", 0)
    return found.exit_code

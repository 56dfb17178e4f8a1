"""`Run`, a run on disk, and what its folder and that of an exported policy load as."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from longhaul.app.build.components import build_task, checkpoint_config
from longhaul.app.build.config import RunConfig, is_number
from longhaul.app.build.memory import fix_torch
from longhaul.app.build.sources import from_values, read_toml
from longhaul.app.evaluation.agent import Agent, is_exported, load_exported, untrained
from longhaul.app.evaluation.zoo import policy_path
from longhaul.core.errors import CheckpointError, ConfigError, suggestion
from longhaul.core.task import Task
from longhaul.engine.stop import Outcome
from longhaul.runs.checkpoints.inspect import MANIFEST_FILE, checkpoint_name, rank_checkpoints
from longhaul.runs.checkpoints.store import Loaded, load_checkpoint, load_newest
from longhaul.runs.directory import RunDirectory, RunRecord
from longhaul.runs.reader import read_checkpoints, read_episodes, read_events, read_metrics

if TYPE_CHECKING:
    from longhaul.app.evaluation.evaluate import Evaluated
    from longhaul.app.evaluation.suites import SuiteReport

TableKind = Literal["auto", "pandas", "polars", "arrays"]
"""What a table is returned as: a DataFrame, or a dict of NumPy arrays."""


class Run:
    """A run on disk: its config, its task, its checkpoints and their policies.

    Config and task are loaded on first access. A process that trains the run passes its own.
    """

    def __init__(
        self,
        place: Path | str | RunDirectory,
        *,
        config: RunConfig | None = None,
        task: Task | None = None,
        outcome: Outcome | None = None,
    ) -> None:
        self.directory = place if isinstance(place, RunDirectory) else RunDirectory(Path(place))
        self.record: RunRecord = self.directory.read_record()
        self.directory.check_plain()
        self.outcome = outcome
        """How the session ended, if this process trained the run."""
        if config is not None:
            self.__dict__["config"] = config
        if task is not None:
            self.__dict__["task"] = task

    def __repr__(self) -> str:
        return f"Run({str(self.path)!r})"

    @property
    def path(self) -> Path:
        """The run's directory."""
        return self.directory.path

    @cached_property
    def config(self) -> RunConfig:
        """The resolved config."""
        return from_values(read_toml(self.directory.config))

    @cached_property
    def task(self) -> Task:
        """The task that is trained."""
        return build_task(self.config)

    def checkpoint(self, which: str = "latest") -> Loaded:
        """Return the checkpoint called `latest`, `best`, or by its name or number of steps."""
        folder = self.directory.checkpoints
        if which == "latest":
            loaded = load_newest(folder)
            if loaded is None:
                raise CheckpointError(f"{self.path} has no checkpoint yet")
            return loaded
        if which == "best":
            return load_named(self.best_checkpoint())
        name = checkpoint_name(int(which)) if which.isdecimal() else which
        if not (folder / name).is_dir():
            there = ", ".join(entry.path.name for entry in read_checkpoints(self.directory))
            raise CheckpointError(
                f"{self.path} has no checkpoint {which!r} (there: {there or 'none'})"
            )
        return load_named(folder / name)

    def best_checkpoint(self) -> Path:
        """Return the path of the checkpoint with the best score."""
        ranked = rank_checkpoints(
            self.directory.checkpoints, checkpoint_config(self.config, self.task)
        )
        if not ranked:
            raise CheckpointError(
                f"no checkpoint of {self.path} has a score; set evaluate.every_iterations to "
                "evaluate during training"
            )
        return ranked[0][1]

    def agent(self, which: str = "latest") -> Agent:
        """Return the policy of a checkpoint, ready to act."""
        fix_torch(threads=self.config.threads, deterministic=self.config.deterministic)
        loaded = self.checkpoint(which)
        agent = untrained(self.config, self.task)
        agent.run = self.path.name
        agent.load(loaded)
        return agent

    def metrics(self, *names: str, table: TableKind = "auto") -> Any:
        """Return the run's curves, one row per iteration, NaN where a metric was not measured.

        `iteration` and `env_steps` are always included; without names, all metrics are. The table
        is a pandas DataFrame if pandas is installed, else one of polars, else a dict of arrays;
        `table` chooses one of them.
        """
        rows = read_metrics(self.directory).rows
        known = sorted({key for row in rows for key, value in row.items() if is_number(value)})
        for name in names:
            if name not in known:
                raise ConfigError(f"{self.path} has no metric {name!r}{suggestion(name, known)}")
        wanted = dict.fromkeys(("iteration", "env_steps", *(names or known)))
        curves = {name: np.array([row.get(name, np.nan) for row in rows], float) for name in wanted}
        return as_table(curves, table)

    def episodes(self, *, table: TableKind = "auto") -> Any:
        """Return the finished training episodes, one row each, as a table like `metrics`."""
        rows = [_flat(row) for row in read_episodes(self.directory).rows]
        names = dict.fromkeys(name for row in rows for name in row)
        return as_table({name: _column([row.get(name) for row in rows]) for name in names}, table)

    def events(self) -> list[dict[str, Any]]:
        """Return what happened in the run, in order: each event has fields that fit its kind."""
        return [dict(row) for row in read_events(self.directory).rows]

    def evaluate(
        self,
        *,
        episodes: int = 50,
        seed: int | None = None,
        checkpoint: str = "latest",
        deterministic: bool | None = None,
        suites: tuple[str, ...] = (),
    ) -> Evaluated | SuiteReport:
        """Evaluate a checkpoint on fixed episodes, and store the result in the run.

        For a task with suites of episodes, `suites` names those to play instead.
        """
        from longhaul.app.evaluation.evaluate import EvaluationRequest, evaluate_run
        from longhaul.app.evaluation.suites import SuiteRequest

        asked = SuiteRequest(tuple(suites))
        return evaluate_run(
            self, EvaluationRequest(checkpoint, episodes, seed, deterministic, asked)
        )

    def film(
        self,
        *,
        episode: str | int = "worst",
        count: int = 1,
        checkpoint: str = "latest",
        gif: bool = False,
    ) -> tuple[Path, ...]:
        """Film the `worst`, `median` or `best` evaluation episodes, or those from a number on."""
        # By name: films and reports are made in a layer above this one.
        films = importlib.import_module("longhaul.app.artifacts.films")
        request = films.FilmRequest(checkpoint, str(episode), count, gif)
        return tuple(filmed.film.path for filmed in films.watch_run(self, request))

    def report(self) -> Path:
        """Write report, plots and notebook of the run so far, and return the report's page."""
        page: Path = (
            importlib.import_module("longhaul.app.artifacts.report").report_run(self.path).page
        )
        return page

    def _repr_html_(self) -> str:
        from longhaul.report.card import run_card
        from longhaul.report.run_data import gather

        return run_card(gather(self.path))


def as_table(columns: Mapping[str, NDArray[Any]], kind: TableKind) -> Any:
    """Return columns as a DataFrame of the first library that is installed, else as they are."""
    libraries = ("pandas", "polars") if kind == "auto" else (kind,)
    for library in libraries:
        if library == "arrays":
            break
        if library not in ("pandas", "polars"):
            raise ConfigError(f"table={kind!r} must be 'auto', 'pandas', 'polars' or 'arrays'")
        if importlib.util.find_spec(library) is not None:
            return importlib.import_module(library).DataFrame(dict(columns))
        if kind != "auto":
            raise ConfigError(f"table={kind!r} needs the package {library}: pip install {library}")
    return dict(columns)


def _flat(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return an episode's row with its metrics and facts beside the other fields."""
    inner = ("metrics", "facts")
    own = {name: value for name, value in row.items() if name not in inner}
    return {**own, **row.get("metrics", {}), **row.get("facts", {})}


def _column(values: list[Any]) -> NDArray[Any]:
    """Return numbers as numbers, NaN where one is missing, and anything else as objects."""
    if all(is_number(value) for value in values) or all(isinstance(one, str) for one in values):
        return np.array(values)
    if all(value is None or is_number(value) for value in values):
        return np.array(values, float)
    return np.array([*values, None], object)[:-1]  # the None keeps lists from becoming axes


def load_named(path: Path) -> Loaded:
    """Return a checkpoint that the user named; a damaged one is an error."""
    try:
        return load_checkpoint(path)
    except CheckpointError as error:
        raise CheckpointError(
            f"checkpoint {path} cannot be used: {error}; `longhaul inspect` lists the others"
        ) from error


def find_weights(path: Path, said: str) -> Loaded | None:
    """Return the best checkpoint of a run or the one at `path`; None for an exported policy.

    Otherwise raise an error that starts with `said`, the user's input.
    """
    if is_exported(path):
        return None
    if (path / MANIFEST_FILE).is_file():
        return load_named(path)
    if not RunDirectory(path).record.is_file():
        raise ConfigError(f"{said} is not a run, a checkpoint or an exported policy")
    run = Run(path)
    try:
        return run.checkpoint("best")
    except CheckpointError:
        return run.checkpoint("latest")


def load(place: Path | str, which: str = "") -> Agent:
    """Return the agent of a run, one of its checkpoints, an exported folder, or `zoo:NAME`.

    Of a run, it is the checkpoint `which`; by default the best evaluated one, else the latest.
    """
    path = policy_path(place)
    if is_exported(path):
        return load_exported(path)
    if (path / MANIFEST_FILE).is_file():
        return Run(path.parents[1]).agent(path.name)
    if which:
        return Run(path).agent(which)
    loaded = find_weights(path, f"{str(path)!r}")
    assert loaded is not None, "the path is not an exported policy"
    return Run(path).agent(loaded.path.name)

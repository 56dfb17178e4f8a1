"""The plan of a search: its request, space, objective, and the config of every trial."""

from __future__ import annotations

import difflib
import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, TypeVar

from longhaul.app.build.config import RunConfig
from longhaul.app.build.metrics import declared_metrics, declares
from longhaul.app.build.sources import (
    ConfigSources,
    differences,
    find_kind,
    parse_override,
    read_toml,
    resolve,
    to_values,
)
from longhaul.app.experiments.jobs import HERE, TrialPlace
from longhaul.app.experiments.search.space import (
    Dimension,
    Params,
    Value,
    parse_dimension,
    read_space,
)
from longhaul.app.session.start import build_checked
from longhaul.core.config import flatten, merge, unflatten
from longhaul.core.control import Progress, RunLength
from longhaul.core.errors import ConfigError, suggestion
from longhaul.core.task import Task
from longhaul.runs.directory import slug

STAGES = 10
"""A trial is checked for pruning after every tenth of its length."""
DEFAULT_SPACE = "default"
MOST_COMBINATIONS = 64
"""Combinations of the ends of other keys that are tried before a value is refused."""

Take = Literal["tail", "last", "best", "mean"]
Direction = Literal["maximize", "minimize"]
Pruner = Literal["median", "hyperband", "none"]
TAKES: tuple[Take, ...] = ("tail", "last", "best", "mean")
DIRECTIONS: tuple[Direction, ...] = ("maximize", "minimize")
PRUNERS: tuple[Pruner, ...] = ("median", "hyperband", "none")
Word = TypeVar("Word", bound=str)


def one_of(flag: str, word: str, choices: tuple[Word, ...]) -> Word:
    """Return the user's choice, or raise a ConfigError that lists all."""
    for choice in choices:
        if choice == word:
            return choice
    close = suggestion(word, choices)
    raise ConfigError(f"unknown {flag} {word!r}{close} (choices: {', '.join(choices)})")


@dataclass(frozen=True, slots=True)
class SearchRequest:
    """What to search, how long, and where."""

    task: str
    trials: int = 20
    space: tuple[str, ...] = ()
    """Dimensions as `--space` takes them; `default` is the task's own search space."""
    space_file: Path | None = None
    objective: str = ""
    """The metric to optimize; empty: the task's score."""
    direction: Direction = "maximize"
    take: Take = "tail"
    pruner: Pruner = "median"
    budget_seconds: float = math.inf
    trial_seconds: float = math.inf
    timesteps: int | None = None
    seed: int = 1
    place: TrialPlace = HERE
    name: str = "search"
    preset: str = ""
    file: Path | None = None
    overrides: tuple[str, ...] = ()
    root: Path = Path("runs")

    def __post_init__(self) -> None:
        if self.trials < 1:
            raise ConfigError(f"--trials must be at least 1, not {self.trials}")
        for flag, seconds in (
            ("--budget", self.budget_seconds),
            ("--trial-timeout", self.trial_seconds),
        ):
            if not seconds > 0:
                raise ConfigError(f"{flag} must be more than 0 seconds, not {seconds}")
        if self.timesteps is not None and self.timesteps < 1:
            raise ConfigError(f"--timesteps must be at least 1, not {self.timesteps}")
        if self.seed < 0:
            raise ConfigError(f"--seed must be at least 0, not {self.seed}")

    @property
    def folder(self) -> Path:
        """The folder of the search's files."""
        return self.root / slug(self.task) / f"{slug(self.name)}.search"

    def run_name(self, number: int) -> str:
        """Return the name of a trial's run."""
        return f"{self.name}-{number:04d}"

    def run_seed(self, number: int) -> int:
        """Return the seed of a trial's run, different for each, to avoid overfitting one seed."""
        return self.seed + number


@dataclass(frozen=True, slots=True)
class PlannedTrial:
    """The config file of a trial's run, and the resolved config."""

    values: dict[str, Any]
    config: RunConfig


@dataclass(frozen=True, slots=True)
class SearchPlan:
    """A checked request."""

    request: SearchRequest
    space: dict[str, Dimension]
    metric: str
    base: RunConfig
    """The config without changes by the search."""
    values: dict[str, Any]
    """The values of the user's file and overrides."""
    rows: int
    """Agents per environment."""

    def changed(self, params: Params) -> dict[str, Any]:
        """Return the user's values updated by a trial's, with the schedule scaled accordingly."""
        values, moved = merge(self.values, self._tried(params)), self.config(params).schedule
        if moved == self.base.schedule:
            return values
        return merge(values, {"schedule": [dict(table) for table in moved]})

    def _tried(self, params: Params) -> dict[str, Any]:
        return unflatten({key: self.space[key].setting(value) for key, value in params.items()})

    def config(self, params: Params) -> RunConfig:
        """Return the config of a trial's values, or raise a ConfigError."""
        return resolve_for(self.request, self.values, tried=self._tried(params))

    def trial(self, number: int, params: Params) -> PlannedTrial:
        """Return the config file of a trial, on top of the preset, and the resolved config.

        What a trial does not need is switched off.
        """
        request, changed = self.request, self.changed(params)
        config = resolve_for(request, changed)
        spared = {
            **only_length(config.length),
            "evaluate": {"final_episodes": 0, "every_iterations": self._evaluate_every(config)},
            "checkpoint": {"keep_last": 1, "keep_spread": 0},
        }
        values = merge(changed, spared)
        named = {"name": request.run_name(number), "seed": request.run_seed(number)}
        return PlannedTrial(values, resolve_for(request, merge(values, named)))

    def _evaluate_every(self, config: RunConfig) -> int:
        """Return how often a trial is evaluated: in every stage, if the objective needs it."""
        every = config.evaluate.every_iterations
        if not self.metric.startswith("eval/"):
            return every
        if config.length.unit == "episodes":
            raise ConfigError(
                f"total_episodes = {config.total_episodes}: how often {self.metric} is measured "
                "depends on the number of iterations, which is not known; give --timesteps"
            )
        steps = config.num_envs * self.rows * config.collect.num_steps
        iterations = config.total_iterations or math.ceil(config.total_timesteps / steps)
        stage = max(1, iterations // STAGES)
        return min(every, stage) if every else stage

    def best_values(self, params: Params) -> dict[str, Any]:
        """Return the values that `longhaul train TASK --config` needs for a trial's config."""
        default = resolve(ConfigSources(self.request.task))
        config = resolve(
            ConfigSources(self.request.task, preset=self.request.preset, flags=self.changed(params))
        )
        changed = differences(to_values(default), to_values(config), ignore=("name", "seed"))
        return unflatten({key: value for key, (_, value) in changed.items()})

    def own_params(self) -> tuple[dict[str, Value], bool]:
        """Return the config's own values, or the nearest in the space, and whether they are equal.

        A key whose own value is not among its choices is left out.
        """
        held = flatten(to_values(self.base))
        found = {key: one.nearest(held.get(key)) for key, one in self.space.items()}
        params = {key: value for key, value in found.items() if value is not None}
        own = {key: self.space[key].setting(value) for key, value in params.items()}
        is_exact = all(key in own and own[key] == _plain(held[key]) for key in self.space)
        return params, is_exact

    def terms(self) -> dict[str, Any]:
        """Return what must stay the same for a search to be continued."""
        request = self.request
        return {
            "task": request.task,
            "space": sorted(one.text for one in self.space.values()),
            "objective": self.metric,
            "direction": request.direction,
            "take": request.take,
            "seed": request.seed,
            "timesteps": request.timesteps,
            "preset": request.preset,
            "values": self.values,
        }


def make_plan(request: SearchRequest) -> SearchPlan:
    """Return the plan of a search; raise for every mistake that can be found beforehand."""
    values: dict[str, Any] = read_toml(request.file) if request.file is not None else {}
    for override in request.overrides:
        values = merge(values, parse_override(override))
    base = resolve_for(request, values)
    space = gather_space(request)
    task = build_checked(base)
    metric = check_objective(request.objective or task.evaluation.metric, task)
    plan = SearchPlan(request, space, metric, base, values, task.envs.spec.rows)
    for dimension in space.values():
        for value in dimension.ends:
            check_value(plan, dimension, value)
    return plan


def check_value(plan: SearchPlan, dimension: Dimension, value: Value) -> None:
    """Raise if a value is invalid for all tried combinations of other keys."""
    try:
        plan.config({dimension.key: value})
    except ConfigError as error:
        others = [one for one in plan.space.values() if one is not dimension]
        ends = itertools.product(*([(one.key, end) for end in one.ends] for one in others))
        for chosen in itertools.islice(ends, MOST_COMBINATIONS):
            if others and _is_config(plan, {**dict(chosen), dimension.key: value}):
                return
        raise ConfigError(f"--space {dimension.text}: {error}") from None


def _is_config(plan: SearchPlan, params: Params) -> bool:
    try:
        plan.config(params)
    except ConfigError:
        return False
    return True


def resolve_for(
    request: SearchRequest,
    values: Mapping[str, Any],
    tried: Mapping[str, Any] = MappingProxyType({}),
) -> RunConfig:
    """Return the config of these values, with the length of a trial."""
    if request.timesteps is not None:
        values = merge(values, only_length(RunLength(request.timesteps)))
    return resolve(ConfigSources(request.task, preset=request.preset, flags=values, tried=tried))


def gather_space(request: SearchRequest) -> dict[str, Dimension]:
    """Return the dimensions by key: of the file and of `--space`, else the task's own."""
    space: dict[str, Dimension] = {}
    if request.space_file is not None:
        space |= read_space(request.space_file)
    words = request.space or (() if space else (DEFAULT_SPACE,))
    for text in words:
        if text.strip() == DEFAULT_SPACE:
            space |= default_space(request.task)
        else:
            dimension = parse_dimension(text)
            space[dimension.key] = dimension
    return space


def default_space(task: str) -> dict[str, Dimension]:
    """Return a task's own search space."""
    kind = find_kind(task)
    if not kind.search_space.is_file():
        raise ConfigError(
            f"task {kind.name!r} has no search space; give one, such as "
            "--space learn.learning_rate=log:1e-5..1e-2"
        )
    return read_space(kind.search_space)


def check_objective(name: str, task: Task) -> str:
    """Return the metric's name if runs of the task may write it.

    Some declarations match any name, such as `eval/<figure>`. A name that is almost equal to a
    declared one still counts as a typing error.
    """
    declared = declared_metrics([task])
    known = [metric.name for metric in declared]
    is_typo = name not in known and difflib.get_close_matches(name, known, n=1, cutoff=0.9)
    if is_typo or not any(declares(metric, name) for metric in declared):
        close = suggestion(name, known) or "; `longhaul metrics RUN` lists those of a run"
        raise ConfigError(f"--objective {name!r} is not a metric of {task.name}{close}")
    return name


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def share_of(row: Mapping[str, Any], config: RunConfig) -> float:
    """Return the share of the run that is done after an iteration, from 0 to 1."""
    counters = (int(row.get(name, 0)) for name in ("iteration", "env_steps", "episodes"))
    return config.length.share(Progress(*counters)) or 0.0


def only_length(length: RunLength) -> dict[str, int]:
    """Return config values that make a run this long, whatever it was counted in."""
    others = {"total_iterations": 0, "total_episodes": 0}
    return {**others, length.key: length.total}

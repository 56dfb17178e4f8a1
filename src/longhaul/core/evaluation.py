"""Suites to evaluate a task on, studies of a policy, and the logs they read."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from longhaul.core.env import Array, EnvSource, Episode, Floats, Observation, Start
from longhaul.core.metrics import Metrics
from longhaul.core.settings import Settings, SettingValue
from longhaul.core.statistics import Interval

if TYPE_CHECKING:
    from longhaul.core.policy import Policy


@dataclass(frozen=True, slots=True)
class Case:
    """One situation: an episode's seed and, where it is not the seed's own, its start."""

    seed: int
    start: Start | None = None


@dataclass(frozen=True, slots=True)
class Column:
    """A figure that is worth a column in the table people see."""

    title: str
    metric: str
    form: str = ".3f"


@dataclass(frozen=True, slots=True)
class Suite:
    """A list of cases, the environments they are played in, and what is made of the episodes.

    The environments may differ from those of training in everything a policy does not see: their
    length, their number of rows, their settings. All functions take the episodes in the order of
    the cases; one whose environment failed is missing.
    """

    name: str
    envs: EnvSource
    cases: tuple[Case, ...]
    figures: Callable[[Sequence[Episode]], Metrics]
    """Return the suite's own figures, named `eval/...`."""
    score: Callable[[Episode], float]
    """Return what two policies are compared by, case by case; more is better."""
    conditions: str = ""
    """What else must be the same for two policies to be compared, in words."""
    columns: tuple[Column, ...] = ()
    intervals: Callable[[Sequence[Episode]], Mapping[str, Interval]] = lambda episodes: {}
    """Return 95 % confidence intervals of some of the figures."""
    bounds: Callable[[], Metrics] = dict
    """Return the best value anything could reach, for some of the figures."""
    references: Callable[[], Mapping[str, tuple[Episode, ...]]] = dict
    """Play the cases with policies that learned nothing, by their names."""
    record: Callable[[Sequence[Episode]], dict[str, Any]] = lambda episodes: {}
    """Return what a run's events should keep of an evaluation, as plain JSON values."""


@dataclass(frozen=True, slots=True)
class Playback:
    """One episode, T steps of the env's rows."""

    number: int  # of the case in its evaluation
    seed: int
    score: float
    reason: str
    obs: Observation  # [T, rows, ...], on which the policy acted
    action: Array  # [T, rows, ...]
    value: Floats  # [T, rows]
    reward: Floats  # [T], the mean over rows
    mask: Array | None = None  # [T, rows, choices], True where allowed
    pictures: Callable[[Collection[int]], Mapping[int, bytes]] = lambda steps: {}
    """Play it once more and return what was to be seen before some of the steps, as PNG; without
    those that cannot be drawn."""


StudyFiles = Mapping[str, str | bytes]
"""The content of each file by its name."""
Study: TypeAlias = "Callable[[Policy, Settings, Sequence[Playback]], StudyFiles]"
"""Makes files of what a trained policy did in some episodes."""


Row = Mapping[str, Any]
Records = Mapping[str, str]
"""The text of each file by its name; files of one run, made from its logs at any time."""


@dataclass(frozen=True, slots=True)
class RunLog:
    """What a run has written so far."""

    name: str
    metrics: Sequence[Row]
    """One row per iteration, timings included."""
    events: Sequence[Row]
    settings: Mapping[str, SettingValue]
    """The settings of the first iteration; later ones are in the events of the schedule."""
    episodes: Callable[[], Sequence[Row]] = tuple
    """One row per finished episode of training; there may be many, so they are read if asked."""
    is_over: bool = False
    now: str = ""
    """When the records are made."""
    times: Mapping[int, str] = field(default_factory=dict)
    """When each iteration ended, if the session logs hold it."""
    checkpoints: Mapping[int, str] = field(default_factory=dict)
    """The checkpoint of each iteration that still has one, relative to the run directory."""
    files: frozenset[str] = frozenset()
    """Pictures and films there are, relative to the run directory."""

    def settings_by_iteration(self) -> dict[int, dict[str, Any]]:
        """Return the settings each iteration ran with; a change counts from the next one on."""
        moves: dict[int, dict[str, Any]] = {}
        for event in self.events:
            if event.get("event") == "schedule":
                changed = {move["setting"]: move["new"] for move in event.get("moves", ())}
                moves.setdefault(int(event["iteration"]), {}).update(changed)
        present: dict[str, Any] = dict(self.settings)
        found = {}
        for row in self.metrics:
            iteration = int(row["iteration"])
            found[iteration] = present
            present = {**present, **moves.get(iteration, {})}
        return found


@dataclass(frozen=True, slots=True)
class TrainingSummary:
    """The training of one run, of ours or of another program, as one row of a table."""

    cells: Mapping[str, str]
    """By the title of the column."""
    notes: tuple[str, ...] = ()
    """What a reader should know, such as what cannot be compared."""

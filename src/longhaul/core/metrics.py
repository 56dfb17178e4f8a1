"""Metrics and the panels that show them: names, meanings and kinds."""

from __future__ import annotations

import difflib
import functools
import re
import tomllib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from longhaul.core.errors import suggestion

Metrics = Mapping[str, float]
"""Metric values by name; one that cannot be computed is absent, never NaN."""


@dataclass(frozen=True, slots=True)
class Metric:
    """The declaration of one metric, for readers and for the reference page."""

    name: str
    meaning: str
    unit: str = ""

    @property
    def group(self) -> str:
        """The part of the name before the slash."""
        return self.name.partition("/")[0]

    @property
    def described(self) -> str:
        """The meaning, with the unit behind it if there is one."""
        return f"{self.meaning} [{self.unit}]" if self.unit else self.meaning


PLACE = "<value>"


@dataclass(frozen=True, slots=True)
class Alias:
    """A name from before longhaul, and how its quantity follows from present ones."""

    old: str
    """A `<value>` in it stands for the value of the setting `by`."""
    new: str = ""
    """A metric, a counter, or a setting, whose name has no slash; or sums of products of such, as
    `a + 2 * b / c` with spaces around the signs; for a field also `file: key` or a command."""
    kind: Literal["curve", "field"] = "curve"
    """Curves are drawn under their old names as well; fields are only listed in the reference."""
    none: str = ""
    """Why there is no counterpart; then `new` is empty."""
    by: str = ""
    unit: str = ""
    """Of the old quantity, where it has one."""
    note: str = ""
    """What else a reader of the old name should know."""


def alias_curves(aliases: Iterable[Alias], values: Mapping[str, Any]) -> dict[str, float]:
    """Return the curves under their old names, from metrics and settings by their present ones."""
    curves = {}
    for alias in aliases:
        part = values.get(alias.by, "") if alias.by else ""
        if alias.kind != "curve" or (alias.by and not part):
            continue
        value = follow_formula(alias.new, values)
        if value is not None:
            fit = re.sub(r"[^A-Za-z0-9_.-]", "_", str(part))
            curves[alias.old.replace(PLACE, fit)] = value
    return curves


def follow_formula(formula: str, values: Mapping[str, Any]) -> float | None:
    """Return a sum of products of named values; None if one of them is not there."""
    total = 0.0
    for product in formula.split(" + "):
        # The signs stand at the odd places.
        parts = re.split(r" ([*/]) ", product)
        result = 1.0
        for sign, name in zip(["*", *parts[1::2]], parts[::2], strict=True):
            value = float(name) if _NUMBER.fullmatch(name) else values.get(name)
            if not isinstance(value, (int, float)) or (sign == "/" and not value):
                return None
            result = result * value if sign == "*" else result / value
        total += result
    return total


_NUMBER = re.compile(r"-?[0-9.]+")


PanelKind = Literal[
    "lines",
    "overview",
    "histogram",
    "polar",
    "map",
    "bars",
    "spans",
    "area",
    "matrix",
    "distribution",
    "graph",
    "episodes",
    "boxes",
    "estimates",
    "scatter",
    "tracks",
    "moments",
]


@dataclass(frozen=True, slots=True)
class Panel:
    """A group of measured things a reader wants to see side by side.

    `lines`, `overview`, `spans` and `area` show metrics over the run, `episodes` fields of every
    training episode. The other kinds show records, the rows of one JSON-lines file of the run
    directory, whose fields are named like `metrics`.
    """

    title: str
    metrics: tuple[str, ...]
    """lines: the metrics, or settings. overview: the same, each in a separate field, and all of
    them together, from lowest to highest, in the last one. spans: a metric, its threshold, and the
    one that is 1 where the run is shaded. histogram: a field that holds a list of numbers; a
    negative one stands for never and is counted in the last bin. polar: an angle in degrees and a
    weight. map: x and y. bars: a category and, if there is one, a count. area: metrics that are
    stacked, such as shares. matrix: the names of row and column, and the number where they meet.
    distribution and boxes: a name and a list of numbers. estimates: a name, a number, the ends of
    its interval, and what is estimated. scatter: x, y and a group. tracks: a step, and fields of
    each step that are numbers, words, lists of words, or numbers by name. moments: a title, the
    path of a picture, links (`from`, `to`, `weight`), where they lead (`name`, `group`, `value`),
    and the groups in the order of their colors. A field within another is named with a dot."""
    kind: PanelKind = "lines"
    name: str = ""
    """The name of the picture's file; made of the title if empty."""
    right: tuple[str, ...] = ()
    """lines and spans: metrics or settings with a separate axis on the right."""
    dashed: tuple[str, ...] = ()
    """lines: metrics that are drawn dashed."""
    levels: tuple[tuple[str, float], ...] = ()
    """lines: names and heights of horizontal lines."""
    borders: str = ""
    """lines and episodes: a metric; a vertical line is drawn wherever it changes."""
    limits: tuple[float, float] | None = None
    """lines: from where to where the axis on the left goes; chosen if there are none."""
    is_filmed: bool = False
    """lines: whether the picture is kept as a film as well, `media/<name>_curve.gif`, in which the
    curves grow iteration by iteration."""
    records: str = ""
    """The file of the records, relative to the run directory; `evaluations/*.json` are the
    evaluations that were kept, suite by suite."""
    event: str = ""
    """Takes only the records of this event, as events.jsonl has several; all if empty."""
    each: str = ""
    """The field of a record that holds a list of the things to show; the record itself if empty."""
    bins: tuple[float, ...] = ()
    """histogram and polar: the edges of the bins; chosen if empty. map: the last is the radius of
    the circle to draw."""
    total: str = ""
    """histogram: the metric that says how many there are; those not listed count as never."""
    label: str = ""
    """histogram, matrix, distribution and boxes: what the numbers are."""
    is_compared: bool = False
    """Whether a comparison shows it too: lines of all arms in one picture, others side by side."""
    note: str = ""
    """What a reader should know to read it."""


@functools.cache
def foreign_names() -> Mapping[str, str]:
    """Return our config key for each name of Stable-Baselines3, CleanRL and other trainers."""
    ours = tomllib.loads(Path(__file__).with_name("foreign_names.toml").read_text("utf-8"))
    return {name: key for key, names in ours.items() for name in names}


def key_suggestion(path: str, siblings: Iterable[str], everywhere: Collection[str]) -> str:
    """Return what an unknown config key probably means.

    By its name elsewhere, by the table it really is in, by spelling, and else where to look.
    """
    last = _last(path)
    if last in foreign_names():
        return f"; did you mean {foreign_names()[last]!r}?"
    if same := [key for key in everywhere if _last(key) == last]:
        return f"; did you mean {min(same, key=len)!r}?"
    names = {_last(key): key for key in siblings}
    if close := difflib.get_close_matches(last, names, n=1, cutoff=0.6):
        return f"; did you mean {names[close[0]]!r}?"
    return "; `longhaul config TASK` lists all keys"


def setting_suggestion(name: str, settings: Collection[str]) -> str:
    """Return `; did you mean 'x'?` for a setting by its name elsewhere, or else by spelling."""
    meant = foreign_names().get(_last(name))
    return f"; did you mean {meant!r}?" if meant in settings else suggestion(name, settings)


def _last(path: str) -> str:
    return path.rpartition(".")[2].lower().replace("-", "_")

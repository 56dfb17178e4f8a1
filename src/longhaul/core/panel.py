"""What a task wants its readers to see, described as data so that any page can draw it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

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
]


@dataclass(frozen=True, slots=True)
class Panel:
    """A group of measured things a reader wants to see side by side.

    `lines`, `overview`, `spans` and `area` show metrics over the run. The other kinds show records,
    the rows of one JSON-lines file of the run directory, whose fields are named like `metrics`.
    """

    title: str
    metrics: tuple[str, ...]
    """lines: the metrics, or settings. overview: the same, each in a field of its own, and all of
    them together, from lowest to highest, in the last one. spans: a metric, its threshold, and the
    one that is 1 where the run is shaded. histogram: a field that holds a list of numbers; a
    negative one stands for never and is counted in the last bin. polar: an angle in degrees and a
    weight. map: x and y. bars: a category and, if there is one, a count. area: metrics that are
    stacked, such as shares. matrix: the names of row and column, and the number where they meet.
    distribution: a name and a list of numbers. A field within another is named with a dot."""
    kind: PanelKind = "lines"
    name: str = ""
    """The name of the picture's file; made of the title if empty."""
    right: tuple[str, ...] = ()
    """lines and spans: metrics or settings with an axis of their own on the right."""
    dashed: tuple[str, ...] = ()
    """lines: metrics that are drawn dashed."""
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
    """histogram, matrix and distribution: what the numbers are."""
    note: str = ""
    """What a reader should know to read it."""

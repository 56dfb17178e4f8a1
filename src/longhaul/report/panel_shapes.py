"""Panels other than lines: shares, matrices, distributions, boxes, estimates, points, graphs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from longhaul.core.metrics import Panel
from longhaul.report.curves import labels_of, legend_below, over_steps, plot_line, small_multiples
from longhaul.report.run_data import RunData
from longhaul.report.statistics import Numbers, Row, Series, column, is_number
from longhaul.report.style import CARD, COLORS, INK, thousands


def chosen_records(run: RunData, panel: Panel) -> list[Row]:
    """Return the rows a panel is about."""
    rows = run.records.get(panel.records, [])
    return [row for row in rows if not panel.event or row.get("event") == panel.event]


def parts_of(record: Row, panel: Panel) -> list[Row]:
    """Return the things to show of one record."""
    if not panel.each:
        return [record]
    inner = record.get(panel.each, [])
    return [part for part in inner if isinstance(part, Mapping)] if isinstance(inner, list) else []


def numbers_in(value: object) -> list[float]:
    """Return the numbers of a field that holds one, a list or a mapping of them."""
    if isinstance(value, Mapping):
        value = list(value.values())
    held: Iterable[object] = value if isinstance(value, list) else [value]
    return [float(one) for one in held if isinstance(one, (int, float)) and is_number(one)]


def field_of(part: Row, path: str) -> object:
    """Return the field a dotted path leads to, through mappings and lists, or None."""
    found: object = part
    for name in path.split("."):
        if isinstance(found, Mapping):
            found = found.get(name)
        elif isinstance(found, list) and name.isdecimal() and int(name) < len(found):
            found = found[int(name)]
        else:
            return None
    return found


Draw = Callable[[Any], None]
MOST_FIGURES = 200
"""Cells of a matrix that have room for their number."""
LINEAR = 200
"""Boxes with a number above it have a logarithmic scale beyond 10."""


@dataclass(frozen=True, slots=True)
class Sized:
    """A way of drawing and the inches it needs."""

    draw: Draw
    size: tuple[float, float] = (6.6, 3.3)


def area(run: RunData, panel: Panel) -> Sized | None:
    """Return how to draw metrics stacked over the run, None if there are none."""
    found = [(name, column(run.rows, name).thinned()) for name in panel.metrics]
    found = [(name, series) for name, series in found if len(series) > 1]
    if not found:
        return None
    steps = found[0][1].steps
    stack = [_at(series, steps) for _, series in found]

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        labels = labels_of([name for name, _ in found])
        axes.stackplot(steps, *stack, labels=labels, colors=COLORS, alpha=0.85, linewidth=0)
        over_steps(axes)
        axes.margins(x=0, y=0)
        legend_below(figure)

    return Sized(draw)


def overview(run: RunData, panel: Panel) -> Sized | None:
    """Return how to draw each metric by itself and all of them together, None if there are none."""
    found = [(name, column(run.rows, name)) for name in panel.metrics]
    found = [(name, series) for name, series in found if len(series)]
    if not found:
        return None

    def draw(figure: Any) -> None:
        *fields, together = small_multiples(figure, len(found) + 1, across=2, sharex=True)
        labels = labels_of([name for name, _ in found])
        for axes, (_, series), label, color in zip(fields, found, labels, COLORS, strict=False):
            plot_line(axes, series, color=color)
            plot_line(together, _stretched(series), color=color, label=label)
            axes.set_title(label, fontsize=8.5, fontweight="normal")
            over_steps(axes)
        together.set_title("together, lowest to highest", fontsize=8.5, fontweight="normal")
        over_steps(together)
        legend_below(figure)

    return Sized(draw, (7.2, 2.3 * ((len(found) + 2) // 2)))


def _stretched(series: Series) -> Series:
    low, high = float(series.values.min()), float(series.values.max())
    return Series(series.steps, (series.values - low) / ((high - low) or 1.0))


def _at(series: Series, steps: Numbers) -> Numbers:
    return np.asarray(np.interp(steps, series.steps, series.values))


def matrix(run: RunData, panel: Panel) -> Sized | None:
    """Return how to draw a table of numbers as colors, None if there are none."""
    cells: dict[tuple[str, str], float] = {}
    row_field, column_field, value_field = panel.metrics
    for record in chosen_records(run, panel):
        for part in parts_of(record, panel):
            value = field_of(part, value_field)
            if isinstance(value, (int, float)) and is_number(value):
                key = (str(field_of(part, row_field)), str(field_of(part, column_field)))
                cells[key] = float(value)
    if not cells:
        return None
    rows = list(dict.fromkeys(row for row, _ in cells))
    columns = list(dict.fromkeys(name for _, name in cells))
    values = np.array([[cells.get((row, name), np.nan) for name in columns] for row in rows])
    height = 0.28 * len(rows) + 1.2

    def draw(figure: Any) -> None:
        _draw_matrix(figure, values, rows, columns, panel.label)

    return Sized(draw, (max(3.6, 0.62 * len(columns) + 2.4), height))


def _draw_matrix(
    figure: Any, values: Numbers, rows: list[str], columns: list[str], label: str
) -> None:
    axes = figure.subplots()
    low, high = float(np.nanmin(values)), float(np.nanmax(values))
    signed = low < 0
    reach = max(abs(low), abs(high))
    shown = axes.imshow(
        values,
        aspect="auto",
        cmap="RdBu_r" if signed else "Blues",
        vmin=-reach if signed else min(low, 0.0),
        vmax=reach if signed else high or 1.0,
    )
    axes.set_xticks(range(len(columns)), columns, rotation=30, ha="right", fontsize=8)
    axes.set_yticks(range(len(rows)), rows, fontsize=8)
    axes.grid(visible=False)
    if values.size <= MOST_FIGURES:
        for (row, place), value in np.ndenumerate(values):
            if np.isfinite(value):
                strong = abs(value) > 0.6 * reach
                color = "white" if strong else INK
                axes.text(place, row, f"{value:.2f}", ha="center", va="center", color=color)
    bar = figure.colorbar(shown, ax=axes, shrink=0.8)
    bar.outline.set_visible(False)
    bar.set_label(label)


def distribution(run: RunData, panel: Panel) -> Sized | None:
    """Return how to draw complementary cumulative distributions, by name."""
    name_field, list_field = panel.metrics
    found: dict[str, list[float]] = {}
    for record in chosen_records(run, panel):
        for part in parts_of(record, panel):
            numbers = numbers_in(field_of(part, list_field))
            if numbers:
                found[str(field_of(part, name_field))] = numbers
    if not found:
        return None

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        for (name, numbers), color in zip(found.items(), COLORS * 2, strict=False):
            ordered = np.sort(np.array(numbers))
            share = 1.0 - np.arange(len(ordered)) / len(ordered)
            label = f"{name}: mean {ordered.mean():.1f}, median {np.median(ordered):.1f}"
            axes.step(ordered, share, where="post", color=color, label=label)
        axes.set_xscale("symlog", linthresh=10)
        axes.set_ylim(0, 1)
        axes.set_xlabel(panel.label)
        axes.set_ylabel("share of episodes with at least")
        axes.legend(loc="best")

    return Sized(draw)


def boxes(run: RunData, panel: Panel) -> Sized | None:
    """Return how to draw lists of numbers as boxes, by name; None if there are none."""
    name_field, list_field = panel.metrics
    found = {
        str(field_of(part, name_field)): numbers
        for record in chosen_records(run, panel)
        for part in parts_of(record, panel)
        if (numbers := numbers_in(field_of(part, list_field)))
    }
    return draw_boxes(found, panel.label) if found else None


def draw_boxes(found: Mapping[str, Sequence[float]], label: str) -> Sized:
    """Return how to draw lists of numbers as boxes from quartile to quartile."""

    def draw(figure: Any) -> None:
        fill_boxes(figure.subplots(), found, label)

    return Sized(draw, (max(3.6, 1.1 * len(found) + 1.6), 3.3))


def fill_boxes(axes: Any, found: Mapping[str, Sequence[float]], label: str) -> None:
    """Draw lists of numbers as boxes into these axes."""
    places = range(1, len(found) + 1)
    drawn = axes.boxplot(
        list(found.values()), positions=list(places), widths=0.55, patch_artist=True,
        medianprops={"color": INK}, flierprops={"marker": ".", "markersize": 3, "alpha": 0.4},
    )  # fmt: skip
    for box, color in zip(drawn["boxes"], COLORS * 4, strict=False):
        box.set(facecolor=color, alpha=0.6)
    axes.set_xticks(list(places), [f"{name}\n{len(found[name]):,}" for name in found], fontsize=8)
    if max(max(numbers) for numbers in found.values()) > LINEAR:
        axes.set_yscale("symlog", linthresh=10)
        axes.yaxis.set_major_formatter(thousands)
    if min(min(numbers) for numbers in found.values()) >= 0:
        axes.set_ylim(bottom=0)
    axes.set_ylabel(label)


def estimates(run: RunData, panel: Panel) -> Sized | None:
    """Return how to draw bars with intervals, a field for each thing that is estimated."""
    name, value, low, high, what = panel.metrics
    found: dict[str, list[tuple[str, float, float, float]]] = {}
    for record in chosen_records(run, panel):
        for part in parts_of(record, panel):
            numbers = [field_of(part, one) for one in (value, low, high)]
            if all(is_number(one) for one in numbers):
                middle, bottom, top = (float(str(one)) for one in numbers)
                row = (str(field_of(part, name)), middle, bottom, top)
                found.setdefault(str(field_of(part, what)), []).append(row)
    if not found:
        return None

    every = dict.fromkeys(row[0] for rows in found.values() for row in rows)
    color = dict(zip(every, COLORS * 4, strict=False))

    def draw(figure: Any) -> None:
        fields = small_multiples(figure, len(found), across=2)
        for axes, (title, rows) in zip(fields, found.items(), strict=True):
            names = [row[0] for row in rows]
            middle = np.array([row[1] for row in rows])
            ends = np.array([[row[1] - row[2], row[3] - row[1]] for row in rows]).T
            colors = [color[name] for name in names]
            axes.bar(names, middle, yerr=ends, color=colors, alpha=0.75, capsize=4)
            axes.set_title(title, fontsize=8.5, fontweight="normal")
            axes.tick_params(axis="x", labelsize=8)
            axes.grid(visible=False, axis="x")

    return Sized(draw, (6.6, 2.6 * -(-len(found) // 2) + 0.3))


def scatter(run: RunData, panel: Panel) -> Sized | None:
    """Return how to draw points in the colors of their groups, None if there are none."""
    x, y, group = panel.metrics
    found: dict[str, list[tuple[float, float]]] = {}
    for record in chosen_records(run, panel):
        for part in parts_of(record, panel):
            place = (field_of(part, x), field_of(part, y))
            if all(is_number(one) for one in place):
                point = (float(str(place[0])), float(str(place[1])))
                found.setdefault(str(field_of(part, group)), []).append(point)
    if not found:
        return None

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        for number, (name, points) in enumerate(found.items()):
            places = np.array(points)
            axes.plot(
                places[:, 0], places[:, 1], "o^"[number // len(COLORS) % 2], linestyle="none",
                color=COLORS[number % len(COLORS)], markersize=3.2, alpha=0.55, label=name,
                markeredgewidth=0, rasterized=True,
            )  # fmt: skip
        axes.set_xlabel("first component")
        axes.set_ylabel("second component")
        legend_below(figure)

    return Sized(draw, (5.6, 4.6))


Edge = tuple[str, str, str]
"""Where a line begins, where it ends, and its group."""
INCHES_PER_NAME = 0.115
WIDTH = 9.5
PLACES = (0.0, 1.0, 2.0)


def graph(run: RunData, panel: Panel) -> Sized | None:
    """Return how to draw three columns of names joined by lines, None if there are none.

    The panel's fields are lists of names, one name, lists of names, and the group that colors.
    """
    begins, middle, ends, group = panel.metrics
    left: list[Edge] = []
    right: list[Edge] = []
    for record in chosen_records(run, panel):
        for part in parts_of(record, panel):
            name, of = str(field_of(part, middle)), str(field_of(part, group))
            left += [(one, name, of) for one in _names(field_of(part, begins))]
            right += [(name, one, of) for one in _names(field_of(part, ends))]
    if not left:
        return None
    columns = (
        list(dict.fromkeys(edge[0] for edge in left)),
        list(dict.fromkeys(edge[1] for edge in left)),
        list(dict.fromkeys(edge[1] for edge in right)),
    )
    groups = list(dict.fromkeys(edge[2] for edge in left))

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        axes.set_axis_off()
        heights = [_heights(names) for names in columns]
        for side, edges in enumerate((left, right)):
            for begin, end, of in dict.fromkeys(edges):
                axes.plot(
                    PLACES[side : side + 2],
                    (heights[side][begin], heights[side + 1][end]),
                    color=COLORS[groups.index(of) % len(COLORS)],
                    linewidth=0.5,
                    alpha=0.55,
                    zorder=1,
                )
        _write_names(axes, heights, {edge[1]: groups.index(edge[2]) for edge in left})
        for number, of in enumerate(groups):
            axes.plot([], [], color=COLORS[number % len(COLORS)], label=of)
        axes.set_xlim(-0.55, 2.5)
        figure.legend(loc="outside lower center", ncols=4)

    return Sized(draw, (WIDTH, INCHES_PER_NAME * max(map(len, columns)) + 1.2))


def _names(value: object) -> list[str]:
    return [str(one) for one in value] if isinstance(value, list) else []


def _heights(names: list[str]) -> dict[str, float]:
    """Spread names evenly over the height, from the top down."""
    last = max(len(names) - 1, 1)
    return {name: 1.0 - place / last for place, name in enumerate(names)}


def _write_names(axes: Any, heights: list[dict[str, float]], groups: dict[str, int]) -> None:
    sides = ("right", "center", "left")
    shifts = (-0.02, 0.0, 0.02)
    for side, named in enumerate(heights):
        for name, height in named.items():
            color = COLORS[groups[name] % len(COLORS)] if side == 1 else INK
            axes.text(
                PLACES[side] + shifts[side],
                height,
                name,
                ha=sides[side],
                va="center",
                fontsize=5.5,
                color=color,
                bbox={"facecolor": CARD, "edgecolor": "none", "pad": 0.4},
                zorder=2,
            )

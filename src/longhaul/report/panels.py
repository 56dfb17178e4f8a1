"""The plots a task asks for, drawn from its description of them."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from longhaul.core.metrics import Panel
from longhaul.report.curves import (
    labels_of,
    legend_below,
    over_steps,
    plot_goal,
    plot_line,
    small_multiples,
)
from longhaul.report.panel_shapes import (
    Sized,
    area,
    boxes,
    chosen_records,
    distribution,
    estimates,
    field_of,
    graph,
    matrix,
    numbers_in,
    overview,
    parts_of,
    scatter,
)
from longhaul.report.panel_tracks import episodes, moments, tracks
from longhaul.report.run_data import RunData
from longhaul.report.statistics import Numbers, Row, Series, column, is_number
from longhaul.report.style import COLORS, FAINT, INK, LIGHT, Chart, thousands

MOST_HISTOGRAMS = 12
MOST_EVEN = 200
"""Highest bar of a histogram with a linear scale."""
SECTORS = 12
FLAT = 0.25
"""Share of a panel's height below which its curves look flat."""
SHAPES: dict[str, Callable[[RunData, Panel], Sized | None]] = {
    "area": area,
    "matrix": matrix,
    "graph": graph,
    "distribution": distribution,
    "overview": overview,
    "boxes": boxes,
    "estimates": estimates,
    "scatter": scatter,
    "episodes": episodes,
    "tracks": tracks,
    "moments": moments,
}


def panel_charts(run: RunData) -> list[Chart]:
    """Return a chart for every panel the run has data for."""
    made = (panel_chart(run, panel) for panel in run.panels)
    return [chart for chart in made if chart is not None]


def panel_chart(run: RunData, panel: Panel) -> Chart | None:
    """Return the chart of one panel, or None if it has no data."""
    match panel.kind:
        case "lines":
            return _lines(run, panel)
        case "spans":
            return _spans(run, panel)
        case "histogram":
            return _histograms(run, panel)
        case "polar":
            return _polar(run, panel)
        case "map":
            return _map(run, panel)
        case "bars":
            return _bars(run, panel)
        case kind:
            found = SHAPES[kind](run, panel)
            return None if found is None else _chart(panel, found.draw, found.size)


def file_name(panel: Panel) -> str:
    """Return the name of a panel's file without its ending."""
    return panel.name or re.sub(r"[^a-z0-9]+", "-", panel.title.lower()).strip("-") or "panel"


def _chart(panel: Panel, draw: Any, size: tuple[float, float] = (6.6, 3.3)) -> Chart:
    return Chart(file_name(panel), panel.title, draw, panel.note, size)


def _lines(run: RunData, panel: Panel) -> Chart | None:
    left = [(name, column(run.rows, name)) for name in panel.metrics]
    right = [(name, column(run.rows, name)) for name in panel.right]
    left, right = ([(name, s) for name, s in side if len(s)] for side in (left, right))
    if not any(_is_drawn(name, series) for name, series in left):
        return None

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        labels = labels_of([name for name, _ in left])
        for (name, series), label, color in zip(left, labels, COLORS, strict=False):
            style = "--" if name in panel.dashed else "-"
            plot_line(axes, series, color=color, label=label, style=style)
        if run.score in panel.metrics:
            plot_goal(axes, run)
        over_steps(axes)
        _plot_marks(axes, run, panel)
        if panel.limits is not None:
            axes.set_ylim(sensible_limits(panel.limits, [series for _, series in left]))
        if right:
            other = axes.twinx()
            other.grid(visible=False)
            other.spines["right"].set_visible(True)
            colors = COLORS[len(left) :] + COLORS
            names = labels_of([name for name, _ in right])
            for (_, series), label, color in zip(right, names, colors, strict=False):
                plot_line(other, series, color=color, label=f"{label} (right)", style="--")
            other.set_ylabel(names[0] if len(names) == 1 else "")
            axes.set_ylabel(labels[0] if len(labels) == 1 else "")
        if len(left) + len(right) > 1 or len(axes.get_legend_handles_labels()[1]) > 1:
            legend_below(figure, most=3)
        else:
            axes.set_ylabel(labels[0])

    return _chart(panel, draw)


def _plot_marks(axes: Any, run: RunData, panel: Panel) -> None:
    """Draw the panel's levels, and a line at each step where its border metric changed."""
    for (name, height), style in zip(panel.levels, ("--", ":") * 4, strict=False):
        axes.axhline(height, color=FAINT, linestyle=style, linewidth=1, label=name)
    series = column(run.rows, panel.borders)
    for border in series.steps[1:][np.diff(series.values) != 0]:
        axes.axvline(border, color=FAINT, linestyle=":", linewidth=1, label="_border")


def sensible_limits(limits: tuple[float, float], found: Sequence[Series]) -> tuple[float, float]:
    """Return a panel's limits, or narrower ones if its curves would look flat between them."""
    values = np.concatenate([series.values for series in found])
    low, high = float(values.min()), float(values.max())
    whole = limits[1] - limits[0]
    if high - low > FLAT * whole:
        return limits
    room = max((high - low) * 0.2, whole * 0.02)
    return max(limits[0], low - room), min(limits[1], high + room)


def _is_drawn(name: str, series: Series) -> bool:
    """Whether to draw a line: a metric always, a setting only if it changed."""
    return len(series) > 0 and ("/" in name or bool(np.ptp(series.values)))


def _spans(run: RunData, panel: Panel) -> Chart | None:
    """Draw a metric, its threshold, and the stretches in which a third one is on."""
    value = column(run.rows, panel.metrics[0])
    if not len(value):
        return None
    threshold = column(run.rows, panel.metrics[1]) if len(panel.metrics) > 1 else None
    active = column(run.rows, panel.metrics[2]) if len(panel.metrics) > 2 else None
    bars = [(name, column(run.rows, name)) for name in panel.right]

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        plot_line(axes, value, color=COLORS[0], label=panel.metrics[0])
        if threshold is not None and len(threshold):
            plot_line(axes, threshold, color=COLORS[1], label="threshold", style="--")
        if active is not None:
            for begin, end in stretches(active.steps, active.values > 0):
                axes.axvspan(begin, end, color=COLORS[1], alpha=LIGHT / 1.5, linewidth=0)
        over_steps(axes)
        for name, series in bars:
            if len(series):
                other = axes.twinx()
                other.grid(visible=False)
                other.bar(
                    series.steps,
                    series.values,
                    width=0.6 * float(np.diff(series.steps).mean() if len(series) > 1 else 1),
                    color=FAINT,
                    alpha=0.5,
                    label=f"{name} (right)",
                )
        legend_below(figure, most=3)

    return _chart(panel, draw)


def stretches(steps: Sequence[float] | Any, on: Sequence[bool] | Any) -> list[tuple[float, float]]:
    """Return where a flag is on, from its first step to the step it goes off again."""
    found: list[tuple[float, float]] = []
    begin: float | None = None
    for step, is_on in zip(steps, on, strict=True):
        if is_on and begin is None:
            begin = float(step)
        elif not is_on and begin is not None:
            found.append((begin, float(step)))
            begin = None
    if begin is not None:
        found.append((begin, float(steps[-1])))
    return found


@dataclass(frozen=True, slots=True)
class Pile:
    """The numbers of one record, sorted into bins."""

    label: str
    iteration: int | None
    counts: NDArray[np.int64]

    @property
    def total(self) -> int:
        """How many there are."""
        return int(self.counts.sum())


def piles(run: RunData, panel: Panel) -> tuple[list[Pile], Numbers]:
    """Return a pile per record, and the edges they share."""
    found: list[tuple[Row, list[float]]] = []
    for record in chosen_records(run, panel):
        parts = parts_of(record, panel)
        values = [v for part in parts for v in numbers_in(field_of(part, panel.metrics[0]))]
        if values:
            found.append((record, values))
    if not found:
        return [], np.zeros(0)
    every = np.array([value for _, values in found for value in values])
    edges = np.array(panel.bins) if panel.bins else np.histogram_bin_edges(every[every >= 0], 20)
    totals = {row.get("iteration"): row.get(panel.total) for row in run.rows if panel.total in row}
    made = []
    for record, values in found:
        times = np.array(values)
        counts, _ = np.histogram(np.clip(times[times >= 0], edges[0], edges[-1]), edges)
        iteration = record.get("iteration")
        total = totals.get(iteration)
        listed = len(values)
        counts[-1] += int((times < 0).sum())
        counts[-1] += max(int(total) - listed, 0) if isinstance(total, (int, float)) else 0
        label = str(record.get("suite", "")) if iteration is None else f"iteration {iteration}"
        made.append(Pile(label, iteration if isinstance(iteration, int) else None, counts))
    return made, edges


def _histograms(run: RunData, panel: Panel) -> Chart | None:
    """Draw a histogram per record, the last ones if there are many."""
    found, edges = piles(run, panel)
    found = found[-MOST_HISTOGRAMS:]
    if not found:
        return None
    top = max(int(pile.counts.max()) for pile in found)

    def draw(figure: Any) -> None:
        grid = small_multiples(
            figure, len(found), across=min(len(found), 4), sharey=True, sharex=True
        )
        for axes, pile in zip(grid, found, strict=True):
            _draw_pile(axes, pile, edges, top)
        figure.supxlabel(panel.label or panel.metrics[0], fontsize=8.5)

    return _chart(panel, draw, (7.2, 1.8 * -(-len(found) // 4) + 0.6))


def _draw_pile(axes: Any, pile: Pile, edges: Numbers, top: int) -> None:
    axes.stairs(pile.counts, edges, fill=True, color=COLORS[0])
    if top > MOST_EVEN:
        # Large bars would hide the small ones on a linear scale.
        axes.set_yscale("symlog", linthresh=10)
    else:
        axes.yaxis.get_major_locator().set_params(integer=True, nbins=4)
    axes.yaxis.set_major_formatter(thousands)
    axes.set_ylim(bottom=0)
    axes.set_title(f"{pile.label}: {pile.total:,}", fontsize=8.5, fontweight="normal")
    axes.tick_params(labelsize=7.5)


def single_histograms(run: RunData, panel: Panel) -> list[Chart]:
    """Return a separate chart for each iteration's record, in a folder named like the panel."""
    found, edges = piles(run, panel)
    name = file_name(panel)
    charts = []
    for pile in (pile for pile in found[-MOST_HISTOGRAMS:] if pile.iteration is not None):

        def draw(figure: Any, pile: Pile = pile) -> None:
            axes = figure.subplots()
            _draw_pile(axes, pile, edges, int(pile.counts.max()))
            axes.set_xlabel(panel.label or panel.metrics[0])

        path = f"{name}/iter{pile.iteration:03d}_{name}"
        charts.append(Chart(path, f"{panel.title}, {pile.label}", draw, size=(4.6, 2.8)))
    return charts


def _pairs(run: RunData, panel: Panel) -> list[tuple[float, float]]:
    first, second = panel.metrics[0], panel.metrics[1] if len(panel.metrics) > 1 else ""
    found = []
    for record in chosen_records(run, panel):
        for part in parts_of(record, panel):
            one = field_of(part, first)
            other = field_of(part, second) if second else 1.0
            if is_number(one) and is_number(other):
                found.append((float(one), float(other)))  # type: ignore[arg-type]
    return found


def _polar(run: RunData, panel: Panel) -> Chart | None:
    pairs = _pairs(run, panel)
    if not pairs:
        return None
    angles, weights = np.radians([angle for angle, _ in pairs]), [weight for _, weight in pairs]
    edges = np.linspace(0, 2 * np.pi, SECTORS + 1)
    sums, _ = np.histogram(angles % (2 * np.pi), edges, weights=weights)

    def draw(figure: Any) -> None:
        axes = figure.subplots(subplot_kw={"projection": "polar"})
        axes.bar(
            edges[:-1] + np.pi / SECTORS,
            sums,
            width=2 * np.pi / SECTORS * 0.94,
            color=COLORS[0],
            alpha=0.85,
        )
        axes.set_theta_zero_location("E")
        axes.set_yticks(rings(float(sums.max())))
        axes.tick_params(labelsize=8)
        empty = int(np.argmin(sums))  # where the labels of the rings cover nothing
        axes.set_rlabel_position((empty + 0.5) * 360 / SECTORS)

    return _chart(panel, draw, (4.2, 4.0))


def rings(top: float) -> list[float]:
    """Return two to five round numbers up to `top`, few enough to fit side by side."""
    if top <= 0:
        return [1.0]
    size = 10.0 ** math.floor(math.log10(top))
    step = next(part * size for part in (0.2, 0.5, 1.0, 2.0, 5.0) if 5 * part * size >= top)
    return [step * number for number in range(1, int(top / step + 1e-9) + 1)]


def _map(run: RunData, panel: Panel) -> Chart | None:
    pairs = _pairs(run, panel)
    if not pairs:
        return None
    x, y = np.array(pairs).T
    reach = max(panel.bins[-1] if panel.bins else 0.0, float(np.abs([x, y]).max())) * 1.02

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        shown = axes.hist2d(x, y, 40, range=[[-reach, reach]] * 2, cmap="magma_r", cmin=1)
        shown[3].set_rasterized(True)  # 1,600 vector squares would enlarge the page
        bar = figure.colorbar(shown[3], ax=axes, shrink=0.8)
        bar.set_label("count")
        bar.outline.set_visible(False)
        if panel.bins:
            turn = np.linspace(0, 2 * np.pi, 200)
            axes.plot(
                panel.bins[-1] * np.cos(turn), panel.bins[-1] * np.sin(turn), color=INK, linewidth=1
            )
        axes.set_aspect("equal")
        axes.set_xlabel("x")
        axes.set_ylabel("y")

    return _chart(panel, draw, (4.8, 4.0))


def _bars(run: RunData, panel: Panel) -> Chart | None:
    counts: dict[str, float] = {}
    counted = panel.metrics[1] if len(panel.metrics) > 1 else ""
    for record in chosen_records(run, panel):
        for part in parts_of(record, panel):
            name = field_of(part, panel.metrics[0])
            amount = field_of(part, counted) if counted else 1.0
            if isinstance(amount, (int, float)):
                key = "none" if name is None else str(name)
                counts[key] = counts.get(key, 0.0) + amount
    if not set(counts) - {"none"}:
        return None
    total = sum(counts.values()) or 1.0
    names = sorted(counts, key=lambda name: counts[name])

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        values = [counts[name] for name in names]
        bars = axes.barh(names, values, color=COLORS[0])
        axes.bar_label(bars, [f"{v:g} ({100 * v / total:.0f} %)" for v in values], padding=3)
        axes.margins(x=0.2)
        axes.grid(visible=False, axis="y")

    return _chart(panel, draw, (6.6, 0.45 * len(names) + 0.9))

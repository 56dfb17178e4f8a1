"""Panels of training episodes one by one, and of the steps and moments of one episode."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from longhaul.core.metrics import Panel
from longhaul.report.curves import legend_below
from longhaul.report.panel_shapes import Sized, chosen_records, field_of
from longhaul.report.pictures import read_png
from longhaul.report.run_data import RunData
from longhaul.report.statistics import Numbers, Row, is_number
from longhaul.report.style import COLORS, FAINT, INK

SMOOTHED = 50
"""Episodes over which a mean moves."""
MOST_DOTS = 5000


def episodes(run: RunData, panel: Panel) -> Sized | None:
    """Return how to draw fields of every training episode, each with its moving mean."""
    found = [
        (name, np.array([field_of(row, name) for row in run.episodes], np.float64))
        for name in panel.metrics
        if run.episodes and all(is_number(field_of(row, name)) for row in run.episodes)
    ]
    if not found:
        return None
    borders = _episode_borders(run, panel.borders)

    def draw(figure: Any) -> None:
        every = figure.subplots(len(found), 1, sharex=True, squeeze=False)[:, 0]
        for number, (axes, (name, values)) in enumerate(zip(every, found, strict=True)):
            numbers = np.arange(1, len(values) + 1)
            shown = slice(None, None, -(-len(values) // MOST_DOTS))
            axes.plot(
                numbers[shown], values[shown], ".", color=COLORS[number], alpha=0.3, markersize=3,
                rasterized=True,
            )  # fmt: skip
            mean = "" if number else f"mean of the last {SMOOTHED}"
            axes.plot(numbers, moving_mean(values, SMOOTHED), color=INK, label=mean)
            for border in borders:
                axes.axvline(border + 0.5, color=FAINT, linestyle=":", linewidth=1)
            axes.set_ylabel(name.rpartition(".")[2].replace("_", " "))
        every[-1].set_xlabel("training episode")
        every[-1].xaxis.get_major_locator().set_params(integer=True)
        legend_below(figure)

    return Sized(draw, (6.6, 1.9 * len(found) + 0.6))


def moving_mean(values: Numbers, count: int) -> Numbers:
    """Return the mean of each value and those before it, of `count` at most."""
    sums = np.concatenate([[0.0], np.cumsum(values)])
    ends = np.arange(1, len(values) + 1)
    begins = np.maximum(ends - count, 0)
    means: Numbers = (sums[ends] - sums[begins]) / (ends - begins)
    return means


def _episode_borders(run: RunData, metric: str) -> list[int]:
    """Return after how many episodes a metric changed."""
    value = {row.get("iteration"): row.get(metric) for row in run.rows} if metric else {}
    at = [value.get(row.get("iteration")) for row in run.episodes]
    return [number for number in range(1, len(at)) if at[number] != at[number - 1]]


MOST_LINES = 24
"""Names that a track of words shows, the most frequent ones."""
LINE_INCHES, CURVE_INCHES = 0.15, 0.9
MOST_COLUMNS = 800
"""Of a heat map: what more steps there are is put together, so none is lost between pixels."""


def tracks(run: RunData, panel: Panel) -> Sized | None:
    """Return how to draw what one episode's steps had, field under field."""
    rows = chosen_records(run, panel)
    place, *fields = panel.metrics
    steps = [row for row in rows if is_number(row.get(place))]
    if len(steps) < 2:
        return None
    numbers = np.array([float(row[place]) for row in steps])
    made = [(name, *_track([field_of(row, name) for row in steps])) for name in fields]
    made = [one for one in made if one[2].size]
    if not made:
        return None
    inches = [LINE_INCHES * len(names) + 0.15 if names else CURVE_INCHES for _, names, _ in made]
    reach = (numbers[0] - 0.5, numbers[-1] + 0.5)

    def draw(figure: Any) -> None:
        every = figure.subplots(
            len(made), 1, sharex=True, squeeze=False, height_ratios=inches
        )[:, 0]  # fmt: skip
        for axes, (title, names, values) in zip(every, made, strict=True):
            axes.set_title(title, fontsize=8.5, fontweight="normal")
            if not names:
                axes.plot(numbers, values, color=COLORS[0], linewidth=1.1)
                continue
            axes.imshow(
                values, aspect="auto", cmap="Blues", vmin=0.0, vmax=max(float(values.max()), 1e-9),
                extent=(*reach, len(names) - 0.5, -0.5), interpolation="nearest",
            )  # fmt: skip
            axes.set_yticks(range(len(names)), names, fontsize=6.5)
            axes.grid(visible=False)
        every[-1].set_xlim(*reach)
        every[-1].set_xlabel(place)

    return Sized(draw, (9.5, sum(inches) + 0.32 * len(made) + 0.8))


def _track(values: Sequence[object]) -> tuple[list[str], Numbers]:
    """Return a track's names, none for a curve, and its values [names, steps] or [steps]."""
    first = next((value for value in values if value is not None), None)
    if isinstance(first, Mapping):
        names = [str(name) for name in first]
        parts = [value if isinstance(value, Mapping) else {} for value in values]
        shares = np.array([[float(part.get(n, 0.0)) for part in parts] for n in names])
        edges = _edges(len(values))
        return names, np.add.reduceat(shares, edges, 1) / np.diff([*edges, len(values)])
    if isinstance(first, (list, str)):
        held = [{value} if isinstance(value, str) else set(_words(value)) for value in values]
        counts = Counter(word for words in held for word in words)
        # What holds in every step says nothing about any.
        varied = [word for word, count in counts.most_common() if count < len(values)]
        names = sorted(varied[:MOST_LINES])
        there = np.array([[float(name in words) for words in held] for name in names])
        return names, np.maximum.reduceat(there, _edges(len(values)), 1) if names else there
    numbers = [float(one) if isinstance(one, (int, float)) else np.nan for one in values]
    return [], np.array(numbers if np.isfinite(numbers).any() else [])


def _edges(steps: int) -> NDArray[np.int64]:
    """Return where each column of a heat map begins."""
    return np.linspace(0, steps, min(steps, MOST_COLUMNS), endpoint=False).astype(np.int64)


def _words(value: object) -> list[str]:
    return [str(one) for one in value] if isinstance(value, list) else []


MOMENT_SIZE = (11.0, 3.1)
THINNEST, THICKEST = 0.3, 3.5


def moments(run: RunData, panel: Panel) -> Sized | None:
    """Return how to draw moments: a picture, and beside it what led to what."""
    title, picture, links, ends, order = panel.metrics
    shown = []
    for row in chosen_records(run, panel):
        path = _inside(run, field_of(row, picture))
        joined, reached = _mappings(field_of(row, links)), _mappings(field_of(row, ends))
        if joined and reached:
            shown.append((str(field_of(row, title)), path, joined, reached))
    if not shown:
        return None
    groups = dict.fromkeys(
        group for row in chosen_records(run, panel) for group in _words(field_of(row, order))
    )
    colors = {group: COLORS[n % len(COLORS)] for n, group in enumerate(groups)}

    def draw(figure: Any) -> None:
        grid = figure.subplots(len(shown), 2, squeeze=False, width_ratios=(1.15, 1.0))
        for (left, right), (words, path, joined, reached) in zip(grid, shown, strict=True):
            for axes in (left, right):
                axes.set_axis_off()
            left.set_title(words, fontsize=9)
            if path is not None:
                left.imshow(read_png(path), interpolation="antialiased")
            _draw_links(right, joined, reached, colors)
        for group, color in colors.items():
            grid[0, 1].plot([], [], color=color, label=group)
        legend_below(figure)

    return Sized(draw, (MOMENT_SIZE[0], MOMENT_SIZE[1] * len(shown) + 0.7))


def _draw_links(
    axes: Any, links: Sequence[Row], ends: Sequence[Row], colors: Mapping[str, str]
) -> None:
    begins = list(dict.fromkeys(str(link["from"]) for link in links))
    low = {name: place for place, name in enumerate(begins)}
    high = {str(end["name"]): place for place, end in enumerate(ends)}
    group = {str(end["name"]): str(end["group"]) for end in ends}
    scale = (len(begins) - 1 or 1, len(ends) - 1 or 1)
    most = max(float(link["weight"]) for link in links) or 1.0
    for link in links:
        begin, end = low[str(link["from"])] / scale[0], high[str(link["to"])] / scale[1]
        width = THINNEST + (THICKEST - THINNEST) * float(link["weight"]) / most
        color = colors.get(group[str(link["to"])], INK)
        axes.plot((0.0, 1.0), (begin, end), color=color, linewidth=width, alpha=0.6)
    for name, number in low.items():
        axes.text(-0.02, number / scale[0], name, ha="right", va="center", fontsize=7)
    for row in ends:
        place = high[str(row["name"])] / scale[1]
        words = f"{row['name']}  {float(row['value']):.2f}"
        color = colors.get(str(row["group"]), INK)
        axes.text(1.02, place, words, ha="left", va="center", fontsize=7, color=color)
    axes.set_xlim(-0.75, 1.75)
    axes.set_ylim(1.06, -0.06)


def _mappings(value: object) -> list[Row]:
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, list) else []


def _inside(run: RunData, name: object) -> Path | None:
    """Return the file of the run directory that a record names, None if there is none."""
    home = run.directory.path.resolve()
    path = (home / str(name)).resolve()
    return path if path.is_relative_to(home) and path.is_file() else None

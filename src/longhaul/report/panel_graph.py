"""A panel that draws rules: what they need, what they do, what that brings."""

from __future__ import annotations

from typing import Any

from longhaul.core.panel import Panel
from longhaul.report.gathered import RunData
from longhaul.report.panel_records import chosen_records, field_of, parts_of
from longhaul.report.panel_shapes import Sized
from longhaul.report.style import CARD, COLOURS, INK

Edge = tuple[str, str, str]
"""Where a line begins, where it ends, and its group."""
INCHES_PER_NAME = 0.115
WIDTH = 9.5
PLACES = (0.0, 1.0, 2.0)


def graph(run: RunData, panel: Panel) -> Sized | None:
    """Return how to draw three columns of names joined by lines, None if there are none.

    The panel's fields are lists of names, one name, lists of names, and the group that colours.
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
        for column, edges in enumerate((left, right)):
            for begin, end, of in dict.fromkeys(edges):
                axes.plot(
                    PLACES[column : column + 2],
                    (heights[column][begin], heights[column + 1][end]),
                    color=COLOURS[groups.index(of) % len(COLOURS)],
                    linewidth=0.5,
                    alpha=0.55,
                    zorder=1,
                )
        _write_names(axes, heights, {edge[1]: groups.index(edge[2]) for edge in left})
        for number, of in enumerate(groups):
            axes.plot([], [], color=COLOURS[number % len(COLOURS)], label=of)
        axes.set_xlim(-0.55, 2.5)
        figure.legend(loc="outside lower center", ncols=4)

    return Sized(draw, (WIDTH, INCHES_PER_NAME * max(map(len, columns)) + 1.2))


def _names(value: object) -> list[str]:
    return [str(one) for one in value] if isinstance(value, list) else []


def _heights(names: list[str]) -> dict[str, float]:
    """Spread names over the same height, whatever their number, from the top down."""
    last = max(len(names) - 1, 1)
    return {name: 1.0 - place / last for place, name in enumerate(names)}


def _write_names(axes: Any, heights: list[dict[str, float]], groups: dict[str, int]) -> None:
    sides = ("right", "center", "left")
    shifts = (-0.02, 0.0, 0.02)
    for column, named in enumerate(heights):
        for name, height in named.items():
            colour = COLOURS[groups[name] % len(COLOURS)] if column == 1 else INK
            axes.text(
                PLACES[column] + shifts[column],
                height,
                name,
                ha=sides[column],
                va="center",
                fontsize=5.5,
                color=colour,
                bbox={"facecolor": CARD, "edgecolor": "none", "pad": 0.4},
                zorder=2,
            )

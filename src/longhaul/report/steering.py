"""Timelines of the changes by schedules and their reasons."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from longhaul.report.curves import over_steps, plot_line
from longhaul.report.run_data import RunData
from longhaul.report.statistics import Row, Series, column, is_number, names_in
from longhaul.report.style import COLORS, FAINT, Chart
from longhaul.report.summary import short

GATES = ("gate/", "curriculum/", "starts/", "tail/")
MOST_LANES = 8
MOST_REASONS = 6


@dataclass(frozen=True, slots=True)
class Turn:
    """A change of a setting, with its reason."""

    step: float
    iteration: int
    controller: str
    setting: str
    old: Any
    new: Any
    why: str


def turns(events: Sequence[Row]) -> list[Turn]:
    """Return every change of a setting in the order of the run."""
    found: list[Turn] = []
    for row in events:
        if row.get("event") != "schedule":
            continue
        found += [
            Turn(
                float(row.get("env_steps", 0)),
                int(row.get("iteration", 0)),
                str(row.get("controller", "")),
                str(move.get("setting", "")),
                move.get("old"),
                move.get("new"),
                str(row.get("why", "")),
            )
            for move in row.get("moves", [])
        ]
    return found


def steering_charts(run: RunData) -> list[Chart]:
    """Return the timelines of settings and of gates, if there are any."""
    made = (settings_chart(run), gates_chart(run))
    return [chart for chart in made if chart is not None]


def settings_chart(run: RunData) -> Chart | None:
    """Return one lane per setting that moved, its reasons numbered where they are few."""
    moved: dict[str, list[Turn]] = {}
    for turn in turns(run.events):
        if is_number(turn.new) and is_number(turn.old):
            moved.setdefault(turn.setting, []).append(turn)
    lanes = dict(list(moved.items())[:MOST_LANES])
    if not lanes:
        return None
    end = float(run.last.get("env_steps", 0))

    def draw(figure: Any) -> None:
        grid = figure.subplots(len(lanes), 1, sharex=True, squeeze=False)[:, 0]
        for axes, (setting, changes), color in zip(grid, lanes.items(), COLORS, strict=False):
            steps = [0.0, *(turn.step for turn in changes), end]
            values = [changes[0].old, *(turn.new for turn in changes), changes[-1].new]
            thin = Series(np.array(steps), np.array(values, np.float64)).thinned()
            axes.step(thin.steps, thin.values, where="post", color=color)
            axes.set_title(setting, fontsize=9, fontweight="normal")
            if len(changes) <= MOST_REASONS:
                _number(axes, changes)
        over_steps(grid[-1])

    return Chart(
        "settings",
        "What schedules changed",
        draw,
        note=_reasons(lanes),
        size=(6.6, 1.35 * len(lanes) + 0.5),
    )


def _number(axes: Any, changes: Sequence[Turn]) -> None:
    for number, turn in enumerate(changes, start=1):
        axes.annotate(
            str(number),
            (turn.step, turn.new),
            textcoords="offset points",
            xytext=(0, 5),
            ha="center",
            fontsize=7.5,
            color=FAINT,
        )
    axes.margins(y=0.25)


def _reasons(lanes: dict[str, list[Turn]]) -> str:
    """Return the reasons of settings that changed only a few times, numbered as in the chart."""
    reasons = []
    for setting, changes in lanes.items():
        if len(changes) <= MOST_REASONS:
            words = "; ".join(
                f"({number}) {turn.why or 'no reason given'}"
                for number, turn in enumerate(changes, start=1)
            )
            reasons.append(f"{setting}: {words}")
        else:
            reason = f"; reason of the last: {changes[-1].why}" if changes[-1].why else ""
            reasons.append(
                f"{setting}: {len(changes)} changes, from {short(changes[0].old)} to "
                f"{short(changes[-1].new)}{reason}"
            )
    return ". ".join(reasons)


def gates_chart(run: RunData) -> Chart | None:
    """Return the metrics of gates, phases and queues."""
    names = [name for group in GATES for name in names_in(run.rows, group)]
    found = [(name, column(run.rows, name)) for name in names]
    found = [(name, series) for name, series in found if len(series) > 1][:MOST_LANES]
    if not found:
        return None

    def draw(figure: Any) -> None:
        grid = figure.subplots(len(found), 1, sharex=True, squeeze=False)[:, 0]
        for axes, (name, series), color in zip(grid, found, COLORS, strict=False):
            plot_line(axes, series, color=color)
            axes.set_title(name, fontsize=9, fontweight="normal")
        over_steps(grid[-1])

    return Chart("gates", "Gates, phases and queues", draw, size=(6.6, 1.25 * len(found) + 0.5))

"""One sheet about all arms of a comparison, and the task's own panels arm beside arm."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from longhaul.core.metrics import Panel
from longhaul.report.comparison import Comparison, Entry, on_shared_steps, overlay
from longhaul.report.curves import small_multiples
from longhaul.report.panel_shapes import fill_boxes
from longhaul.report.panels import file_name, panel_chart
from longhaul.report.statistics import column
from longhaul.report.style import COLORS, FAINT, Chart, thousands

Arms = dict[str, list[Entry]]
Field = Callable[[Any, Arms], None]
RETURN, LENGTH = "rollout/ep_rew_mean", "rollout/ep_len_mean"
BINS, THRESHOLDS = 24, (0.10, 0.25, 0.50, 0.75, 0.90)


def sheet_charts(comparison: Comparison) -> list[Chart]:
    """Return the sheet, and a chart for each panel of the task that is to be compared."""
    arms: Arms = {}
    for entry in comparison.entries:
        arms.setdefault(entry.arm, []).append(entry)
    panels = [one for one in comparison.entries[0].run.panels if one.is_compared]
    own = [chart for panel in panels for chart in _panel_charts(arms, panel)]
    return [_sheet(arms), _bars(comparison), *own]


def _bars(comparison: Comparison) -> Chart:
    """Return the mean of each arm, and of the players that learned nothing, with its interval."""
    rows = [(one.arm, one.mean) for one in comparison.arms]
    rows += [(one.name, one.mean) for one in comparison.anchors]
    colors = [*(COLORS * 4)[: len(comparison.arms)], *[FAINT] * len(comparison.anchors)]

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        places = range(len(rows))
        values = [mean.value for _, mean in rows]
        ends = [[m.value - m.low for _, m in rows], [m.high - m.value for _, m in rows]]
        axes.barh(places, values, 0.65, xerr=ends, color=colors, alpha=0.75, capsize=3)
        axes.set_yticks(places, [name for name, _ in rows])
        axes.invert_yaxis()
        axes.grid(visible=False, axis="y")
        axes.set_xlabel("mean score")

    note = f"{comparison.line_words}; gray: players that learned nothing, over the same cases"
    size = (6.6, 0.36 * len(rows) + 1.1)
    title = "Mean scores"
    return Chart("compare-bars", title, draw, note if comparison.anchors else "", size)


def _sheet(arms: Arms) -> Chart:
    fields: dict[str, Field] = {
        "return in training, beyond the first arm's": _improvement,
        "steps of a training episode": _lengths,
        "share of episodes with at most this score": _cumulative,
        "share of episodes with about this score": _histogram,
        "score": lambda axes, found: fill_boxes(axes, _scores(found), ""),
        "share of episodes above this score": _thresholds,
    }

    def draw(figure: Any) -> None:
        every = small_multiples(figure, len(fields), across=3)
        for axes, (title, fill) in zip(every, fields.items(), strict=True):
            fill(axes, arms)
            axes.set_title(title, fontsize=8.5, fontweight="normal")
            axes.tick_params(labelsize=7.5)
        handles = [every[2].get_lines()[number] for number in range(len(arms))]
        figure.legend(handles, list(arms), loc="outside lower center", ncols=min(len(arms), 4))

    note = "scores are of the final evaluations of all runs; thresholds are their quantiles"
    return Chart("compare-sheet", "Arms side by side", draw, note, (10.5, 6.2))


def _scores(arms: Arms) -> dict[str, list[float]]:
    return {
        arm: [score for entry in own for score in entry.scores.values()]
        for arm, own in arms.items()
    }


def _improvement(axes: Any, arms: Arms) -> None:
    curves = {arm: [column(entry.run.rows, RETURN) for entry in own] for arm, own in arms.items()}
    first, *others = curves.values()
    axes.axhline(0, color=COLORS[0])
    for series, color in zip(others, COLORS[1:] * 4, strict=False):
        if all(len(one) > 1 for one in (*first, *series)):
            steps, values = on_shared_steps([*series, *first])
            gain = values[: len(series)].mean(axis=0) - values[len(series) :].mean(axis=0)
            axes.plot(steps, gain, color=color)
    axes.xaxis.set_major_formatter(thousands)


def _lengths(axes: Any, arms: Arms) -> None:
    for own, color in zip(arms.values(), COLORS * 4, strict=False):
        for entry in own:
            series = column(entry.run.rows, LENGTH).thinned()
            axes.plot(series.steps, series.values, color=color, linewidth=1.2)
    axes.xaxis.set_major_formatter(thousands)


def _cumulative(axes: Any, arms: Arms) -> None:
    for scores, color in zip(_scores(arms).values(), COLORS * 4, strict=False):
        ordered = np.sort(scores)
        share = np.arange(1, len(ordered) + 1) / len(ordered)
        axes.step(ordered, share, where="post", color=color)
    axes.set_ylim(0, 1.02)


def _histogram(axes: Any, arms: Arms) -> None:
    found = _scores(arms)
    edges = np.histogram_bin_edges(np.concatenate(list(found.values())), BINS)
    for scores, color in zip(found.values(), COLORS * 4, strict=False):
        weights = np.full(len(scores), 1 / len(scores))
        axes.hist(scores, edges, weights=weights, color=color, alpha=0.2)
        axes.hist(scores, edges, weights=weights, color=color, histtype="step")


def _thresholds(axes: Any, arms: Arms) -> None:
    found = _scores(arms)
    levels = np.unique(np.quantile(np.concatenate(list(found.values())), THRESHOLDS))
    width = 0.8 / len(found)
    for number, (scores, color) in enumerate(zip(found.values(), COLORS * 4, strict=False)):
        shares = (np.array(scores)[:, None] > levels).mean(axis=0)
        axes.bar(np.arange(len(levels)) + (number + 0.5) * width - 0.4, shares, width, color=color)
    axes.set_xticks(range(len(levels)), [f"{level:.4g}" for level in levels])
    axes.set_ylim(0, 1)


def _panel_charts(arms: Arms, panel: Panel) -> list[Chart]:
    """Return how the arms compare in a panel: lines in one field, other kinds side by side."""
    if panel.kind == "lines":
        found = [overlay(metric, arms) for metric in panel.metrics]
        return [chart for chart in found if chart is not None]
    parts = [(arm, panel_chart(own[0].run, panel)) for arm, own in arms.items()]
    drawn = [(arm, chart) for arm, chart in parts if chart is not None]
    return [_beside(panel, drawn)] if len(drawn) > 1 else []


def _beside(panel: Panel, drawn: Sequence[tuple[str, Chart]]) -> Chart:
    wide = sum(chart.size[0] for _, chart in drawn)
    tall = max(chart.size[1] for _, chart in drawn)

    def draw(figure: Any) -> None:
        widths = [chart.size[0] for _, chart in drawn]
        fields = figure.subfigures(1, len(drawn), squeeze=False, width_ratios=widths)[0]
        for field, (arm, chart) in zip(fields, drawn, strict=True):
            field.suptitle(arm, fontsize=9, color=FAINT)
            chart.draw(field)

    note = f"the first run of each arm; {panel.note}" if panel.note else "the first run of each arm"
    name = f"compare-{file_name(panel)}"
    return Chart(name, panel.title, draw, note, (wide, tall + 0.3))

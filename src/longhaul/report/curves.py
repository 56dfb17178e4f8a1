"""The plots of every run, independent of its task."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from longhaul.report.run_data import RunData
from longhaul.report.statistics import Series, bands, column, episode_series, names_in
from longhaul.report.style import COLORS, FAINT, LIGHT, Chart, thousands
from longhaul.runs.score import MEAN_RETURN

LOSSES = (
    ("train/policy_gradient_loss", "policy loss"),
    ("train/value_loss", "value loss"),
    ("train/entropy_loss", "entropy loss"),
    ("train/approx_kl", "approximate KL"),
    ("train/clip_fraction", "clip fraction"),
    ("train/explained_variance", "explained variance"),
    ("train/grad_norm", "gradient norm"),
    ("train/learning_rate", "learning rate"),
)
LETTERS_PER_INCH, LETTERS_OF_HANDLE = 11.0, 7
"""Letters per inch in a legend, and the width of a handle in letters."""
STAGES = ("collect", "learn", "evaluate", "checkpoint", "other")


def general_charts(run: RunData) -> list[Chart]:
    """Return the charts for which the run has data."""
    made = (
        learning_chart(run),
        evaluation_chart(run),
        distribution_chart(run),
        losses_chart(run),
        shares_chart(run),
        speed_chart(run),
    )
    return [chart for chart in made if chart is not None]


def over_steps(axes: Any) -> None:
    """Label the steps of a run below an axis."""
    axes.set_xlabel("steps")
    axes.xaxis.set_major_formatter(thousands)
    axes.margins(x=0.01)


def plot_line(axes: Any, series: Series, *, color: str, label: str = "", style: str = "-") -> None:
    """Draw a series; sparse values get markers, which keeps single ones visible."""
    thin = series.thinned()
    is_sparse = len(thin) <= 30
    axes.plot(
        thin.steps,
        thin.values,
        style,
        color=color,
        label=label,
        marker="o" if is_sparse else "",
        markersize=3.2,
        zorder=3 if is_sparse else 2,  # sparse values stay visible above dense ones
    )


def plot_bands(axes: Any, series: Series, *, color: str, label: str) -> bool:
    """Draw the median and the quantiles of many values; return whether there were enough."""
    found = bands(series)
    if found is None:
        return False
    low, lower, middle, upper, high = found.quantiles
    axes.fill_between(found.steps, low, high, color=color, alpha=LIGHT / 2, linewidth=0)
    axes.fill_between(found.steps, lower, upper, color=color, alpha=LIGHT, linewidth=0)
    axes.plot(found.steps, middle, color=color, label=label)
    return True


def plot_goal(axes: Any, run: RunData) -> None:
    """Draw the target of the task and the final evaluation."""
    target, final = run.measure.target, run.final
    if target is not None:
        axes.axhline(target, color=FAINT, linestyle=":", label=f"target {target:g}")
    if final is not None:
        axes.plot(
            [final.env_steps],
            [final.value],
            "D",
            color=COLORS[1],
            markersize=5,
            label="final evaluation",
            zorder=4,
        )


def learning_chart(run: RunData) -> Chart | None:
    """Return returns and lengths over the run with their quantiles."""
    returns = episode_series(run.episodes, run.rows, "episode_return")
    lengths = episode_series(run.episodes, run.rows, "length")
    means = column(run.rows, "rollout/ep_rew_mean")
    if not len(means):
        return None
    mean_lengths = column(run.rows, "rollout/ep_len_mean")
    smoothed = f"mean of the last {run.config.get('collect', {}).get('window', 100)}"

    def draw(figure: Any) -> None:
        top, bottom = figure.subplots(2, 1, sharex=True)
        parts = (
            (top, returns, means, "return", COLORS[0]),
            (bottom, lengths, mean_lengths, "length", COLORS[2]),
        )
        for axes, episodes, mean, name, color in parts:
            if plot_bands(axes, episodes, color=color, label="median, 25-75 %, 10-90 %"):
                plot_line(axes, mean, color=FAINT, label=smoothed, style="--")
            else:
                plot_line(axes, mean, color=color, label=smoothed)
            axes.set_ylabel(f"episode {name}")
        over_steps(bottom)
        figure.legend(*top.get_legend_handles_labels(), loc="outside lower center", ncols=2)

    return Chart("learning", "Returns and lengths of training episodes", draw, size=(6.6, 4.4))


def evaluation_chart(run: RunData) -> Chart | None:
    """Return the history of evaluations with intervals of the mean."""
    means = column(run.rows, "eval/mean_reward")
    if len(means) < 2:
        return None
    measured = [row for row in run.rows if "eval/mean_reward" in row]
    spread = column(measured, "eval/std_reward").values
    count = column(measured, "eval/episodes").values
    low, high = (column(measured, f"eval/{side}_reward").values for side in ("min", "max"))
    half = 1.96 * spread / np.sqrt(np.maximum(count, 1))
    score = column(run.rows, run.score) if run.score != "eval/mean_reward" else None

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        axes.fill_between(
            means.steps,
            low,
            high,
            color=COLORS[0],
            alpha=LIGHT / 2,
            linewidth=0,
            label="lowest to highest",
        )
        axes.errorbar(
            means.steps,
            means.values,
            half,
            color=COLORS[0],
            marker="o",
            markersize=3.5,
            capsize=2.5,
            linewidth=1.5,
            label="mean return, 95 % interval of the mean",
        )
        if run.score == MEAN_RETURN:
            plot_goal(axes, run)
        axes.set_ylabel("return")
        over_steps(axes)
        if score is not None and len(score):
            right = axes.twinx()
            right.grid(visible=False)
            right.spines["right"].set_visible(True)
            plot_line(right, score, color=COLORS[1], label=f"{run.score} (right)")
            right.set_ylabel(run.score)
            legend_below(figure)
        else:
            axes.legend(loc="best")

    return Chart("evaluation", "Evaluations during training", draw)


def distribution_chart(run: RunData) -> Chart | None:
    """Return how returns and lengths are spread early and late in the run."""
    if len(run.episodes) < 20:
        return None
    quarter = len(run.episodes) // 4
    parts = (
        ("first quarter", run.episodes[:quarter], COLORS[4]),
        ("last quarter", run.episodes[-quarter:], COLORS[0]),
    )

    def draw(figure: Any) -> None:
        for axes, field, name in zip(
            figure.subplots(1, 2), ("episode_return", "length"), ("return", "length"), strict=True
        ):
            values = [[row[field] for row in rows if field in row] for _, rows, _ in parts]
            every = np.array([value for part in values for value in part], np.float64)
            spread = np.ptp(every) or 1.0
            edges = np.linspace(every.min() - spread / 60, every.max() + spread / 60, 32)
            for part, (label, _, color) in zip(values, parts, strict=True):
                weights = np.full(len(part), 1 / len(part))
                axes.hist(part, edges, weights=weights, color=color, alpha=0.25)
                axes.hist(part, edges, weights=weights, histtype="step", color=color, label=label)
            axes.set_xlabel(f"episode {name}")
            axes.set_ylabel("share of episodes")
            axes.legend(loc="best")

    return Chart("distributions", "How training episodes changed", draw, size=(6.6, 2.9))


def losses_chart(run: RunData) -> Chart | None:
    """Return the chart of losses and other learner metrics."""
    found = [(label, column(run.rows, name)) for name, label in LOSSES]
    found = [(label, series) for label, series in found if len(series)]
    if not found:
        return None

    def draw(figure: Any) -> None:
        grid = small_multiples(figure, len(found), across=4)
        for axes, (label, series), color in zip(grid, found, COLORS, strict=False):
            plot_line(axes, series, color=color)
            axes.set_title(label, fontsize=8.5, fontweight="normal")
            axes.tick_params(labelsize=8)
            over_steps(axes)
            axes.set_xlabel("")

    tall = 2.0 * -(-len(found) // 4) + 0.3
    return Chart("losses", "Learning", draw, size=(11.0, tall))


def small_multiples(figure: Any, count: int, *, across: int, **subplot: Any) -> list[Any]:
    """Return `count` axes in rows; the rest of the last row is hidden."""
    down = -(-count // across)
    grid = figure.subplots(down, min(across, count), squeeze=False, **subplot)
    every = list(grid.ravel())
    for axes in every[count:]:
        axes.set_visible(False)
    return every[:count]


def shares_chart(run: RunData) -> Chart | None:
    """Return the share of each reward term."""
    names = names_in(run.rows, "reward/", "_share")
    found = [(name, column(run.rows, name)) for name in names]
    found = [(name, series) for name, series in found if len(series) and series.values.any()]
    if len(found) < 2:
        return None

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        thin = [series.thinned() for _, series in found]
        shared = min(len(series) for series in thin)
        axes.stackplot(
            thin[0].steps[:shared],
            [series.values[:shared] for series in thin],
            colors=COLORS[: len(found)],
            labels=[name.removeprefix("reward/").removesuffix("_share") for name, _ in found],
            alpha=0.85,
        )
        axes.set_ylim(0, 1)
        axes.set_ylabel("share of the absolute sum")
        over_steps(axes)
        figure.legend(loc="outside right upper")

    return Chart("reward-terms", "What the reward is made of", draw)


def speed_chart(run: RunData) -> Chart | None:
    """Return steps per second and where the time of an iteration goes."""
    speed = column(run.rows, "time/fps")
    stages = [(name, column(run.rows, f"time/{name}_seconds", over="iteration")) for name in STAGES]
    stages = [(name, series) for name, series in stages if len(series)]
    if len(speed) < 2:
        return None

    def draw(figure: Any) -> None:
        left, right = figure.subplots(1, 2, width_ratios=(3, 2))
        plot_line(left, speed, color=COLORS[0])
        left.set_ylabel("steps per second")
        left.yaxis.set_major_formatter(thousands)
        left.set_ylim(bottom=0)
        over_steps(left)
        totals = [float(series.values.sum()) for _, series in stages]
        order = np.argsort(totals)
        names = [stages[i][0] for i in order]
        bars = right.barh(names, [totals[i] for i in order], color=[COLORS[i] for i in order])
        whole = sum(totals) or 1.0
        right.bar_label(
            bars, [f"{100 * totals[i] / whole:.0f} %" for i in order], padding=3, fontsize=8
        )
        right.margins(x=0.2)
        right.grid(visible=False, axis="y")
        right.set_xlabel("seconds, all sessions")

    return Chart("speed", "Speed and time per stage", draw, size=(6.6, 2.7))


def labels_of(names: Sequence[str]) -> list[str]:
    """Return metric names without the groups they all share; a single one loses only the first."""
    labels = _without_shared(names)
    while len(set(labels)) > 1 and (shorter := _without_shared(labels)) != labels:
        labels = shorter
    return labels


def _without_shared(names: Sequence[str]) -> list[str]:
    groups = {name.partition("/")[0] for name in names}
    if len(groups) == 1 and all("/" in name for name in names):
        return [name.partition("/")[2] for name in names]
    return list(names)


def legend_below(figure: Any, *, most: int = 4) -> None:
    """Write the legend of all axes below them, in as many columns as there is room for."""
    found = [axes.get_legend_handles_labels() for axes in figure.axes]
    handles = [handle for one, _ in found for handle in one]
    labels = [label for _, several in found for label in several]
    # Of a part of a figure as well, which has no width in inches.
    letters = LETTERS_PER_INCH * figure.bbox.width / figure.dpi
    fitting = int(letters // (max(map(len, labels)) + LETTERS_OF_HANDLE)) if labels else 1
    columns = max(1, min(most, fitting))
    figure.legend(handles, labels, loc="outside lower center", ncols=columns)

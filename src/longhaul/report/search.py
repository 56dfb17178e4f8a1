"""Charts and tables of a search: history, importances, parallel coordinates and slices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from longhaul.report.style import CARD, COLORS, FAINT, GRID, INK, Chart, thousands
from longhaul.report.summary import Table, duration, figure

BLUE, ORANGE = COLORS[0], COLORS[1]
MOST_LETTERS = 18
"""Letters that fit side by side below a small chart."""
State = Literal["waiting", "running", "complete", "pruned", "failed"]


@dataclass(frozen=True, slots=True)
class Axis:
    """A config key that was searched."""

    key: str
    is_log: bool = False
    low: float = 0.0
    high: float = 1.0
    options: tuple[str, ...] = ()
    """The choices there were; none for numbers."""

    def place(self, value: float | str) -> float:
        """Return where a value is, from 0 to 1."""
        if self.options:
            return (self.options.index(str(value)) + 0.5) / len(self.options)
        low, high, number = self.low, self.high, float(value)
        if self.is_log:
            low, high, number = math.log(low), math.log(high), math.log(number)
        return (number - low) / (high - low)


@dataclass(frozen=True, slots=True)
class Tried:
    """One trial."""

    number: int
    state: State
    params: dict[str, float | str]
    value: float | None
    stages: dict[int, float] = field(default_factory=dict)
    steps: float = 0.0
    seconds: float = 0.0
    run: str = ""
    remark: str = ""
    """Why it failed, or what is special about it."""


@dataclass(frozen=True, slots=True)
class SearchData:
    """Everything a page about a search shows."""

    title: str
    metric: str
    is_maximized: bool
    axes: tuple[Axis, ...]
    trials: tuple[Tried, ...]
    importances: dict[str, float]
    best: int | None
    """The number of the best trial."""
    stage_count: int
    notes: tuple[str, ...] = ()

    @property
    def valued(self) -> list[Tried]:
        """The trials with a value, pruned ones included."""
        return [t for t in self.trials if t.value is not None and t.state != "running"]

    def ranked(self) -> list[Tried]:
        """Return the trials in order: best first, then pruned, running, waiting, failed."""
        order = {"complete": 0, "pruned": 1, "running": 2, "waiting": 3, "failed": 4}
        sign = -1.0 if self.is_maximized else 1.0

        def rank(trial: Tried) -> tuple[int, float, int]:
            return order[trial.state], sign * (trial.value or 0.0), trial.number

        return sorted(self.trials, key=rank)


def short_names(keys: Sequence[str]) -> dict[str, str]:
    """Return the last word of each key, or more of them where that would be ambiguous."""
    found = {}
    for key in keys:
        parts = key.split(".")
        count = 1
        while count < len(parts) and any(
            other != key and other.split(".")[-count:] == parts[-count:] for other in keys
        ):
            count += 1
        found[key] = ".".join(parts[-count:])
    return found


def trial_table(data: SearchData) -> Table:
    """Return one row per trial, best first."""
    names = short_names([axis.key for axis in data.axes])
    header = ("trial", "state", data.metric, *names.values(), "trained", "time", "remark")
    rows = tuple(
        (
            f"{trial.number}{' *' if trial.number == data.best else ''}",
            trial.state,
            figure(trial.value) if trial.value is not None else "-",
            *(_shown(trial.params.get(key, "-")) for key in names),
            thousands(trial.steps) if trial.steps else "-",
            duration(trial.seconds) if trial.seconds else "-",
            trial.remark,
        )
        for trial in data.ranked()
    )
    return Table("", header, rows)


def _shown(value: float | str) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def search_charts(data: SearchData) -> list[Chart]:
    """Return every chart that has enough data."""
    charts = []
    if data.valued:
        charts.append(_history(data))
    if any(len(trial.stages) > 1 for trial in data.trials):
        charts.append(_curves(data))
    if data.importances:
        charts.append(_importances(data))
    if len(data.valued) > 1:
        charts += [_parallel(data), _slices(data)]
    return charts


def _history(data: SearchData) -> Chart:
    def draw(figure: Any) -> None:
        axes = figure.subplots()
        complete = [t for t in data.trials if t.state == "complete"]
        pruned = [t for t in data.valued if t.state == "pruned"]
        failed = [t for t in data.trials if t.state == "failed"]
        _dots(axes, pruned, label="pruned", facecolor="none", edgecolor=FAINT)
        _dots(axes, complete, label="complete", facecolor=BLUE, edgecolor=BLUE)
        if complete:
            best = np.maximum if data.is_maximized else np.minimum
            values = best.accumulate(np.array([t.value for t in complete], np.float64))
            numbers = [t.number for t in complete] + [len(data.trials) - 1]
            axes.step(
                numbers, [*values, values[-1]], where="post", color=ORANGE, label="best so far"
            )
        if failed:
            bottom = axes.get_xaxis_transform()
            axes.plot(
                [t.number for t in failed], [0.02] * len(failed), "x", color=COLORS[3],
                transform=bottom, label="failed", linestyle="none",
            )  # fmt: skip
        axes.set_xlabel("trial")
        axes.set_ylabel(data.metric)
        axes.xaxis.get_major_locator().set_params(integer=True)
        # Above the axes, beside the title: dots may be anywhere within.
        axes.legend(loc="lower right", bbox_to_anchor=(1.0, 0.99), ncols=4, borderpad=0.0)

    return Chart("search-history", "Trials and best value so far", draw)


def _dots(axes: Any, trials: Sequence[Tried], **style: Any) -> None:
    if trials:
        axes.scatter([t.number for t in trials], [t.value for t in trials], s=26, **style)


def _curves(data: SearchData) -> Chart:
    def draw(figure: Any) -> None:
        axes = figure.subplots()
        for trial in sorted(data.trials, key=lambda t: t.number == data.best):
            if not trial.stages:
                continue
            stages = sorted(trial.stages)
            is_best = trial.number == data.best
            axes.plot(
                [100 * stage / data.stage_count for stage in stages],
                [trial.stages[stage] for stage in stages],
                color=ORANGE if is_best else BLUE if trial.state == "complete" else FAINT,
                alpha=1.0 if is_best else 0.55,
                linewidth=2.2 if is_best else 1.2,
                linestyle="--" if trial.state == "pruned" else "-",
                marker="o",
                markersize=2.5,
            )
        axes.set_xlabel("share of the trial's steps [%]")
        axes.set_ylabel(data.metric)
        axes.set_xlim(0, 102)

    note = "The best trial is orange; pruned ones are dashed and gray."
    return Chart("search-curves", "Trials while they trained", draw, note)


def _importances(data: SearchData) -> Chart:
    names = short_names([axis.key for axis in data.axes])
    listed = list(data.importances.items())[::-1]

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        shares = [share for _, share in listed]
        axes.barh([names[key] for key, _ in listed], shares, color=BLUE, height=0.6)
        for place, share in enumerate(shares):
            axes.text(share + 0.01, place, f"{share:.0%}", va="center", fontsize=8.5)
        axes.set_xlim(0, max(shares) * 1.15)
        axes.set_xlabel("importance (sum 100 %)")
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
        axes.grid(visible=False, axis="y")

    few = " Few trials: treat it as a rough indication." if len(data.valued) < 20 else ""
    note = (
        "How far the best trials differ from all others in each key (PED-ANOVA), "
        f"over {len(data.valued)} trials.{few}"
    )
    size = (6.6, 0.34 * len(listed) + 1.2)
    return Chart("search-importance", "Importance of the keys", draw, note, size)


def _parallel(data: SearchData) -> Chart:
    """Return one line per trial through all keys to its value."""
    names = short_names([axis.key for axis in data.axes])
    values = [t.value for t in data.valued if t.value is not None]
    low, high = min(values), max(values)
    target = Axis(data.metric, low=low, high=high if high > low else low + 1.0)
    every = (*data.axes, target)

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        places = range(len(every))
        for trial in sorted(data.valued, key=lambda t: _goodness(data, t, low, high)):
            heights = [axis.place(trial.params[axis.key]) for axis in data.axes]
            heights.append(target.place(trial.value if trial.value is not None else low))
            is_best = trial.number == data.best
            axes.plot(
                places,
                heights,
                color=ORANGE if is_best else _blend(_goodness(data, trial, low, high)),
                linewidth=2.6 if is_best else 1.3,
                linestyle="--" if trial.state == "pruned" else "-",
                zorder=3 if is_best else 2,
            )
        for place, axis in zip(places, every, strict=True):
            axes.axvline(place, color=FAINT, linewidth=0.9, zorder=1)
            _ticks(axes, place, axis, is_last=place == len(every) - 1)
        axes.set_xticks(places, [*(_wrapped(names[axis.key]) for axis in data.axes), data.metric])
        axes.set_xlim(-0.35, len(every) - 0.45)
        axes.set_ylim(-0.05, 1.05)
        axes.set_yticks([])
        axes.grid(visible=False)
        for side in ("left", "bottom"):
            axes.spines[side].set_visible(False)
        axes.tick_params(axis="x", length=0)

    note = "One line per trial, darker the better; the best is orange, pruned ones are dashed."
    size = (max(6.6, 1.35 * len(every)), 3.8)
    return Chart("search-parallel", "Parallel coordinates", draw, note, size)


def _wrapped(name: str) -> str:
    """Return a name in two lines if it is long."""
    if len(name) <= 12 or "_" not in name:
        return name
    words = name.split("_")
    half = min(range(1, len(words)), key=lambda n: abs(len("_".join(words[:n])) - len(name) / 2))
    return "_".join(words[:half]) + "_\n" + "_".join(words[half:])


def _goodness(data: SearchData, trial: Tried, low: float, high: float) -> float:
    """Return how good a trial is, from 0 to 1."""
    if trial.value is None or high <= low:
        return 1.0
    share = (trial.value - low) / (high - low)
    return share if data.is_maximized else 1.0 - share


def _blend(share: float) -> str:
    """Return a color between a light gray and blue."""
    light, dark = (tuple(int(c[i : i + 2], 16) for i in (1, 3, 5)) for c in ("#c3ccd6", BLUE))
    mixed = (round(a + (b - a) * share**0.8) for a, b in zip(light, dark, strict=True))
    return "#" + "".join(f"{part:02x}" for part in mixed)


def _ticks(axes: Any, place: int, axis: Axis, *, is_last: bool) -> None:
    """Write some values beside a vertical axis."""
    if axis.options:
        marks = [(axis.place(option), option.replace(", ", ",")) for option in axis.options]
    else:
        marks = [(share, _at(axis, share)) for share in (0.0, 0.5, 1.0)]
    for height, text in marks:
        axes.annotate(
            text,
            (place, height),
            xytext=(-4 if not is_last else 4, 0),
            textcoords="offset points",
            ha="right" if not is_last else "left",
            va="center",
            fontsize=7.5,
            color=INK,
            bbox={"boxstyle": "round,pad=0.12", "facecolor": CARD, "alpha": 0.8, "lw": 0},
            zorder=4,
        )


def _at(axis: Axis, share: float) -> str:
    if axis.is_log:
        value = math.exp(math.log(axis.low) + share * (math.log(axis.high) - math.log(axis.low)))
    else:
        value = axis.low + share * (axis.high - axis.low)
    return f"{value:.3g}"


def _slices(data: SearchData) -> Chart:
    """Return the value over each key by itself."""
    names = short_names([axis.key for axis in data.axes])
    wide = min(3, len(data.axes))
    tall = math.ceil(len(data.axes) / wide)

    def draw(figure: Any) -> None:
        fields = figure.subplots(tall, wide, squeeze=False, sharey=True).ravel()
        for axes, axis in zip(fields, data.axes, strict=False):
            _slice(axes, data, axis)
            axes.set_xlabel(names[axis.key])
        for axes in fields[len(data.axes) :]:
            axes.set_visible(False)
        for axes in fields[::wide]:
            axes.set_ylabel(data.metric)

    note = "Filled dots are complete trials, hollow ones pruned; the best is orange."
    return Chart("search-slices", "Value over each key", draw, note, (6.6, 2.2 * tall + 0.4))


def _slice(axes: Any, data: SearchData, axis: Axis) -> None:
    for trial in data.valued:
        value = trial.params[axis.key]
        is_best = trial.number == data.best
        color = ORANGE if is_best else BLUE if trial.state == "complete" else FAINT
        axes.scatter(
            [axis.options.index(str(value)) if axis.options else value],
            [trial.value],
            s=34 if is_best else 20,
            facecolor=color if trial.state == "complete" else "none",
            edgecolor=color,
            zorder=3 if is_best else 2,
        )
    if axis.options:
        labels = [option.replace(", ", ",") for option in axis.options]
        is_crowded = sum(map(len, labels)) > MOST_LETTERS
        axes.set_xticks(
            range(len(labels)), labels, fontsize=7.5,
            rotation=35 if is_crowded else 0, ha="right" if is_crowded else "center",
            rotation_mode="anchor",
        )  # fmt: skip
        axes.set_xlim(-0.5, len(axis.options) - 0.5)
    elif axis.is_log:
        axes.set_xscale("log")
    axes.grid(visible=True, color=GRID)

"""Arms of an experiment side by side: figures with intervals, differences, curves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from longhaul.core.errors import ConfigError
from longhaul.report.curves import over_steps
from longhaul.report.run_data import RunData
from longhaul.report.statistics import (
    LEAST_SCORES,
    Estimate,
    IntervalKind,
    Numbers,
    Series,
    bootstrap,
    column,
    improvement,
    interquartile_mean,
    mean,
    paired_difference,
)
from longhaul.report.style import COLORS, LIGHT, Chart

STEP_TOLERANCE = 0.05
"""Share by which the trained steps of two runs may differ: the last rollout may exceed the end."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One run, with the scores of its final evaluation case by case."""

    run: RunData
    arm: str
    suite: str
    greedy: bool
    scores: Mapping[int, float]
    """By the seed of the case."""
    references: Mapping[str, Sequence[float]] = field(default_factory=dict)
    """Scores of untrained reference policies in the same cases, if they were played."""

    @property
    def score(self) -> float:
        """The mean over the cases."""
        return float(np.mean(list(self.scores.values())))


@dataclass(frozen=True, slots=True)
class ArmFigures:
    """What one arm reached."""

    arm: str
    runs: int
    mean: Estimate
    middle: Estimate
    better: Estimate | None
    """Probability that it beats the first arm; None for that one."""
    difference: Estimate | None
    """Mean difference to the first arm over the same cases."""


@dataclass(frozen=True, slots=True)
class Anchor:
    """The score of an untrained reference policy in the cases of the comparison."""

    name: str
    mean: Estimate
    middle: Estimate


@dataclass(frozen=True, slots=True)
class Comparison:
    """All arms; the others are compared with the first."""

    arms: tuple[ArmFigures, ...]
    entries: tuple[Entry, ...]
    over_runs: bool
    """Whether intervals are over runs with different seeds, or over the episodes of single runs."""
    warnings: tuple[str, ...] = ()
    anchors: tuple[Anchor, ...] = ()

    def as_rows(self) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        """Return a header and a row per arm and per reference policy."""
        header = ("arm", "runs", "mean", "IQM", "P(better)", "paired difference")
        rows: list[tuple[str, ...]] = [
            (
                arm.arm,
                str(arm.runs),
                arm.mean.as_text(),
                arm.middle.as_text(),
                "-" if arm.better is None else arm.better.as_text(".2f"),
                "-" if arm.difference is None else arm.difference.as_text("+.4g"),
            )
            for arm in self.arms
        ]
        rows += [
            (anchor.name, "", anchor.mean.as_text(), anchor.middle.as_text(), "-", "-")
            for anchor in self.anchors
        ]
        return header, rows

    def notes(self) -> list[str]:
        """Return notes for reading the numbers."""
        shown = [self._means_say(), self._pairs_say()]
        if not self.over_runs:
            shown.append(
                "One run per arm does not show the variation between seeds: use --seeds 3 or more."
            )
        if self.anchors:
            names = ", ".join(anchor.name for anchor in self.anchors)
            shown.append(
                f"Reference policies without training, intervals over the same cases: {names}."
            )
        return [*shown, *self.warnings]

    def _means_say(self) -> str:
        """Return the meaning of the intervals of the means."""
        thing = "run" if self.over_runs else "episode"
        found = [arm.mean for arm in self.arms]
        said = []
        if any(one.kind is IntervalKind.INTERVAL for one in found):
            said.append(f"[in brackets]: 95 % interval over the {thing}s of an arm")
        ranges = sorted({one.count for one in found if one.kind is IntervalKind.RANGE})
        if ranges:
            counts = " or ".join(map(str, ranges))
            said.append(
                f"(in parentheses): range of {counts} {thing}s, lowest to highest, because fewer "
                f"than {LEAST_SCORES} give no interval"
            )
        return f"{'; '.join(said)}."

    def _pairs_say(self) -> str:
        """Return what the other columns compare."""
        against = f"P(better) and the paired difference are against {self.arms[0].arm}"
        paired = [arm.difference for arm in self.arms if arm.difference is not None]
        if not paired:
            return f"{against}."
        counts = " or ".join(str(count) for count in sorted({one.count for one in paired}))
        what = "95 % interval" if paired[0].kind is IntervalKind.INTERVAL else "range"
        return f"{against}; the difference has the {what} over {counts} cases both played."

    @property
    def line_words(self) -> str:
        """What the lines beside the means are."""
        thing = "runs" if self.over_runs else "episodes"
        kinds = dict.fromkeys(
            f"range of {arm.mean.count} {thing}"
            if arm.mean.kind is IntervalKind.RANGE
            else f"95 % interval over {thing}"
            for arm in self.arms
        )
        return " or ".join(kinds)

    def as_values(self) -> dict[str, Any]:
        """Return everything as plain values."""
        return {
            "arms": [asdict(arm) for arm in self.arms],
            "anchors": [asdict(anchor) for anchor in self.anchors],
            "over_runs": self.over_runs,
            "warnings": list(self.warnings),
            "runs": [
                {"path": str(e.run.directory.path), "arm": e.arm, "score": e.score}
                for e in self.entries
            ],
        }


def unequal(entries: Sequence[Entry]) -> list[str]:
    """Return why these runs cannot be compared; empty if they can."""
    first = entries[0]
    reasons = []
    for other in entries[1:]:
        name = other.run.directory.path.name
        ours, theirs = first.run.state.record.task, other.run.state.record.task
        if ours != theirs:
            reasons.append(f"{name} is a run of {theirs!r}, not of {ours!r}")
            continue
        if (other.suite, other.greedy) != (first.suite, first.greedy):
            reasons.append(
                f"{name} was evaluated on {_conditions(other)}, the first run on "
                f"{_conditions(first)}"
            )
        elif other.scores.keys() != first.scores.keys():
            reasons.append(f"{name} was evaluated on other episodes than the first run")
        steps = [float(e.run.last.get("env_steps", 0)) for e in (first, other)]
        if abs(steps[1] - steps[0]) > STEP_TOLERANCE * max(*steps, 1.0):
            reasons.append(f"{name} was trained for {steps[1]:,.0f} steps, not {steps[0]:,.0f}")
    return reasons


def _conditions(entry: Entry) -> str:
    return f"{entry.suite} with {'most likely' if entry.greedy else 'drawn'} actions"


def compare_entries(entries: Sequence[Entry], *, anyway: bool = False) -> Comparison:
    """Return the arms side by side; unequal conditions are refused with the reasons."""
    if len({entry.arm for entry in entries}) < 2:
        raise ConfigError(
            "a comparison needs at least two arms; these runs have the same configuration apart "
            "from seed and name"
        )
    reasons = unequal(entries)
    if reasons and not anyway:
        raise ConfigError("these runs cannot be compared: " + "; ".join(reasons))
    by_arm: dict[str, list[Entry]] = {}
    for entry in entries:
        by_arm.setdefault(entry.arm, []).append(entry)
    over_runs = min(map(len, by_arm.values())) > 1
    first = next(iter(by_arm.values()))
    arms = tuple(
        _figures(arm, own, None if own is first else first, over_runs=over_runs)
        for arm, own in by_arm.items()
    )
    return Comparison(arms, tuple(entries), over_runs, tuple(reasons), _anchors(entries))


def _anchors(entries: Sequence[Entry]) -> tuple[Anchor, ...]:
    """Return the first run's references."""
    found = []
    for name, played in entries[0].references.items():
        scores = [np.array(played, float)]
        found.append(Anchor(name, bootstrap(scores, mean), bootstrap(scores, interquartile_mean)))
    return tuple(found)


def _figures(
    arm: str, own: Sequence[Entry], first: Sequence[Entry] | None, *, over_runs: bool
) -> ArmFigures:
    scores = _scores(own, over_runs=over_runs)
    better = difference = None
    if first is not None:
        better = improvement([scores], [_scores(first, over_runs=over_runs)])
        difference = _paired(own, first)
    return ArmFigures(
        arm,
        len(own),
        bootstrap([scores], mean),
        bootstrap([scores], interquartile_mean),
        better,
        difference,
    )


def _scores(entries: Sequence[Entry], *, over_runs: bool) -> Numbers:
    """Return one score per run, or one per episode if there is only one run per arm."""
    if over_runs:
        return np.array([entry.score for entry in entries])
    return np.array([score for entry in entries for score in entry.scores.values()])


def _paired(own: Sequence[Entry], first: Sequence[Entry]) -> Estimate | None:
    """Return the difference over the cases that all runs played, as means over each arm."""
    shared = set.intersection(*(set(entry.scores) for entry in (*own, *first)))
    if not shared:
        return None
    cases = sorted(shared)
    ours, theirs = (
        np.array([np.mean([entry.scores[case] for entry in arm]) for case in cases])
        for arm in (own, first)
    )
    return paired_difference(ours, theirs)


def comparison_charts(comparison: Comparison) -> list[Chart]:
    """Return the curves of all arms over each other, and their scores beside each other."""
    names = ("rollout/ep_rew_mean", comparison.entries[0].run.score, "eval/mean_reward")
    by_arm: dict[str, list[Entry]] = {}
    for entry in comparison.entries:
        by_arm.setdefault(entry.arm, []).append(entry)
    charts = [overlay(name, by_arm) for name in dict.fromkeys(names)]
    return [*(chart for chart in charts if chart is not None), _forest(comparison)]


def overlay(name: str, arms: Mapping[str, Sequence[Entry]]) -> Chart | None:
    """Return a metric's curves of all arms over each other, None if only one arm has any."""
    every = {arm: [column(entry.run.rows, name) for entry in own] for arm, own in arms.items()}
    kept = {arm: [one for one in series if len(one) > 1] for arm, series in every.items()}
    found = {arm: series for arm, series in kept.items() if series}
    if len(found) < 2:
        return None

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        for (arm, own), color in zip(found.items(), COLORS, strict=False):
            steps, values = on_shared_steps(own)
            axes.plot(steps, values.mean(axis=0), color=color, label=arm)
            if len(own) > 1:
                low, high = values.min(axis=0), values.max(axis=0)
                axes.fill_between(steps, low, high, color=color, alpha=LIGHT, linewidth=0)
        over_steps(axes)
        axes.set_ylabel(name)
        axes.legend(loc="best")

    several = max(map(len, found.values())) > 1
    note = "mean over the runs of an arm, shaded from the lowest to the highest" if several else ""
    return Chart(f"compare-{name.replace('/', '-')}", name, draw, note)


def on_shared_steps(own: Sequence[Series]) -> tuple[Numbers, Numbers]:
    """Return steps that all series cover, and their values there [series, steps]."""
    end = min(float(series.steps[-1]) for series in own)
    begin = max(float(series.steps[0]) for series in own)
    steps = np.linspace(begin, end, 200)
    return steps, np.array([np.interp(steps, s.steps, s.values) for s in own])


def _forest(comparison: Comparison) -> Chart:
    def draw(figure: Any) -> None:
        axes = figure.subplots()
        places = np.arange(len(comparison.arms))[::-1]
        for shift, label, pick in ((0.12, "mean", "mean"), (-0.12, "IQM", "middle")):
            for place, arm, color in zip(places, comparison.arms, COLORS * 4, strict=False):
                estimate: Estimate = arm.mean if pick == "mean" else arm.middle
                axes.plot(
                    [estimate.low, estimate.high], [place + shift] * 2, color=color, linewidth=2.2
                )
                axes.plot(
                    [estimate.value],
                    [place + shift],
                    "o" if pick == "mean" else "D",
                    color=color,
                    markersize=5,
                    label=label if place == places[0] else None,
                )
        axes.set_yticks(places, [arm.arm for arm in comparison.arms])
        axes.set_ylim(-0.6, len(places) - 0.4)
        axes.set_xlabel(f"score, {comparison.line_words}")
        axes.legend(loc="best")

    size = (6.6, 0.5 * len(comparison.arms) + 1.3)
    return Chart("compare-scores", "Scores of the final evaluation", draw, size=size)

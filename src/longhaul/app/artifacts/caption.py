"""Captions of a film: text, bars and curves for each moment of an episode."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from longhaul.app.evaluation.episode_player import Moment
from longhaul.core.env import Array
from longhaul.core.spaces import Continuous, Discrete, EnvSpec, MultiDiscrete
from longhaul.report.overlay import Bar, Caption

MOST_BARS = 8


class CaptionWriter:
    """Follows one episode and writes the caption of each moment."""

    def __init__(
        self,
        spec: EnvSpec,
        notes: Mapping[str, str],
        names: Mapping[str, tuple[str, ...]] | None = None,
    ) -> None:
        self._spec = spec
        self._names = names or {}
        self._notes = tuple(notes.items())
        self._values: list[float] = []
        self._active: list[float] = []
        self._acted = np.ones(spec.rows, np.bool_)  # rows that took the last action

    def caption(self, moment: Moment) -> Caption:
        """Return the caption of this moment."""
        spec = self._spec
        active = int(moment.active.sum())
        over = moment.ending is not None
        # The value estimate after the end of an episode has no meaning.
        value = (
            self._values[-1] if over or not active else float(moment.value[moment.active].mean())
        )
        self._values.append(value)
        self._active.append(float(active))
        facts = [
            ("step", str(moment.step)),
            ("return", f"{moment.episode_return:.2f}"),
            ("reward", f"{moment.reward:+.3f}"),
            ("value", f"{value:.2f}"),
        ]
        if moment.ending is not None:
            facts.append(("ended by", moment.ending.reason.replace("_", " ")))
        curves = [("value", self._values)]
        bars = [*self._action_bars(moment), *_term_bars(moment.terms)]
        bars += _shown_bars(moment, self._names)
        if spec.rows > 1:
            there = f"{spec.row_name} in play"
            bars.insert(0, ("", (Bar(there, active / spec.rows, f"{active} / {spec.rows}"),)))
            curves = [(there, self._active), *curves]
        self._acted = moment.active
        return Caption(tuple(facts), tuple(bars), tuple(curves), self._notes)

    def _action_bars(self, moment: Moment) -> list[tuple[str, tuple[Bar, ...]]]:
        if moment.action is None or not self._acted.any():
            return []
        action = moment.action[self._acted]
        match self._spec.action:
            case Discrete(count, names):
                return [("action", _choice_bars(action, count, names))]
            case MultiDiscrete(counts):
                mean = action.mean(axis=0)
                shares = mean / np.maximum(np.array(counts) - 1, 1)
                figures = [f"{one:.3g}" for one in mean]
                return [("action", _numbered(shares, figures))]
            case Continuous(low, high):
                mean = action.mean(axis=0)
                floor, ceiling = (np.clip(np.array(side), -1e3, 1e3) for side in (low, high))
                shares = (np.clip(mean, floor, ceiling) - floor) / (ceiling - floor)
                return [("action", _numbered(shares, [f"{one:+.2f}" for one in mean]))]


def _choice_bars(action: Array, count: int, names: tuple[str, ...]) -> tuple[Bar, ...]:
    """Return the share of rows that took each action; only the most frequent of many actions."""
    shares = np.bincount(action.ravel(), minlength=count) / action.size
    listed = range(count) if count <= MOST_BARS else np.sort(np.argsort(-shares)[:MOST_BARS])
    return tuple(_share_bar(names[one] if names else str(one), shares[one]) for one in listed)


def _numbered(shares: Array, figures: list[str]) -> tuple[Bar, ...]:
    return tuple(
        Bar(str(number), float(share), figure)
        for number, (share, figure) in enumerate(zip(shares, figures, strict=True))
        if number < MOST_BARS
    )


def _term_bars(terms: Mapping[str, float]) -> list[tuple[str, tuple[Bar, ...]]]:
    """Return each reward term's share of the reward so far."""
    terms = {name: paid for name, paid in terms.items() if paid}
    if len(terms) < 2:
        return []
    total = sum(map(abs, terms.values()))
    bars = (Bar(name, abs(paid) / total, f"{paid:+.2f}") for name, paid in terms.items())
    return [("reward so far", tuple(bars))]


def _shown_bars(
    moment: Moment, names: Mapping[str, tuple[str, ...]]
) -> list[tuple[str, tuple[Bar, ...]]]:
    """Return the values that the policy exposes: shares of integers, means of floats.

    Several numbers per row are shares of named things, and form a separate group.
    """
    groups = []
    for name, values in moment.shown.items():
        active = values[moment.active] if moment.active.any() else values
        if values.ndim > 1:
            shares = active.mean(axis=0)
            words = names.get(name) or tuple(map(str, range(len(shares))))
            groups.append((name, tuple(map(_share_bar, words, shares))))
        elif np.issubdtype(values.dtype, np.integer):
            words = names.get(name, ())
            groups.append((name, _choice_bars(active, len(words) or int(values.max()) + 1, words)))
        else:
            mean = float(values.mean())
            groups.append((name, (Bar("mean", mean, f"{mean:.2f}"),)))
    return groups


def _share_bar(name: str, share: float) -> Bar:
    return Bar(name, float(share), f"{100 * share:.0f} %")

"""Columns out of logs, thinned to what a picture can show."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]
Row = Mapping[str, Any]

MOST_POINTS = 400


@dataclass(frozen=True, slots=True)
class Series:
    """A quantity over steps."""

    steps: Numbers
    values: Numbers

    def __len__(self) -> int:
        return len(self.steps)

    def thinned(self, most: int = MOST_POINTS) -> Series:
        """Return the means of so many equal stretches, or the series itself if it is short."""
        if len(self) <= most:
            return self
        edges = np.linspace(0, len(self), most + 1).astype(np.int64)[:-1]
        counts = np.diff(np.append(edges, len(self)))
        return Series(
            np.add.reduceat(self.steps, edges) / counts,
            np.add.reduceat(self.values, edges) / counts,
        )


@dataclass(frozen=True, slots=True)
class Bands:
    """Quantiles of a quantity in stretches of the run."""

    steps: Numbers
    quantiles: Numbers  # [5, stretches]: 10, 25, 50, 75 and 90 %


QUANTILES = (0.10, 0.25, 0.50, 0.75, 0.90)


def is_number(value: object) -> bool:
    """Whether a field of a log is a number that can be plotted."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def column(rows: Iterable[Row], name: str, *, over: str = "env_steps") -> Series:
    """Return one metric over the run; rows without it are left out."""
    pairs = [
        (row[over], row[name])
        for row in rows
        if is_number(row.get(name)) and is_number(row.get(over))
    ]
    array = np.array(pairs, np.float64).reshape(-1, 2)
    return Series(array[:, 0], array[:, 1])


def names_in(rows: Sequence[Row], prefix: str, suffix: str = "") -> list[str]:
    """Return the metrics of a group that any row has, in the order they first appear."""
    found = dict.fromkeys(
        name for row in rows for name in row if name.startswith(prefix) and name.endswith(suffix)
    )
    return list(found)


def episode_series(episodes: Sequence[Row], rows: Sequence[Row], field: str) -> Series:
    """Return a figure of every episode over the steps of the iteration it ended in."""
    steps = {row.get("iteration"): row.get("env_steps") for row in rows}
    pairs = [
        (steps[episode["iteration"]], episode[field])
        for episode in episodes
        if is_number(steps.get(episode.get("iteration"))) and is_number(episode.get(field))
    ]
    array = np.array(pairs, np.float64).reshape(-1, 2)
    return Series(array[:, 0], array[:, 1])


def bands(series: Series, stretches: int = 60) -> Bands | None:
    """Return quantiles over stretches of about equally many values; None if there are too few.

    Values of one step stay together: many episodes end in the same iteration.
    """
    count = min(stretches, len(series) // 8)
    if count < 2:
        return None
    edges = np.unique(np.quantile(series.steps, np.linspace(0, 1, count + 1)))
    places = np.clip(np.searchsorted(edges, series.steps, side="right") - 1, 0, len(edges) - 2)
    steps, quantiles = [], []
    for place in np.unique(places):
        own = places == place
        steps.append(series.steps[own].mean())
        quantiles.append(np.quantile(series.values[own], QUANTILES))
    return Bands(np.array(steps), np.array(quantiles).T) if len(steps) > 1 else None

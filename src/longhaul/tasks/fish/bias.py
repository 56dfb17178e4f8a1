"""Weighted intervals, from which headings and speeds are drawn."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from longhaul.core.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Sectors:
    """Intervals with weights; none means that nothing is drawn."""

    intervals: tuple[tuple[float, float, float], ...]  # low, high, weight

    @staticmethod
    def parse(
        text: str, *, where: str, ceiling: float = np.inf, drops_end: bool = False
    ) -> Sectors:
        """Read `low-high:weight,...`; `drops_end` leaves out an interval up to the ceiling."""
        intervals = []
        for part in filter(None, (part.strip() for part in text.split(","))):
            low, high, weight = _interval(part, where)
            if not (0 <= low < high <= ceiling and weight > 0):
                raise ConfigError(
                    f"{where}: {part!r} needs 0 <= low < high"
                    f"{f' <= {ceiling:g}' if np.isfinite(ceiling) else ''} and a weight above 0"
                )
            if not (drops_end and high == ceiling):
                intervals.append((low, high, weight))
        return Sectors(tuple(intervals))

    def table(self) -> NDArray[np.float64]:
        """Return [count, 3]: low, high and the weights added up."""
        table = np.array(self.intervals, np.float64).reshape(-1, 3)
        table[:, 2] = np.cumsum(table[:, 2])
        return table


def _interval(part: str, where: str) -> tuple[float, float, float]:
    borders, colon, weight = part.partition(":")
    low, dash, high = borders.partition("-")
    try:
        if not (colon and dash):
            raise ValueError
        return float(low), float(high), float(weight)
    except ValueError:
        raise ConfigError(f"{where}: {part!r} is not of the form low-high:weight") from None

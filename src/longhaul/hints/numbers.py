"""Numbers in hints: as text, rounded, and their median."""

from __future__ import annotations

import math


def number(value: float) -> str:
    """Return a number with three significant digits."""
    if value and (abs(value) >= 1e5 or abs(value) < 1e-3):
        return f"{value:.2g}"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def rounded(value: float) -> float:
    """Return a value with one significant digit."""
    if value == 0 or not math.isfinite(value):
        return value
    digits = -math.floor(math.log10(abs(value)))
    return round(value, digits)


def median(values: list[float]) -> float:
    """Return the middle value, the upper of two: always one that was measured."""
    return sorted(values)[len(values) // 2]

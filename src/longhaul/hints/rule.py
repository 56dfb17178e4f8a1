"""What rules share: their common fields, and numbers as text."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True, slots=True)
class HintRule:
    """What most rules have in common; a rule adds its thresholds and `judge`."""

    name: str = ""
    window: int = 1
    """Iterations that are looked at."""
    cooldown: int = 200
    """Iterations before the rule may report again; doubled each time."""
    timed: bool = False
    reads: ClassVar[tuple[str, ...]] = ()


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

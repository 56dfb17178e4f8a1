"""When an update need not wait any longer, and when a collector has been silent for too long."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from statistics import median

REMEMBERED = 64
HUNG_FACTOR = 20.0
"""Times the usual time of a fragment, as for environments in worker processes."""


@dataclass(frozen=True, slots=True)
class Quorum:
    """How many fragments an update needs, and how long the others are waited for."""

    share: float
    patience: float

    def needed(self, expected: int) -> int:
        """Return the fragments needed of so many collectors at work; never none."""
        # Rounded first: a share of 0.1 of ten collectors is one, whatever floating point says.
        return max(1, math.ceil(round(self.share * expected, 9)))

    def is_enough(self, arrived: int, expected: int, *, waited: float, usual: float) -> bool:
        """Whether to go on; `waited` is the time since as many as needed were there."""
        if arrived < self.needed(expected):
            return False
        return arrived >= expected or waited >= self.patience * usual

    def left(self, *, waited: float, usual: float) -> float:
        """Return how much longer the others are waited for, once enough are there."""
        return max(0.0, self.patience * usual - waited)


class FragmentTimes:
    """The usual time of a fragment, learned from the last ones."""

    def __init__(self, least_deadline: float, first_deadline: float) -> None:
        self._least = least_deadline
        self._first = first_deadline
        self._times: deque[float] = deque(maxlen=REMEMBERED)

    def add(self, seconds: float) -> None:
        """Take one fragment's time into account."""
        self._times.append(seconds)

    @property
    def usual(self) -> float:
        """The median; 0 before there is any."""
        return median(self._times) if self._times else 0.0

    @property
    def deadline(self) -> float:
        """The seconds after which a collector that has not answered counts as hung."""
        if not self._times:
            return max(self._first, self._least)  # it may have to compile first
        return max(self._least, HUNG_FACTOR * self.usual)

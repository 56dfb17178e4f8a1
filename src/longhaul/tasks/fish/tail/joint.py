"""Weights of starts by the predator's heading and speed together, as they are after the pre-roll.

Weights of headings and speeds before the pre-roll cannot keep a direction away: gravity turns
predators towards +y while they roll. These look at what the episode really begins with.
"""

from __future__ import annotations

from dataclasses import dataclass

from longhaul.core.errors import ConfigError
from longhaul.tasks.fish.tail.items import Velocity, heading, speed

ATTEMPTS = 64
"""Starts drawn before the last one is taken as it is."""
_MASK = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class Range:
    """Headings in degrees, which may pass through 0, and speeds; each from, up to but without."""

    angles: tuple[float, float] = (0.0, 360.0)
    speeds: tuple[float, float] = (0.0, float("inf"))

    def holds(self, velocity: Velocity) -> bool:
        """Whether a velocity is in both ranges."""
        low, high = self.angles
        angle = heading(velocity)
        turned = low <= angle < high if low <= high else angle >= low or angle < high
        return turned and self.speeds[0] <= speed(velocity) < self.speeds[1]


@dataclass(frozen=True, slots=True)
class JointBias:
    """Weights of ranges; the first that holds counts, and 1 where none does."""

    cells: tuple[tuple[Range, float], ...] = ()

    @staticmethod
    def parse(text: str, *, where: str) -> JointBias:
        """Read `angles/speeds:weight,...`, as in `90-150/1.8-3.0:0.1,330-30/0-1:2`."""
        cells = []
        for part in filter(None, (part.strip() for part in text.split(","))):
            ranges, colon, weight = part.partition(":")
            angles, slash, speeds = ranges.partition("/")
            try:
                if not (colon and slash):
                    raise ValueError
                cells.append((Range(_pair(angles), _pair(speeds)), float(weight)))
            except ValueError:
                raise ConfigError(
                    f"{where}: {part!r} is not of the form low-high/low-high:weight with headings "
                    "in degrees, then speeds"
                ) from None
            if not 0 <= cells[-1][1] < float("inf"):
                raise ConfigError(f"{where}: {part!r} needs a weight of 0 or more")
        return JointBias(tuple(cells))

    def weight(self, velocity: Velocity) -> float:
        """Return how often starts with this velocity are wanted, next to others."""
        return next((weight for cell, weight in self.cells if cell.holds(velocity)), 1.0)

    def accepts(self, velocity: Velocity, seed: int, attempt: int) -> bool:
        """Whether to begin with this velocity or to draw another start; the seed decides."""
        highest = max(1.0, *(weight for _, weight in self.cells))
        return _share(seed, 2 * attempt + 1) * highest < self.weight(velocity)


def redrawn_seed(seed: int, attempt: int) -> int:
    """Return the seed of the start drawn after `attempt` others; the first is the seed's own."""
    return seed if attempt == 0 else _mixed(seed, 2 * attempt) >> 1


def _pair(text: str) -> tuple[float, float]:
    low, dash, high = text.partition("-")
    if not dash or float(low) < 0 or float(high) < 0:
        raise ValueError
    return float(low), float(high)


def _share(seed: int, number: int) -> float:
    return _mixed(seed, number) / 2.0**64


def _mixed(seed: int, number: int) -> int:
    """Return 64 bits that look random over seeds and numbers (splitmix64)."""
    word = (seed * 0xD1342543DE82EF95 + number * 0x9E3779B97F4A7C15) & _MASK
    word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & _MASK
    return word ^ (word >> 31)

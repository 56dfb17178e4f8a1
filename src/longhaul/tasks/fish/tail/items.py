"""One bad start with what is known about it, named by its own content."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, field

from longhaul.tasks.fish.starts import FishStart, PositionStart, ThrownStart

Velocity = tuple[float, float]
Provenance = dict[str, str | int | float | bool | None]
"""Where a start was met: plain values under the names files use."""


@dataclass(frozen=True, slots=True)
class TailItem:
    """A start worth training on."""

    start: FishStart
    weight: float = 1.0
    """How often it is dealt, next to the others."""
    velocity: Velocity | None = None
    """The first predator's as the episode begins; None: it takes drawing the start to know."""
    provenance: Provenance = field(default_factory=dict)

    @property
    def id(self) -> str:
        """Eight hex digits of the start itself: the same start has the same name everywhere."""
        return start_id(self.start)

    @property
    def known_velocity(self) -> Velocity | None:
        """The predator's velocity as far as the start tells by itself or it was written down."""
        if self.velocity is not None:
            return self.velocity
        match self.start:
            case ThrownStart(velocity):
                return velocity
            case PositionStart(_, predators):
                return (predators[0][2], predators[0][3])
            case _:
                return None


def start_id(start: FishStart) -> str:
    """Return eight hex digits that name a start by its content."""
    return hashlib.blake2b(repr(start.as_value()).encode(), digest_size=4).hexdigest()


def heading(velocity: Velocity) -> float:
    """Return the direction of a velocity in degrees, in [0, 360); that of a rest is 0."""
    angle = math.degrees(math.atan2(velocity[1], velocity[0])) % 360.0
    # A tiny negative angle rounds to 360, which is the same direction as 0.
    return 0.0 if angle >= 360.0 else angle


def speed(velocity: Velocity) -> float:
    """Return the length of a velocity."""
    return math.hypot(*velocity)

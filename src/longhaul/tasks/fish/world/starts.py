"""Starts as values: the start of a seed, a velocity of the predator, a complete position.

As a value of the setting `env.starts`, and in files, a start is a tuple that begins with its kind:
`("seed", seed)`, `("seed", seed, boost)` or `("seed", seed, boost, size)`;
`("velocity", vx, vy)` before the pre-roll; `("thrown", vx, vy)` after it;
`("position", ((x, y, vx, vy), ...), ((x, y, vx, vy), ...))` with the fish and the predators.
`("tail", name)` stands for a start of the run's tail files, in the setting only.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from longhaul.core.env import Start
from longhaul.core.errors import ConfigError, EnvError

Body = tuple[float, float, float, float]
"""x, y and velocity x, y."""
Velocity = tuple[float, float]


def heading(velocity: Velocity) -> float:
    """Return the direction of a velocity in degrees, in [0, 360); that of a rest is 0."""
    angle = math.degrees(math.atan2(velocity[1], velocity[0])) % 360.0
    # A tiny negative angle rounds to 360, which is the same direction as 0.
    return 0.0 if angle >= 360.0 else angle


def speed(velocity: Velocity) -> float:
    """Return the length of a velocity."""
    return math.hypot(*velocity)


@dataclass(frozen=True, slots=True)
class SeedStart:
    """The start this seed has, with the boost and the number of fish it was met with."""

    seed: int
    boost: float | None = None  # None: that of the settings
    size: int | None = None

    def as_value(self) -> Start:
        """Return the start as a setting or a file holds it."""
        if self.boost is None:
            return ("seed", self.seed)
        if self.size is None:
            return ("seed", self.seed, self.boost)
        return ("seed", self.seed, self.boost, self.size)


@dataclass(frozen=True, slots=True)
class ThrownStart:
    """A drawn start whose first predator has this velocity, before or after the pre-roll."""

    velocity: tuple[float, float]
    after_pre_roll: bool = False

    def as_value(self) -> Start:
        """Return the start as a setting or a file holds it."""
        return ("thrown" if self.after_pre_roll else "velocity", *self.velocity)


@dataclass(frozen=True, slots=True)
class PositionStart:
    """Positions and velocities of all bodies; float32 numbers are kept exactly."""

    fish: tuple[Body, ...]
    predators: tuple[Body, ...]

    def as_value(self) -> Start:
        """Return the start as a setting or a file holds it."""
        return ("position", self.fish, self.predators)

    @staticmethod
    def of(fish: NDArray[np.float32], predators: NDArray[np.float32]) -> PositionStart:
        """Return the start with these bodies, [count, 4] each."""
        return PositionStart(_bodies(fish.tolist()), _bodies(predators.tolist()))


FishStart = SeedStart | ThrownStart | PositionStart


def start_name(value: Start) -> str:
    """Return the name of a start from the tail files, or nothing if the value is a whole start."""
    match value:
        case ("tail", str() as name):
            return name
        case _:
            return ""


def read_start(value: Start) -> FishStart:
    """Return the start a setting or a file holds."""
    try:
        return _read(value)
    except (TypeError, ValueError):
        raise EnvError(
            f"start {_shortened(value)} is not of the form ('seed', seed), ('seed', seed, boost), "
            "('velocity', vx, vy), ('thrown', vx, vy) or ('position', fish, predators)"
        ) from None


def _read(value: Start) -> FishStart:
    match value:
        case ("seed", int() as seed):
            return SeedStart(seed)
        case ("seed", int() as seed, float() | int() as boost):
            return SeedStart(seed, float(boost))
        case ("seed", int() as seed, float() | int() as boost, int() as size):
            return SeedStart(seed, float(boost), size)
        case ("velocity" | "thrown" as kind, float() | int() as x, float() | int() as y):
            return ThrownStart((float(x), float(y)), after_pre_roll=kind == "thrown")
        case ("position", tuple() as fish, tuple() as predators):
            return PositionStart(_bodies(fish), _bodies(predators))
        case _:
            raise ValueError


def _bodies(values: object) -> tuple[Body, ...]:
    array = np.asarray(values, np.float64)
    if array.ndim != 2 or array.shape[1] != 4 or not np.isfinite(array).all():
        raise ValueError
    return tuple((x, y, vx, vy) for x, y, vx, vy in array.tolist())


def _shortened(value: Start) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


ATTEMPTS = 64
"""Most starts drawn; the last one is always taken."""
_MASK = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class VelocityRange:
    """Headings in degrees, which may pass through 0, and speeds; lower ends included."""

    angles: tuple[float, float] = (0.0, 360.0)
    """Lowest and highest heading."""
    speeds: tuple[float, float] = (0.0, math.inf)
    """Lowest and highest speed."""
    weight: float = 1.0
    """How often starts in the range are taken, relative to others."""

    def check(self, where: str) -> VelocityRange:
        """Return the range, or refuse negative limits and weights; `where` names the option."""
        if not min(*self.angles, *self.speeds) >= 0 or not 0 <= self.weight < math.inf:
            raise ConfigError(
                f"{where}: the range {list(self.angles)}, {list(self.speeds)} with weight "
                f"{self.weight} needs angles, speeds and a finite weight of 0 or more"
            )
        return self

    def holds(self, velocity: Velocity) -> bool:
        """Whether a velocity is in both ranges."""
        low, high = self.angles
        angle = heading(velocity)
        turned = low <= angle < high if low <= high else angle >= low or angle < high
        return turned and self.speeds[0] <= speed(velocity) < self.speeds[1]


@dataclass(frozen=True, slots=True)
class JointBias:
    """Weights of ranges; the first that holds counts, and 1 where none does."""

    cells: tuple[VelocityRange, ...] = ()

    def weight(self, velocity: Velocity) -> float:
        """Return how often starts with this velocity are wanted, next to others."""
        return next((cell.weight for cell in self.cells if cell.holds(velocity)), 1.0)

    def accepts(self, velocity: Velocity, seed: int, attempt: int) -> bool:
        """Whether to begin with this velocity or to draw another start; the seed decides."""
        highest = max(1.0, *(cell.weight for cell in self.cells))
        return _share(seed, 2 * attempt + 1) * highest < self.weight(velocity)


def redrawn_seed(seed: int, attempt: int) -> int:
    """Return the seed of the start drawn after `attempt` others; the first is the seed's own."""
    return seed if attempt == 0 else _mixed(seed, 2 * attempt) >> 1


def _share(seed: int, number: int) -> float:
    return _mixed(seed, number) / 2.0**64


def _mixed(seed: int, number: int) -> int:
    """Return 64 bits that look random over seeds and numbers (splitmix64)."""
    word = (seed * 0xD1342543DE82EF95 + number * 0x9E3779B97F4A7C15) & _MASK
    word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & _MASK
    return word ^ (word >> 31)

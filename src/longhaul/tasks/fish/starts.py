"""Starts that can be written down: an episode again, a throw of the predator, a whole position.

As a value of the setting `env.starts`, and in files, a start is a tuple that begins with its kind:
`("seed", seed)`, `("seed", seed, boost)` or `("seed", seed, boost, size)`;
`("velocity", vx, vy)` before the pre-roll; `("thrown", vx, vy)` after it;
`("position", ((x, y, vx, vy), ...), ((x, y, vx, vy), ...))` with the fish and the predators.
`("tail", name)` stands for a start of the run's tail files, in the setting only.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from longhaul.core.env import Start
from longhaul.core.errors import EnvError

Body = tuple[float, float, float, float]
"""x, y and velocity x, y."""


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
    """Everybody's place and velocity; float32 numbers come back exactly."""

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

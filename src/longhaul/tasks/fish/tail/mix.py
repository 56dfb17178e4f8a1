"""Making files of starts from others: choose, scale, weight, merge, and say how it was done."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from longhaul.core.errors import ConfigError
from longhaul.tasks.fish.starts import PositionStart, SeedStart, ThrownStart
from longhaul.tasks.fish.tail.files import TailFile
from longhaul.tasks.fish.tail.items import TailItem, Velocity, heading, speed
from longhaul.tasks.fish.tail.joint import JointBias, Range

ANGLE_BIN = 30.0
SPEED_BIN = 0.4


def choose(items: Iterable[TailItem], wanted: Range) -> tuple[TailItem, ...]:
    """Return the items whose predator begins with a heading and speed in the range."""
    return tuple(item for item in items if wanted.holds(_velocity(item)))


def scale(items: Iterable[TailItem], factor: float) -> tuple[TailItem, ...]:
    """Return the items with their predators' velocities times `factor`."""
    if not factor > 0:
        raise ConfigError(f"velocities cannot be scaled by {factor}; give a number above 0")
    return tuple(_scaled(item, factor) for item in items)


def weigh(items: Iterable[TailItem], bias: JointBias) -> tuple[TailItem, ...]:
    """Return the items with weights times those of the bias; an item that weighs 0 goes."""
    weighed = ((item, item.weight * bias.weight(_velocity(item))) for item in items)
    return tuple(replace(item, weight=weight) for item, weight in weighed if weight > 0)


def merge(*parts: Sequence[TailItem]) -> tuple[TailItem, ...]:
    """Return all items in order, each start once; what it weighed in the parts is added up."""
    merged: dict[str, TailItem] = {}
    for item in (item for part in parts for item in part):
        known = merged.get(item.id)
        merged[item.id] = (
            item if known is None else replace(known, weight=known.weight + item.weight)
        )
    return tuple(merged.values())


def multiplied(items: Iterable[TailItem], weight: float) -> tuple[TailItem, ...]:
    """Return the items with weights times `weight`."""
    if not weight > 0:
        raise ConfigError(f"a file cannot be weighted by {weight}; give a number above 0")
    return tuple(replace(item, weight=item.weight * weight) for item in items)


@dataclass(frozen=True, slots=True)
class Recipe:
    """What is done to the parts, in this order: choose, scale, weigh, merge."""

    wanted: Range = field(default_factory=Range)
    factor: float = 1.0
    bias: JointBias = field(default_factory=JointBias)
    note: str = ""

    def selection(self) -> dict[str, float]:
        """Return the range as a file tells it; limits that limit nothing are left out."""
        (low, high), (slow, fast) = self.wanted.angles, self.wanted.speeds
        named: dict[str, float] = {}
        if (low, high) != (0.0, 360.0):
            named |= {"angle_deg_min": low, "angle_deg_max": high}
        if slow > 0:
            named["min_speed"] = slow
        if fast < float("inf"):
            named["max_speed"] = fast
        return named


def mix(parts: Mapping[str, Sequence[TailItem]], recipe: Recipe, *, now: str) -> TailFile:
    """Return a file made from named parts, which says from what and how."""
    made = []
    for items in parts.values():
        kept = choose(items, recipe.wanted)
        kept = kept if recipe.factor == 1.0 else scale(kept, recipe.factor)
        made.append(weigh(kept, recipe.bias))
    items = merge(*made)
    steps = [f"scaled by {recipe.factor:g}"] if recipe.factor != 1.0 else []
    steps += [f"weighted by {len(recipe.bias.cells)} ranges"] if recipe.bias.cells else []
    return TailFile(
        items,
        generated_at=now,
        source=", ".join(parts),
        note="; ".join(filter(None, [recipe.note, *steps])),
        selection=recipe.selection(),
        clusters=clusters(items),
    )


def clusters(items: Iterable[TailItem]) -> tuple[dict[str, Any], ...]:
    """Return how many items there are by heading and speed, most first, equals by place."""
    counts = Counter(
        (int(heading(velocity) // ANGLE_BIN), int(speed(velocity) // SPEED_BIN))
        for item in items
        if (velocity := item.known_velocity) is not None
    )
    return tuple(
        {
            "angle_range": [turn * ANGLE_BIN, (turn + 1) * ANGLE_BIN],
            "speed_range": [round(pace * SPEED_BIN, 6), round((pace + 1) * SPEED_BIN, 6)],
            "count": count,
        }
        for (turn, pace), count in sorted(counts.items(), key=lambda one: (-one[1], one[0]))
    )


def _velocity(item: TailItem) -> Velocity:
    velocity = item.known_velocity
    if velocity is None:
        raise ConfigError(
            f"start {item.id} is a seed whose predator's velocity was not written down; pin it "
            "first, which draws it"
        )
    return velocity


def _scaled(item: TailItem, factor: float) -> TailItem:
    provenance = {**item.provenance, "scaled_by": factor, "scaled_from": item.id}
    match item.start:
        case ThrownStart((x, y), after):
            thrown = ThrownStart((x * factor, y * factor), after)
            known = item.velocity and (item.velocity[0] * factor, item.velocity[1] * factor)
            return replace(item, start=thrown, velocity=known, provenance=provenance)
        case PositionStart(fish, predators):
            hunters = tuple((x, y, vx * factor, vy * factor) for x, y, vx, vy in predators)
            velocity = (hunters[0][2], hunters[0][3])
            return replace(
                item,
                start=PositionStart(fish, hunters),
                velocity=velocity,
                provenance=provenance,
            )
        case SeedStart():
            raise ConfigError(
                f"start {item.id} is a seed, which draws its own velocities; pin it before scaling"
            )

"""Making files of starts from others: choose, scale, weight, merge; `longhaul tool fish mix`."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from longhaul.core.errors import ConfigError
from longhaul.tasks.fish.hard_starts.files import (
    TailFile,
    TailItem,
    merge,
    read_tail_file,
    write_tail_file,
)
from longhaul.tasks.fish.hard_starts.plan import pin, thin
from longhaul.tasks.fish.options import FishOptions
from longhaul.tasks.fish.world.starts import (
    JointBias,
    PositionStart,
    SeedStart,
    ThrownStart,
    Velocity,
    VelocityRange,
    heading,
    speed,
)

ANGLE_BIN = 30.0
SPEED_BIN = 0.4


def choose(items: Iterable[TailItem], wanted: VelocityRange) -> tuple[TailItem, ...]:
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


def multiplied(items: Iterable[TailItem], weight: float) -> tuple[TailItem, ...]:
    """Return the items with weights times `weight`."""
    if not weight > 0:
        raise ConfigError(f"a file cannot be weighted by {weight}; give a number above 0")
    return tuple(replace(item, weight=item.weight * weight) for item in items)


@dataclass(frozen=True, slots=True)
class MixRecipe:
    """The operations on the parts, in this order: choose, scale, weigh, merge."""

    wanted: VelocityRange = field(default_factory=VelocityRange)
    factor: float = 1.0
    bias: JointBias = field(default_factory=JointBias)
    note: str = ""

    def selection(self) -> dict[str, float]:
        """Return the range as a file holds it, without limits that have no effect."""
        (low, high), (slow, fast) = self.wanted.angles, self.wanted.speeds
        named: dict[str, float] = {}
        if (low, high) != (0.0, 360.0):
            named |= {"angle_deg_min": low, "angle_deg_max": high}
        if slow > 0:
            named["min_speed"] = slow
        if fast < float("inf"):
            named["max_speed"] = fast
        return named


def mix(parts: Mapping[str, Sequence[TailItem]], recipe: MixRecipe, *, now: str) -> TailFile:
    """Return a file made from named parts; it records them and the operations."""
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
            f"start {item.id} is a seed whose predator's velocity is unknown; pin it first, which "
            "draws it"
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


def run_mix(arguments: Sequence[str]) -> str:
    """Write the file that the arguments describe; return a summary."""
    asked = _parser().parse_args(list(arguments))
    parts = {part: _read(part, asked) for part in asked.parts}
    recipe = MixRecipe(
        wanted=VelocityRange(_limits(asked.angles, "--angles"), _limits(asked.speeds, "--speeds")),
        factor=asked.scale,
        bias=JointBias(tuple(map(_weighted, filter(None, asked.weight.split(","))))),
        note=asked.note,
    )
    file = mix(parts, recipe, now=datetime.now(UTC).isoformat(timespec="seconds"))
    if not file.items:
        raise ConfigError(
            f"none of the {sum(map(len, parts.values()))} starts is selected; widen --angles, "
            "--speeds or --weight"
        )
    try:
        asked.output.write_text(write_tail_file(file), encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{asked.output} cannot be written: {error.strerror}") from None
    lines = [f"{asked.output}: {len(file.items)} starts from {file.source}"]
    for cluster in file.clusters:
        (low, high), (slow, fast) = cluster["angle_range"], cluster["speed_range"]
        lines.append(
            f"  {low:3.0f} to {high:3.0f} degrees, {slow:g} to {fast:g}: {cluster['count']}"
        )
    return "\n".join(lines)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="longhaul tool fish mix",
        description="Make a file of bad starts from others: choose, scale, weigh, merge.",
    )
    parser.add_argument(
        "parts",
        nargs="+",
        metavar="FILE[*WEIGHT]",
        help="tail or worst-seeds files; a weight says how often the file's starts are dealt",
    )
    parser.add_argument("-o", "--output", type=Path, required=True, help="the file to write")
    parser.add_argument(
        "--angles", default="0-360", metavar="LOW-HIGH", help="headings to keep, in degrees"
    )
    parser.add_argument("--speeds", default="0-inf", metavar="LOW-HIGH", help="speeds to keep")
    parser.add_argument("--scale", type=float, default=1.0, help="multiply predators' velocities")
    parser.add_argument(
        "--weight", default="", metavar="RANGES", help="weights, as in 90-150/1.8-3:0.5"
    )
    parser.add_argument(
        "--velocities",
        choices=("before", "after"),
        default="after",
        help="when bare velocities are given to the predator: before or after its pre-roll",
    )
    parser.add_argument(
        "--pin", action="store_true", help="turn seeds and velocities into whole positions"
    )
    parser.add_argument(
        "--fish",
        type=int,
        default=0,
        help="keep this many fish of a position, those nearest to a predator",
    )
    parser.add_argument("--note", default="", help="a note to store in the file")
    return parser


def _read(part: str, asked: argparse.Namespace) -> tuple[TailItem, ...]:
    path, star, weight = part.partition("*")
    items = read_tail_file(Path(path), applied=asked.velocities, where="mix").items
    if star:
        try:
            items = multiplied(items, float(weight))
        except ValueError:
            raise ConfigError(f"{part!r} is not of the form FILE*WEIGHT") from None
    if asked.pin:
        items = pin(items, FishOptions())
    return tuple(_thinned(item, asked.fish) for item in items) if asked.fish else items


def _thinned(item: TailItem, count: int) -> TailItem:
    if not isinstance(item.start, PositionStart):
        return item
    return replace(item, start=thin(item.start, count))


def _weighted(text: str) -> VelocityRange:
    """Read one range of `--weight`, as in `90-150/1.8-3:0.5`."""
    ranges, colon, weight = text.strip().partition(":")
    angles, slash, speeds = ranges.partition("/")
    try:
        if not (colon and slash):
            raise ValueError
        flag = "--weight"
        cell = VelocityRange(_limits(angles, flag), _limits(speeds, flag), float(weight))
    except ValueError:
        raise ConfigError(
            f"--weight {text!r} is not of the form LOW-HIGH/LOW-HIGH:WEIGHT with headings in "
            "degrees, then speeds"
        ) from None
    return cell.check("--weight")


def _limits(text: str, flag: str) -> tuple[float, float]:
    low, dash, high = text.partition("-")
    try:
        if not dash:
            raise ValueError
        return float(low), float(high)
    except ValueError:
        raise ConfigError(f"{flag} {text!r} is not of the form LOW-HIGH") from None

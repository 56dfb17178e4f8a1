"""Turning any start into the whole position it leads to, and fitting positions into schools."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from longhaul.core.errors import ConfigError
from longhaul.core.settings import Settings
from longhaul.tasks.fish.options import SCHOOL_SIZE, Options
from longhaul.tasks.fish.school import SchoolFactory
from longhaul.tasks.fish.starts import PositionStart, SeedStart, ThrownStart
from longhaul.tasks.fish.tail.items import TailItem


def pin(items: Sequence[TailItem], options: Options) -> tuple[TailItem, ...]:
    """Return the items as positions after the pre-roll, drawn in the world of `options`.

    A position needs no configuration to be the same start everywhere. What a bare velocity leaves
    open is drawn from a seed that the start's own name gives.
    """
    open_ones = [item for item in items if not isinstance(item.start, PositionStart)]
    if not open_ones:
        return tuple(items)
    asked = [_seed_and_start(item, options) for item in open_ones]
    sizes = [start.size or 0 for _, start in asked if isinstance(start, SeedStart)]
    room = replace(options, fish=max([options.fish, *sizes]))
    schools = SchoolFactory(room)(len(open_ones))
    schools.configure(Settings([replace(SCHOOL_SIZE, default=options.fish, high=room.fish)]))
    schools.reset(
        np.arange(len(open_ones)),
        np.array([seed for seed, _ in asked]),
        [start.as_value() for _, start in asked],
    )
    pinned = {item.id: schools.present_start(env) for env, item in enumerate(open_ones)}
    return tuple(_with_position(item, pinned.get(item.id)) for item in items)


def thin(start: PositionStart, count: int) -> PositionStart:
    """Return the start with the `count` fish nearest to a predator, in their old order."""
    if count < 1:
        raise ConfigError(f"a start cannot be thinned to {count} fish; keep at least 1")
    nearest = sorted(
        range(len(start.fish)),
        key=lambda row: min(
            math.hypot(start.fish[row][0] - hunter[0], start.fish[row][1] - hunter[1])
            for hunter in start.predators
        ),
    )
    return replace(start, fish=tuple(start.fish[row] for row in sorted(nearest[:count])))


def fitted(item: TailItem, options: Options, *, where: str) -> TailItem:
    """Return the item as a school of `options` can begin from it, or raise a ConfigError."""
    start = item.start
    if isinstance(start, PositionStart):
        if len(start.predators) != options.predator.count:
            raise ConfigError(
                f"{where}: start {item.id} has {len(start.predators)} predators, and "
                f"options.predator.count is {options.predator.count}"
            )
        if len(start.fish) > options.fish:
            return replace(item, start=thin(start, options.fish))
    if isinstance(start, SeedStart) and start.size is not None and start.size > options.fish:
        raise ConfigError(
            f"{where}: start {item.id} is a seed played with {start.size} fish, and options.fish "
            f"is {options.fish}; `longhaul tool fish mix --pin` makes it a position that fits"
        )
    return item


def _seed_and_start(item: TailItem, options: Options) -> tuple[int, SeedStart | ThrownStart]:
    """Return the seed the rest of a start is drawn from, and the start at its full size."""
    match item.start:
        case SeedStart(seed, boost, size):
            speed = options.start.escape_boost_speed if boost is None else boost
            return seed, SeedStart(seed, speed, size or options.fish)
        case ThrownStart() as thrown:
            return int(item.id, 16), thrown
        case PositionStart():
            raise AssertionError("a position leaves nothing to draw")


def _with_position(item: TailItem, position: PositionStart | None) -> TailItem:
    if position is None:
        return item
    hunter = position.predators[0]
    provenance = {**item.provenance}
    if isinstance(item.start, SeedStart):
        provenance["seed"] = item.start.seed
    return replace(item, start=position, velocity=(hunter[2], hunter[3]), provenance=provenance)

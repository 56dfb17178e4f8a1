"""What a fish knows of the fish around it."""

from __future__ import annotations

import math

import numpy as np

from longhaul.core.env import Array
from longhaul.tasks.fish.dynamics import length
from longhaul.tasks.fish.world import FISH_SPEED, Rules, World, kernel, single

COUNT, ACROSS, ALONG, NEAREST, SPEED, SPREAD, DIVERGENCE = range(7)
"""Columns of `World.nearby`: neighbours over K; mean way to the K nearest and the nearest
distance, over the radius; mean and deviation of speed and mean divergence, over the top speed."""

Way = tuple[float, float]

_ZERO = single(0.0)
_ONE = single(1.0)


@kernel
def _insert(closest: Array, env: int, known: int, distance: float, way: Way) -> int:
    """Keep the K nearest in order of distance, the first seen before its equals."""
    most: int = closest.shape[1]
    if known == most and not distance < closest[env, most - 1, 0]:
        return known
    place = known if known < most else most - 1
    while place > 0 and distance < closest[env, place - 1, 0]:
        for column in range(3):
            closest[env, place, column] = closest[env, place - 1, column]
        place -= 1
    closest[env, place, 0], closest[env, place, 1], closest[env, place, 2] = (
        distance,
        way[0],
        way[1],
    )
    return min(known + 1, most)


@kernel
def _summarise(nearby: Array, closest: Array, env: int, row: int, seen: tuple[int, float]) -> None:
    """Turn sums over the neighbours of one fish into what it is shown."""
    known, radius = seen
    count = nearby[env, row, COUNT]
    across, along = _ZERO, _ZERO
    for place in range(known):
        across += closest[env, place, 1]
        along += closest[env, place, 2]
    nearby[env, row, ACROSS] = across / (np.float32(known) * radius)
    nearby[env, row, ALONG] = along / (np.float32(known) * radius)
    nearby[env, row, NEAREST] = closest[env, 0, 0] / radius
    nearby[env, row, SPREAD] = math.sqrt(nearby[env, row, SPREAD] / count) / FISH_SPEED
    nearby[env, row, SPEED] /= FISH_SPEED
    nearby[env, row, DIVERGENCE] /= count * FISH_SPEED
    nearby[env, row, COUNT] = count / np.float32(closest.shape[1])


@kernel
def _add(nearby: Array, env: int, row: int, speed: float, away: float) -> None:
    """Count one neighbour with its speed and the part of it that leads away."""
    nearby[env, row, COUNT] += _ONE
    # Welford's update: a difference of two sums would drown small deviations in rounding.
    before = speed - nearby[env, row, SPEED]
    nearby[env, row, SPEED] += before / nearby[env, row, COUNT]
    spread = nearby[env, row, SPREAD] + before * (speed - nearby[env, row, SPEED])
    nearby[env, row, SPREAD] = max(spread, _ZERO)
    nearby[env, row, DIVERGENCE] += away


@kernel
def _look_around(world: World, env: int, row: int, radius: float) -> None:
    fish, nearby, closest = world.fish, world.nearby, world.closest
    known = 0
    for other in range(world.size[env]):
        if other == row or not world.alive[env, other]:
            continue
        across = fish[env, other, 0] - fish[env, row, 0]
        along = fish[env, other, 1] - fish[env, row, 1]
        distance = length(across, along)
        if distance > radius:
            continue
        known = _insert(closest, env, known, distance, (across, along))
        away = fish[env, other, 2] * across + fish[env, other, 3] * along
        speed = length(fish[env, other, 2], fish[env, other, 3])
        _add(nearby, env, row, speed, away / distance if distance > _ZERO else _ZERO)
    if known > 0:
        _summarise(nearby, closest, env, row, (known, radius))


@kernel
def matter(world: World, env: int, rules: Rules) -> bool:
    """Return whether anything this school sees or is paid depends on neighbours."""
    return rules.needs_neighbours or world.density_penalty[env] > _ZERO


@kernel
def look_around(world: World, env: int, radius: float) -> None:
    """Write what every live fish of one school knows of its neighbours; zeros without any."""
    for row in range(world.nearby.shape[1]):
        for column in range(world.nearby.shape[2]):
            world.nearby[env, row, column] = _ZERO
        if world.alive[env, row]:
            _look_around(world, env, row, radius)

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

_ZERO = single(0.0)
_ONE = single(1.0)


@kernel
def _insert(closest: Array, known: int, distance: float, across: float, along: float) -> int:
    """Keep the K nearest in order of distance, the first seen before its equals."""
    if known == len(closest) and not distance < closest[known - 1, 0]:
        return known
    place = known if known < len(closest) else known - 1
    while place > 0 and distance < closest[place - 1, 0]:
        closest[place] = closest[place - 1]
        place -= 1
    closest[place, 0], closest[place, 1], closest[place, 2] = distance, across, along
    return min(known + 1, len(closest))


@kernel
def _summarise(nearby: Array, closest: Array, known: int, radius: float) -> None:
    """Turn sums over the neighbours of one fish into what it is shown."""
    count = nearby[COUNT]
    for place in range(known):
        nearby[ACROSS] += closest[place, 1]
        nearby[ALONG] += closest[place, 2]
    nearby[ACROSS] /= np.float32(known) * radius
    nearby[ALONG] /= np.float32(known) * radius
    nearby[NEAREST] = closest[0, 0] / radius
    nearby[SPREAD] = math.sqrt(max(nearby[SPREAD], _ZERO) / count) / FISH_SPEED
    nearby[SPEED] /= FISH_SPEED
    nearby[DIVERGENCE] /= count * FISH_SPEED
    nearby[COUNT] = count / np.float32(len(closest))


@kernel
def _look_around(world: World, env: int, row: int, radius: float) -> None:
    fish, nearby, closest = world.fish[env], world.nearby[env, row], world.closest[env]
    known = 0
    for other in range(world.size[env]):
        if other == row or not world.alive[env, other]:
            continue
        across, along = fish[other, 0] - fish[row, 0], fish[other, 1] - fish[row, 1]
        distance = length(across, along)
        if distance > radius:
            continue
        known = _insert(closest, known, distance, across, along)
        speed = length(fish[other, 2], fish[other, 3])
        nearby[COUNT] += _ONE
        # Welford's update: a difference of two sums would drown small deviations in rounding.
        before = speed - nearby[SPEED]
        nearby[SPEED] += before / nearby[COUNT]
        nearby[SPREAD] += before * (speed - nearby[SPEED])
        if distance > _ZERO:
            away = fish[other, 2] * across + fish[other, 3] * along
            nearby[DIVERGENCE] += away / distance
    if known > 0:
        _summarise(nearby, closest, known, radius)


@kernel
def matter(world: World, env: int, rules: Rules) -> bool:
    """Return whether anything this school sees or is paid depends on neighbours."""
    return rules.needs_neighbours or world.density_penalty[env] > _ZERO


@kernel
def look_around(world: World, env: int, radius: float) -> None:
    """Write what every live fish of one school knows of its neighbours; zeros without any."""
    world.nearby[env] = _ZERO
    for row in range(world.size[env]):
        if world.alive[env, row]:
            _look_around(world, env, row, radius)

"""What a fish sees: the world's axes as in the original, or its own frame."""

from __future__ import annotations

import numpy as np

from longhaul.core.env import Array
from longhaul.core.native import kernel
from longhaul.tasks.fish.world.dynamics import ACROSS, ALONG, COUNT, length
from longhaul.tasks.fish.world.world import (
    FISH_SPEED,
    HORIZON,
    RADIUS,
    STANDSTILL,
    VISION,
    FishRules,
    FishWorld,
    StepArrays,
    single,
)

WORLD_INPUTS = 11
OWN_INPUTS = 8
PREDATOR_INPUTS = 9
OBSTACLE_INPUTS = 3
NEIGHBOR_INPUTS = 7
HEADING_X, HEADING_Y = 2, 3
"""Columns of the heading, which makes a fish's own frame."""

_ZERO = single(0.0)
_ONE = single(1.0)
_FAR = single(np.inf)


def input_count(
    *, own_frame: bool, predators: int, has_obstacles: bool, sees_neighbors: bool
) -> int:
    """Return the number of inputs of one fish."""
    neighbors = NEIGHBOR_INPUTS if sees_neighbors else 0
    if not own_frame:
        return WORLD_INPUTS + neighbors
    obstacles = OBSTACLE_INPUTS if has_obstacles else 0
    return OWN_INPUTS + predators * PREDATOR_INPUTS + obstacles + neighbors


# The functions for one school take the world, those for one fish only the arrays they read: handing
# over a tuple of arrays costs more than what is done for one fish.


@kernel
def nearest_predator(fish: Array, predators: Array, env: int, row: int) -> int:
    """Return the number of the predator nearest to this fish."""
    if predators.shape[1] == 1:
        return 0
    return next_predator(fish, predators, env, row, (-_ONE, -1))


@kernel
def next_predator(
    fish: Array, predators: Array, env: int, row: int, last: tuple[float, int]
) -> int:
    """Return the nearest predator behind the last one; of equals, the lower number first."""
    best, nearest = _FAR, 0
    for number in range(predators.shape[1]):
        distance = length(
            predators[env, number, 0] - fish[env, row, 0],
            predators[env, number, 1] - fish[env, row, 1],
        )
        behind = distance > last[0] or (distance == last[0] and number > last[1])
        if behind and distance < best:
            best, nearest = distance, number
    return nearest


@kernel
def _show_world(world: FishWorld, env: int, obs: Array) -> None:
    """Write the original's 11 inputs; an unseen predator is all zeros, as it was there."""
    fish, predators = world.fish, world.predators
    for row in range(fish.shape[1]):
        if not world.alive[env, row]:
            continue
        slot = env * fish.shape[1] + row
        number = nearest_predator(fish, predators, env, row)
        x, y = fish[env, row, 0], fish[env, row, 1]
        obs[slot, 0], obs[slot, 1] = x / RADIUS, y / RADIUS
        obs[slot, 2], obs[slot, 3] = fish[env, row, 2] / FISH_SPEED, fish[env, row, 3] / FISH_SPEED
        obs[slot, 4] = (RADIUS - length(x, y)) / RADIUS
        across, along = predators[env, number, 0] - x, predators[env, number, 1] - y
        distance = length(across, along)
        if distance < VISION:
            obs[slot, 5] = _ONE
            obs[slot, 6], obs[slot, 7] = across / VISION, along / VISION
            obs[slot, 8] = predators[env, number, 2] / FISH_SPEED
            obs[slot, 9] = predators[env, number, 3] / FISH_SPEED
            obs[slot, 10] = distance / VISION
        else:
            for column in range(5, 11):
                obs[slot, column] = _ZERO


@kernel
def _show_self(world: FishWorld, env: int, obs: Array) -> None:
    """Write place, heading and speed, and the wall, in the fish's frame."""
    fish = world.fish
    for row in range(fish.shape[1]):
        if not world.alive[env, row]:
            continue
        slot = env * fish.shape[1] + row
        x, y = fish[env, row, 0], fish[env, row, 1]
        speed = length(fish[env, row, 2], fish[env, row, 3])
        ahead, up = _ONE, _ZERO
        if speed > STANDSTILL:
            ahead, up = fish[env, row, 2] / speed, fish[env, row, 3] / speed
        obs[slot, 0], obs[slot, 1] = x / RADIUS, y / RADIUS
        obs[slot, HEADING_X], obs[slot, HEADING_Y] = ahead, up
        obs[slot, 4] = speed / FISH_SPEED
        obs[slot, 5] = (RADIUS - length(x, y)) / RADIUS
        obs[slot, 6] = (x * ahead + y * up) / RADIUS
        obs[slot, 7] = (y * ahead - x * up) / RADIUS


@kernel
def _show_predator(
    obs: Array, slot: int, at: int, way: tuple[float, float], speed: tuple[float, float]
) -> float:
    """Write one predator in the fish's frame and return its distance.

    An unseen one is shown at the largest distance and the latest time of approach.
    """
    across, along = way
    speed_x, speed_y = speed
    ahead, up = obs[slot, HEADING_X], obs[slot, HEADING_Y]
    distance = length(across, along)
    if not distance < VISION:
        for column in range(at, at + PREDATOR_INPUTS):
            obs[slot, column] = _ZERO
        obs[slot, at + 5] = _ONE
        obs[slot, at + 6] = _ONE
        return distance
    square = speed_x * speed_x + speed_y * speed_y
    time = _ZERO
    if square > _ZERO:
        time = min(max(-(across * speed_x + along * speed_y) / square, _ZERO), HORIZON)
    miss_x, miss_y = across + speed_x * time, along + speed_y * time
    obs[slot, at] = _ONE
    obs[slot, at + 1] = (across * ahead + along * up) / VISION
    obs[slot, at + 2] = (along * ahead - across * up) / VISION
    obs[slot, at + 3] = (speed_x * ahead + speed_y * up) / FISH_SPEED
    obs[slot, at + 4] = (speed_y * ahead - speed_x * up) / FISH_SPEED
    obs[slot, at + 5] = distance / VISION
    obs[slot, at + 6] = time / HORIZON
    obs[slot, at + 7] = (miss_x * ahead + miss_y * up) / VISION
    obs[slot, at + 8] = (miss_y * ahead - miss_x * up) / VISION
    return distance


@kernel
def _show_predators(world: FishWorld, env: int, obs: Array) -> None:
    """Write all predators, the nearest first."""
    fish, predators = world.fish, world.predators
    for row in range(fish.shape[1]):
        if not world.alive[env, row]:
            continue
        number = nearest_predator(fish, predators, env, row)
        for shown in range(predators.shape[1]):
            way = (
                predators[env, number, 0] - fish[env, row, 0],
                predators[env, number, 1] - fish[env, row, 1],
            )
            speed = (
                predators[env, number, 2] - fish[env, row, 2],
                predators[env, number, 3] - fish[env, row, 3],
            )
            at = OWN_INPUTS + shown * PREDATOR_INPUTS
            distance = _show_predator(obs, env * fish.shape[1] + row, at, way, speed)
            if shown + 1 < predators.shape[1]:
                number = next_predator(fish, predators, env, row, (distance, number))


@kernel
def _show_obstacles(world: FishWorld, env: int, obs: Array, obstacles: Array) -> None:
    """Write the gap to the nearest disc's edge and the way there, in the fish's frame."""
    at = OWN_INPUTS + world.predators.shape[1] * PREDATOR_INPUTS
    for row in range(world.fish.shape[1]):
        if not world.alive[env, row]:
            continue
        slot = env * world.fish.shape[1] + row
        ahead, up = obs[slot, HEADING_X], obs[slot, HEADING_Y]
        best = _FAR
        for number in range(len(obstacles)):
            across = obstacles[number, 0] - world.fish[env, row, 0]
            along = obstacles[number, 1] - world.fish[env, row, 1]
            distance = max(length(across, along), STANDSTILL)
            gap = distance - obstacles[number, 2]
            if gap < best:
                best = gap
                obs[slot, at] = min(gap / VISION, _ONE)
                obs[slot, at + 1] = (across * ahead + along * up) / distance
                obs[slot, at + 2] = (along * ahead - across * up) / distance


@kernel
def _show_neighbors(world: FishWorld, env: int, obs: Array, rules: FishRules) -> None:
    """Write the neighbors' summary; the mean way to them turned into the frame of the rest."""
    nearby = world.nearby
    first = obs.shape[1] - NEIGHBOR_INPUTS
    for row in range(nearby.shape[1]):
        if not world.alive[env, row]:
            continue
        slot = env * nearby.shape[1] + row
        for column in range(NEIGHBOR_INPUTS):
            obs[slot, first + column] = nearby[env, row, column]
        obs[slot, first + COUNT] = min(nearby[env, row, COUNT], _ONE)
        if rules.own_frame:
            ahead, up = obs[slot, HEADING_X], obs[slot, HEADING_Y]
            across, along = nearby[env, row, ACROSS], nearby[env, row, ALONG]
            obs[slot, first + ACROSS] = across * ahead + along * up
            obs[slot, first + ALONG] = along * ahead - across * up


@kernel
def observe(world: FishWorld, rows: StepArrays, env: int, rules: FishRules) -> None:
    """Write what every fish of one school sees; those not alive see zeros."""
    obs = rows.obs
    first = env * world.fish.shape[1]
    for row in range(world.fish.shape[1]):
        if not world.alive[env, row]:
            for column in range(obs.shape[1]):
                obs[first + row, column] = _ZERO
    if rules.own_frame:
        _show_self(world, env, obs)
        _show_predators(world, env, obs)
        if len(rules.obstacles) > 0:
            _show_obstacles(world, env, obs, rules.obstacles)
    else:
        _show_world(world, env, obs)
    if rules.sees_neighbors:
        _show_neighbors(world, env, obs, rules)

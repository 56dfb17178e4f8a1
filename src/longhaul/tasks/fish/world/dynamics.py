"""How fish and predators move, and what each fish has for neighbors."""

from __future__ import annotations

import math

import numpy as np

from longhaul.core.env import Array
from longhaul.core.native import kernel
from longhaul.tasks.fish.world.world import (
    BRAKE,
    CAPTURE,
    FISH_ACCELERATION,
    FISH_BOUNCE,
    FISH_BRAKE,
    FISH_SPEED,
    FORWARD,
    GRAVITY,
    LEFT,
    PREDATOR_BOUNCE,
    RADIUS,
    RIGHT,
    STANDSTILL,
    TIME_STEP,
    TURN_COSINE,
    TURN_SINE,
    FishRules,
    FishWorld,
    single,
)

# Every number is float32, as in the original: a bare literal would make an expression float64.
_ZERO = single(0.0)
_ONE = single(1.0)
_FAR = single(np.inf)


@kernel
def length(x: float, y: float) -> float:
    """Return the length of a vector."""
    return math.sqrt(x * x + y * y)


@kernel
def keep_inside(
    place: tuple[float, float], velocity: tuple[float, float], bounce: float, obstacles: Array
) -> tuple[float, float, float, float]:
    """Return a body thrown back from the discs it is in and from the wall it is beyond."""
    x, y = place
    speed_x, speed_y = velocity
    for number in range(len(obstacles)):
        across, along = x - obstacles[number, 0], y - obstacles[number, 1]
        distance = length(across, along)
        if distance < obstacles[number, 2]:
            if distance > _ZERO:
                across, along = across / distance, along / distance
            else:
                across, along = _ONE, _ZERO
            inwards = min(speed_x * across + speed_y * along, _ZERO)
            speed_x -= (_ONE + bounce) * inwards * across
            speed_y -= (_ONE + bounce) * inwards * along
            x = obstacles[number, 0] + across * obstacles[number, 2]
            y = obstacles[number, 1] + along * obstacles[number, 2]
    distance = length(x, y)
    if distance > RADIUS:
        across, along = x / distance, y / distance
        outwards = speed_x * across + speed_y * along
        speed_x = (speed_x - outwards * across) - bounce * (outwards * across)
        speed_y = (speed_y - outwards * along) - bounce * (outwards * along)
        x, y = across * RADIUS, along * RADIUS
    return x, y, speed_x, speed_y


@kernel
def steer(x: float, y: float, action: int) -> tuple[float, float]:
    """Return a fish's velocity after an action."""
    speed = length(x, y)
    across, along = _ONE, _ZERO
    if speed > STANDSTILL:
        across, along = x / speed, y / speed
    if action == FORWARD:
        x += across * FISH_ACCELERATION * TIME_STEP
        y += along * FISH_ACCELERATION * TIME_STEP
    elif action == LEFT:
        x = (across * TURN_COSINE - along * TURN_SINE) * speed
        y = (across * TURN_SINE + along * TURN_COSINE) * speed
    elif action == RIGHT:
        x = (across * TURN_COSINE + along * TURN_SINE) * speed
        y = (along * TURN_COSINE - across * TURN_SINE) * speed
    elif action == BRAKE:
        x, y = FISH_BRAKE * x, FISH_BRAKE * y
    speed = length(x, y)
    if speed > FISH_SPEED:
        x, y = x / speed * FISH_SPEED, y / speed * FISH_SPEED
    return x, y


@kernel
def glide(bodies: Array, env: int, row: int, bounce: float, obstacles: Array) -> None:
    """Carry one body along for one step."""
    x, y = bodies[env, row, 2], bodies[env, row, 3]
    place = (bodies[env, row, 0] + x * TIME_STEP, bodies[env, row, 1] + y * TIME_STEP)
    place_x, place_y, x, y = keep_inside(place, (x, y), bounce, obstacles)
    bodies[env, row, 0], bodies[env, row, 1] = place_x, place_y
    bodies[env, row, 2], bodies[env, row, 3] = x, y


@kernel
def fall(predators: Array, env: int, number: int, obstacles: Array) -> None:
    """Let a predator fall for one step."""
    predators[env, number, 3] += GRAVITY * TIME_STEP
    glide(predators, env, number, PREDATOR_BOUNCE, obstacles)


@kernel
def chase(world: FishWorld, env: int, number: int, rules: FishRules) -> None:
    """Let a predator speed up towards the fish that is nearest, and swim for one step."""
    predators, fish = world.predators, world.fish
    x, y = predators[env, number, 0], predators[env, number, 1]
    best, target = _FAR, -1
    for row in range(world.size[env]):
        distance = length(fish[env, row, 0] - x, fish[env, row, 1] - y)
        if world.alive[env, row] and distance < best:
            best, target = distance, row
    if target >= 0 and best > _ZERO:
        push = rules.homing * TIME_STEP / best
        predators[env, number, 2] += (fish[env, target, 0] - x) * push
        predators[env, number, 3] += (fish[env, target, 1] - y) * push
    speed = length(predators[env, number, 2], predators[env, number, 3])
    if speed > rules.homing_speed:
        predators[env, number, 2] *= rules.homing_speed / speed
        predators[env, number, 3] *= rules.homing_speed / speed
    glide(predators, env, number, PREDATOR_BOUNCE, rules.obstacles)


@kernel
def is_caught(fish: Array, predators: Array, env: int, row: int) -> bool:
    """Return whether a predator is near enough to eat this fish."""
    for number in range(predators.shape[1]):
        across = fish[env, row, 0] - predators[env, number, 0]
        along = fish[env, row, 1] - predators[env, number, 1]
        if length(across, along) < CAPTURE:
            return True
    return False


@kernel
def move_predators(world: FishWorld, env: int, rules: FishRules) -> None:
    """Move the predators of one school.

    Before the fish: a homing one follows their last positions. Its first step does not depend on
    their actions, so the deaths that no action avoids are known.
    """
    for number in range(world.predators.shape[1]):
        if rules.homing > _ZERO:
            chase(world, env, number, rules)
        else:
            fall(world.predators, env, number, rules.obstacles)


@kernel
def move_school(world: FishWorld, env: int, actions: Array, rules: FishRules) -> None:
    """Move everybody in one school and let the predators eat.

    `actions` are those of all rows; a fish without one (below 0) stays where it is.
    """
    fish, alive = world.fish, world.alive
    obstacles = rules.obstacles
    world.elapsed[env] += 1
    move_predators(world, env, rules)
    first = env * fish.shape[1]
    for row in range(world.size[env]):
        if not alive[env, row]:
            continue
        action = actions[first + row]
        if action >= 0:
            x, y = steer(fish[env, row, 2], fish[env, row, 3], action)
            fish[env, row, 2], fish[env, row, 3] = x, y
            glide(fish, env, row, FISH_BOUNCE, obstacles)
        if is_caught(fish, world.predators, env, row):
            alive[env, row] = False
            world.deaths[env, row] = world.elapsed[env]


COUNT, ACROSS, ALONG, NEAREST, SPEED, SPREAD, DIVERGENCE = range(7)
"""Columns of `FishWorld.nearby`: neighbors over K; mean way to the K nearest and the nearest
distance, over the radius; mean and deviation of speed and mean divergence, over the top speed."""

Way = tuple[float, float]


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
def _summarize(nearby: Array, closest: Array, env: int, row: int, seen: tuple[int, float]) -> None:
    """Turn sums over the neighbors of one fish into what it is shown."""
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
    """Count one neighbor with its speed and the part of it that leads away."""
    nearby[env, row, COUNT] += _ONE
    # Welford's update: a difference of two sums would drown small deviations in rounding.
    before = speed - nearby[env, row, SPEED]
    nearby[env, row, SPEED] += before / nearby[env, row, COUNT]
    spread = nearby[env, row, SPREAD] + before * (speed - nearby[env, row, SPEED])
    nearby[env, row, SPREAD] = max(spread, _ZERO)
    nearby[env, row, DIVERGENCE] += away


@kernel
def _look_around(world: FishWorld, env: int, row: int, radius: float) -> None:
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
        _summarize(nearby, closest, env, row, (known, radius))


@kernel
def matter(world: FishWorld, env: int, rules: FishRules) -> bool:
    """Return whether anything this school sees or is paid depends on neighbors."""
    return rules.needs_neighbors or world.density_penalty[env] > _ZERO


@kernel
def look_around(world: FishWorld, env: int, radius: float) -> None:
    """Write what every live fish of one school knows of its neighbors; zeros without any."""
    for row in range(world.nearby.shape[1]):
        for column in range(world.nearby.shape[2]):
            world.nearby[env, row, column] = _ZERO
        if world.alive[env, row]:
            _look_around(world, env, row, radius)

"""How an episode begins: draws in the original's order, turned into places and velocities."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from longhaul.core.env import Array
from longhaul.core.native import entry, kernel
from longhaul.tasks.fish.options import FishStartOptions, sector_table
from longhaul.tasks.fish.world.dynamics import fall, keep_inside
from longhaul.tasks.fish.world.world import (
    FISH_BOUNCE,
    FISH_SPEED,
    PREDATOR_SPEED,
    RADIUS,
    SPAWN_SHARE,
    FishWorld,
    world_stamp,
)

CENTER = 1e-5
"""A fish nearer to the middle than this draws the direction it flees in."""
_SPAWN = SPAWN_SHARE * float(RADIUS)


class ResetPlan(NamedTuple):
    """The start options as the kernels read them."""

    headings: Array  # [sectors, 3]: low, high, weight added up
    speeds: Array  # [bins, 3]
    spawn_jitter: float
    steps: int
    angle_jitter: float
    speed_jitter: float


class Draws(NamedTuple):
    """The random numbers of one start, in the order they were drawn."""

    places: NDArray[np.float64]  # [fish, 4] in [0, 1)
    turns: NDArray[np.float64]  # [fish] from straight outwards; empty without an escape boost
    strays: NDArray[np.float64]  # [fish, 2]: a direction for those in the middle, else zeros
    hunts: NDArray[np.float64]  # [predators, draws] in [0, 1)
    boost: float  # the escape's speed, as a share of the most


def make_plan(start: FishStartOptions) -> ResetPlan:
    """Return the start options as the kernels read them."""
    return ResetPlan(
        headings=sector_table(start.headings()),
        speeds=sector_table(start.pre_roll_speed_bias),
        spawn_jitter=min(start.spawn_jitter, _SPAWN),
        steps=start.pre_roll_steps,
        angle_jitter=start.pre_roll_angle_jitter,
        speed_jitter=start.pre_roll_speed_jitter,
    )


def hunt_draws(plan: ResetPlan, *, thrown: bool) -> int:
    """Return how many numbers one predator's start takes; a thrown one draws no heading."""
    per_step = (plan.angle_jitter > 0) + (plan.speed_jitter > 0) + 2 * (len(plan.speeds) > 0)
    heading = 0 if thrown or len(plan.headings) == 0 else 2
    return 2 * (plan.spawn_jitter > 0) + heading + plan.steps * per_step


def draw(
    generator: np.random.Generator,
    start: FishStartOptions,
    *,
    fish: int,
    hunts: tuple[int, ...],
    boost: float,
) -> Draws:
    """Draw one start; `hunts` holds how many numbers each predator takes.

    One call for many numbers continues a generator's stream as that many calls would.
    """
    places = generator.random((fish, 4))
    strays = np.zeros((fish, 2))
    turns = np.empty(0)
    if start.escape_boost:
        turns = np.empty(fish)
        begin = 0
        for row in np.flatnonzero(places[:, 1] < CENTER / _SPAWN).tolist():
            turns[begin:row] = generator.standard_normal(row - begin)
            strays[row] = generator.standard_normal(2)
            turns[row] = generator.standard_normal()
            begin = row + 1
        turns[begin:] = generator.standard_normal(fish - begin)
        turns *= start.escape_jitter
    numbers = np.zeros((len(hunts), max(hunts)))
    for predator, count in enumerate(hunts):
        numbers[predator, :count] = generator.random(count)
    return Draws(places, turns, strays, numbers, boost)


@kernel
def _pick(table: Array, which: float, within: float) -> float:
    """Return a point of the weighted intervals by two numbers in [0, 1)."""
    wanted = which * table[-1, 2]
    for place in range(len(table)):
        if wanted <= table[place, 2] or place == len(table) - 1:
            break
    return float(table[place, 0] + (table[place, 1] - table[place, 0]) * within)


@kernel
def _put_one(bodies: Array, env: int, row: int, obstacles: Array) -> None:
    """Push a body out of the discs it was put in."""
    place = (bodies[env, row, 0], bodies[env, row, 1])
    velocity = (bodies[env, row, 2], bodies[env, row, 3])
    x, y, _, _ = keep_inside(place, velocity, FISH_BOUNCE, obstacles)
    bodies[env, row, 0], bodies[env, row, 1] = x, y


@kernel
def _place_one(fish: Array, env: int, row: int, draws: Draws) -> None:
    angle, distance = 2 * math.pi * draws.places[row, 0], _SPAWN * draws.places[row, 1]
    heading = 2 * math.pi * draws.places[row, 2]
    speed = 0.5 * FISH_SPEED * draws.places[row, 3]
    fish[env, row, 0], fish[env, row, 1] = distance * math.cos(angle), distance * math.sin(angle)
    fish[env, row, 2], fish[env, row, 3] = speed * math.cos(heading), speed * math.sin(heading)


@kernel
def _boost_one(fish: Array, env: int, row: int, draws: Draws) -> None:
    """Send a fish outwards, turned by an angle."""
    across, along = float(fish[env, row, 0]), float(fish[env, row, 1])
    if draws.strays[row, 0] != 0.0 or draws.strays[row, 1] != 0.0:
        across, along = draws.strays[row, 0], draws.strays[row, 1]
    turn, speed = draws.turns[row], FISH_SPEED * draws.boost
    distance = math.sqrt(across * across + along * along)
    across, along = across / distance, along / distance
    fish[env, row, 2] = speed * (across * math.cos(turn) - along * math.sin(turn))
    fish[env, row, 3] = speed * (across * math.sin(turn) + along * math.cos(turn))


@kernel
def _spread_one(predator: Array, draws: Array, plan: ResetPlan) -> int:
    """Place one predator before its pre-roll; return the draws used."""
    predator[:] = 0.0
    if not plan.spawn_jitter > 0:
        return 0
    distance, angle = plan.spawn_jitter * draws[0], 2 * math.pi * draws[1]
    predator[0], predator[1] = distance * math.cos(angle), distance * math.sin(angle)
    return 2


@kernel
def _aim(predator: Array, draws: Array, cursor: int, plan: ResetPlan) -> int:
    """Give one predator its heading; return the draws used so far."""
    predator[2], predator[3] = PREDATOR_SPEED, 0.0
    if len(plan.headings) == 0:
        return cursor
    heading = math.radians(_pick(plan.headings, draws[cursor], draws[cursor + 1]))
    predator[2] = PREDATOR_SPEED * math.cos(heading)
    predator[3] = PREDATOR_SPEED * math.sin(heading)
    return cursor + 2


@kernel
def _stir(predator: Array, draws: Array, cursor: int, plan: ResetPlan) -> int:
    """Turn and rescale one predator's velocity; return the draws used so far."""
    x, y = float(predator[2]), float(predator[3])
    if plan.angle_jitter > 0:
        angle = plan.angle_jitter * (2 * draws[cursor] - 1)
        cosine, sine = math.cos(angle), math.sin(angle)
        x, y = x * cosine - y * sine, x * sine + y * cosine
        cursor += 1
    if plan.speed_jitter > 0:
        scale = max(0.05, 1 + plan.speed_jitter * (2 * draws[cursor] - 1))
        x, y = x * scale, y * scale
        cursor += 1
    if len(plan.speeds) > 0:
        speed = _pick(plan.speeds, draws[cursor], draws[cursor + 1])
        present = math.sqrt(x * x + y * y)
        x, y = (x / present * speed, y / present * speed) if present > 0 else (speed, 0.0)
        cursor += 2
    predator[2], predator[3] = x, y
    return cursor


def _compile_place(stamp: int) -> Any:
    @entry
    def place(
        world: FishWorld,
        env: int,
        draws: Draws,
        plan: ResetPlan,
        throws: Array,
        obstacles: Array,
    ) -> None:
        """Write fish and predators of one school.

        `throws` [predators, 3] holds velocities that replace drawn ones where the third is not 0:
        before the pre-roll for 1, after it for 2.
        """
        _ = stamp
        for row in range(len(draws.places)):
            _place_one(world.fish, env, row, draws)
            if len(draws.turns) > 0:
                _boost_one(world.fish, env, row, draws)
            _put_one(world.fish, env, row, obstacles)
        for number in range(world.predators.shape[1]):
            predator, numbers = world.predators[env, number], draws.hunts[number]
            cursor = _spread_one(predator, numbers, plan)
            _put_one(world.predators, env, number, obstacles)
            if throws[number, 2] == 1:
                predator[2], predator[3] = throws[number, 0], throws[number, 1]
            else:
                cursor = _aim(predator, numbers, cursor, plan)
            for _step in range(plan.steps):
                cursor = _stir(predator, numbers, cursor, plan)
                fall(world.predators, env, number, obstacles)
            if throws[number, 2] == 2:
                predator[2], predator[3] = throws[number, 0], throws[number, 1]

    return place


place_school = _compile_place(world_stamp())
"""The entry point that turns draws into a start."""

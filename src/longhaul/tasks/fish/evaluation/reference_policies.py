"""Policies without learning, to which every report compares.

They read the original's inputs (`FishOptions.inputs = "world"`). Those that react act only while
they see a predator; otherwise they keep swimming, or go to the side where the predator never comes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from longhaul.core.env import Floats
from longhaul.tasks.fish.world.world import (
    BRAKE,
    FISH_ACCELERATION,
    FISH_BRAKE,
    FISH_SPEED,
    FORWARD,
    GRAVITY,
    KEEP,
    LEFT,
    RADIUS,
    RIGHT,
    STANDSTILL,
    TIME_STEP,
    VISION,
)

Actions = NDArray[np.int64]
Vectors = NDArray[np.float32]  # [rows, 2]
Act = Callable[[Floats], Actions]

TOLERANCE = np.radians(15.0)
SAFE_PLACE = (0.0, -9.0)
SAFE_ENOUGH = 1.0
"""Within this distance of the safe place a fish brakes."""
PLAN_STEPS = 8
MOST_TURNS = 6


@dataclass(frozen=True, slots=True)
class SeenWorld:
    """The original's inputs in the world's units."""

    place: Vectors
    velocity: Vectors
    sees: NDArray[np.bool_]  # [rows]
    way: Vectors  # to the predator
    predator_velocity: Vectors

    @staticmethod
    def of(obs: Floats) -> SeenWorld:
        """Undo the scaling of the inputs."""
        return SeenWorld(
            place=obs[:, 0:2] * RADIUS,
            velocity=obs[:, 2:4] * FISH_SPEED,
            sees=obs[:, 5] > 0,
            way=obs[:, 6:8] * VISION,
            predator_velocity=obs[:, 8:10] * FISH_SPEED,
        )


def always(action: int) -> Act:
    """Return the policy that always takes the same action."""
    return lambda obs: np.full(len(obs), action, np.int64)


def uniform(generator: np.random.Generator) -> Act:
    """Return the policy that draws every action."""
    return lambda obs: generator.integers(0, 5, len(obs))


def flee(obs: Floats) -> Actions:
    """Swim straight away from a visible predator, else keep."""
    sight = SeenWorld.of(obs)
    return np.where(sight.sees, _steer(sight.velocity, -sight.way), KEEP)


def sidestep(obs: Floats) -> Actions:
    """Leave the line a visible predator swims on, else keep."""
    sight = SeenWorld.of(obs)
    return np.where(sight.sees, _steer(sight.velocity, _aside(sight)), KEEP)


def sidestep_to_safety(obs: Floats) -> Actions:
    """Leave a visible predator's line, else swim where none comes and brake there."""
    sight = SeenWorld.of(obs)
    return np.where(sight.sees, _steer(sight.velocity, _aside(sight)), _go_to_safety(sight))


def plan_to_safety(obs: Floats) -> Actions:
    """Take the first step of the plan that stays farthest from a visible predator, else go safe."""
    sight = SeenWorld.of(obs)
    actions = _go_to_safety(sight)
    if sight.sees.any():
        actions[sight.sees] = _best_plan(sight)
    return actions


def reference_policies(generator: np.random.Generator) -> dict[str, Act]:
    """Return all policies by their names in reports."""
    return {
        "forward": always(FORWARD),
        "random": uniform(generator),
        "keep": always(KEEP),
        "left": always(LEFT),
        "brake": always(BRAKE),
        "flee": flee,
        "sidestep": sidestep,
        "sidestep, safe side": sidestep_to_safety,
        "planner, safe side": plan_to_safety,
    }


def _steer(velocity: Vectors, direction: Vectors) -> Actions:
    """Turn towards a direction, or swim on if it is within 15 degrees."""
    heading = np.where(_length(velocity) > STANDSTILL, velocity, _vector(1.0, 0.0))
    cross = heading[:, 0] * direction[:, 1] - heading[:, 1] * direction[:, 0]
    error = np.arctan2(cross, (heading * direction).sum(axis=1))
    return np.where(error > TOLERANCE, LEFT, np.where(error < -TOLERANCE, RIGHT, FORWARD))


def _aside(sight: SeenWorld) -> Vectors:
    """Return the part of the way from the predator that is perpendicular to its velocity."""
    speed = np.maximum(_length(sight.predator_velocity), np.float32(1e-9))
    line = sight.predator_velocity / speed
    aside: Vectors = (sight.way * line).sum(axis=1, keepdims=True) * line - sight.way
    return aside


def _go_to_safety(sight: SeenWorld) -> Actions:
    way = _vector(*SAFE_PLACE) - sight.place
    near = _length(way)[:, 0] < SAFE_ENOUGH
    return np.where(near, BRAKE, _steer(sight.velocity, way))


def _length(vectors: Vectors) -> Floats:
    """Return the lengths, [rows, 1]."""
    lengths: Floats = np.sqrt((vectors * vectors).sum(axis=1, keepdims=True))
    return lengths


def _vector(x: float, y: float) -> Vectors:
    return np.array([x, y], np.float32)


def _plans() -> tuple[tuple[int, ...], ...]:
    """Return 15 plans of 8 steps: three constant ones, 1 to 6 turns either way and then forward."""
    steady = tuple((action,) * PLAN_STEPS for action in (FORWARD, KEEP, BRAKE))
    turning = tuple(
        (turn,) * count + (FORWARD,) * (PLAN_STEPS - count)
        for turn in (LEFT, RIGHT)
        for count in range(1, MOST_TURNS + 1)
    )
    return steady + turning


def _best_plan(sight: SeenWorld) -> Actions:
    plans = _plans()
    clearances = np.stack([_clearance(sight, plan) for plan in plans])
    best: Actions = np.array([plan[0] for plan in plans])[clearances.argmax(axis=0)]
    return best


def _clearance(sight: SeenWorld, plan: tuple[int, ...]) -> Floats:
    """Return the smallest distance to the predator along a plan, for fish that see one."""
    place, velocity = sight.place[sight.sees], sight.velocity[sight.sees]
    predator, falling = place + sight.way[sight.sees], sight.predator_velocity[sight.sees]
    clearance = np.full(len(place), np.inf, np.float32)
    for action in plan:
        velocity = _act(velocity, action)
        place = _inside(place + velocity * TIME_STEP)
        falling = falling + _vector(0.0, GRAVITY * TIME_STEP)
        predator = _inside(predator + falling * TIME_STEP)
        clearance = np.minimum(clearance, _length(place - predator)[:, 0])
    return clearance


def _act(velocity: Vectors, action: int) -> Vectors:
    """Return velocities after an action of all fish."""
    speed = _length(velocity)
    heading = np.where(speed > STANDSTILL, velocity / np.maximum(speed, STANDSTILL), (1.0, 0.0))
    if action == FORWARD:
        velocity = velocity + heading.astype(np.float32) * FISH_ACCELERATION * TIME_STEP
        speed = _length(velocity)
        return velocity * np.minimum(1, FISH_SPEED / np.maximum(speed, STANDSTILL))
    if action == BRAKE:
        return velocity * FISH_BRAKE
    if action == KEEP:
        return velocity
    turn = np.pi / 6 if action == LEFT else -np.pi / 6
    cosine, sine = np.cos(turn), np.sin(turn)
    rotation = np.array([[cosine, sine], [-sine, cosine]], np.float32)
    turned: Vectors = (heading.astype(np.float32) @ rotation) * speed
    return turned


def _inside(place: Vectors) -> Vectors:
    return place * np.minimum(1, RADIUS / np.maximum(_length(place), STANDSTILL))

"""The constants of the fish's world, and the arrays and rules its kernels work on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np

from longhaul.core.env import Array
from longhaul.core.native import kernel_stamp
from longhaul.tasks.fish.options import FishOptions

F = TypeVar("F", bound=Callable[..., Any])


def single(value: float) -> float:
    """Return a float32 number; the compiler must see it as such, the type checker as a float."""
    return cast(float, np.float32(value))


RADIUS = single(10.0)
"""Of the stage, a disc around the origin."""
TIME_STEP = single(0.1)
FISH_SPEED = single(2.0)
"""The most a fish can swim."""
FISH_ACCELERATION = single(1.0)
FISH_BRAKE = single(0.9)
FISH_BOUNCE = single(0.5)
STANDSTILL = single(0.01)
"""Below this speed a fish's heading is +x."""
TURN_COSINE = single(np.cos(np.pi / 6))
TURN_SINE = single(np.sin(np.pi / 6))
CAPTURE = single(0.7)
"""A fish nearer than this to a predator's center dies."""
VISION = single(10.0 / 3.0)
GRAVITY = single(0.5)
PREDATOR_BOUNCE = single(0.85)
PREDATOR_SPEED = 1.5
"""With which a predator starts, along +x unless a heading is drawn."""
SPAWN_SHARE = 0.8
"""Fish start within this share of the stage's radius."""
REWARD_SCALE = single(0.1)
DEATH_REWARD = single(-50.0)
"""Of the original reward, which does not scale it."""
HORIZON = single(3.0)
"""Longest time to the closest approach that is shown, in seconds."""

FORWARD, LEFT, RIGHT, BRAKE, KEEP = range(5)
ACTIONS = 5
ACTION_NAMES = ("forward", "left", "right", "brake", "keep")

ABSENT = -2
"""The death step of an unused row."""
SURVIVED = -1
"""The death step of a fish that is alive."""


class FishWorld(NamedTuple):
    """The state of N schools of up to M fish and P predators."""

    fish: Array  # [N, M, 4] float32: x, y, velocity x, y
    alive: Array  # [N, M] bool
    deaths: Array  # [N, M] int32: the step, SURVIVED or ABSENT
    predators: Array  # [N, P, 4] float32
    elapsed: Array  # [N] int32
    limit: Array  # [N] int32: steps after which the episode is over
    size: Array  # [N] int32: fish of the school
    over: Array  # [N] bool
    density_penalty: Array  # [N] float32
    nearby: Array  # [N, M, 7] float32: what each fish knows of its neighbors; scratch
    closest: Array  # [N, K, 3] float32: the nearest neighbors of one fish; scratch


class FishRules(NamedTuple):
    """What holds for all schools of a batch."""

    obstacles: Array  # [O, 3] float32: x, y, radius
    sees_neighbors: bool
    needs_neighbors: bool  # for inputs or reward, whatever the density penalty
    own_frame: bool
    plain_reward: bool
    limit_ends: bool  # the time limit terminates instead of truncating
    neighbor_radius: float
    alive_reward: float
    death_penalty: float
    density_target: float
    divergence_reward: float
    homing: float  # acceleration towards the nearest fish; 0 falls
    homing_speed: float


class StepArrays(NamedTuple):
    """The slots the kernels write, [N * M, ...], env-major."""

    obs: Array
    active: Array
    reward: Array
    terminated: Array
    truncated: Array
    alive: Array  # the reward's terms, from here on
    predator: Array
    wall: Array
    density: Array
    divergence: Array
    death: Array


KERNEL_MODULES = ("world", "dynamics", "observe", "reset", "step")
"""The modules of this folder that hold native code or the constants in it."""


def world_stamp() -> int:
    """Return a number that differs when any of the modules with native code does."""
    folder = Path(__file__).parent
    return kernel_stamp(folder / f"{module}.py" for module in KERNEL_MODULES)


def empty_world(options: FishOptions, count: int) -> FishWorld:
    """Return the arrays of `count` schools, none of which has begun."""
    fish = options.fish
    return FishWorld(
        fish=np.zeros((count, fish, 4), np.float32),
        alive=np.zeros((count, fish), np.bool_),
        deaths=np.full((count, fish), ABSENT, np.int32),
        predators=np.zeros((count, options.predator.count, 4), np.float32),
        elapsed=np.zeros(count, np.int32),
        limit=np.ones(count, np.int32),
        size=np.zeros(count, np.int32),
        over=np.ones(count, np.bool_),
        density_penalty=np.zeros(count, np.float32),
        nearby=np.zeros((count, fish, 7), np.float32),
        closest=np.zeros((count, options.neighbors.average_count, 3), np.float32),
    )


def make_rules(options: FishOptions) -> FishRules:
    """Return what holds for all schools of a batch, as the kernels read it."""
    reward = options.reward
    return FishRules(
        obstacles=np.array(options.obstacles, np.float32).reshape(-1, 3),
        sees_neighbors=options.neighbors.inputs,
        needs_neighbors=options.neighbors.inputs or reward.divergence != 0,
        own_frame=options.inputs == "own_frame",
        plain_reward=reward.kind == "plain",
        limit_ends=options.limit_ends,
        neighbor_radius=single(options.neighbors.radius),
        alive_reward=single(reward.alive),
        death_penalty=single(reward.death),
        density_target=single(reward.density_target),
        divergence_reward=single(reward.divergence),
        homing=single(options.predator.homing),
        homing_speed=single(options.predator.homing_speed),
    )

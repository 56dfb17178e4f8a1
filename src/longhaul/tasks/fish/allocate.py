"""The arrays and rules the kernels work on, made from the options."""

from __future__ import annotations

import numpy as np

from longhaul.tasks.fish.options import Options
from longhaul.tasks.fish.world import ABSENT, Rules, World, single


def empty_world(options: Options, count: int) -> World:
    """Return the arrays of `count` schools, none of which has begun."""
    fish = options.fish
    return World(
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
        closest=np.zeros((count, options.neighbours.average_count, 3), np.float32),
    )


def make_rules(options: Options) -> Rules:
    """Return what holds for all schools of a batch, as the kernels read it."""
    reward = options.reward
    return Rules(
        obstacles=np.array(options.obstacles, np.float32).reshape(-1, 3),
        sees_neighbours=options.neighbours.inputs,
        needs_neighbours=options.neighbours.inputs or reward.divergence != 0,
        own_frame=options.inputs == "own_frame",
        plain_reward=reward.kind == "plain",
        limit_ends=options.limit_ends,
        neighbour_radius=single(options.neighbours.radius),
        alive_reward=single(reward.alive),
        death_penalty=single(reward.death),
        density_target=single(reward.density_target),
        divergence_reward=single(reward.divergence),
        homing=single(options.predator.homing),
        homing_speed=single(options.predator.homing_speed),
    )

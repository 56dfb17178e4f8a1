"""One step of all schools, and what fish are paid for it."""

from __future__ import annotations

from typing import Any

from longhaul.core.env import Array
from longhaul.core.native import entry, kernel
from longhaul.tasks.fish.world.dynamics import (
    COUNT,
    DIVERGENCE,
    length,
    look_around,
    matter,
    move_school,
)
from longhaul.tasks.fish.world.observe import nearest_predator, observe
from longhaul.tasks.fish.world.world import (
    DEATH_REWARD,
    RADIUS,
    REWARD_SCALE,
    VISION,
    FishRules,
    FishWorld,
    StepArrays,
    single,
    world_stamp,
)

PLAIN_TERMS = ("alive", "density", "divergence", "death")
ORIGINAL_TERMS = ("alive", "predator", "wall", "density", "divergence", "death")

_ZERO = single(0.0)
_ONE = single(1.0)
_TWO = single(2.0)
_UNSEEN = single(5.0)
_NEAR = single(10.0)


# Each function goes over a whole school: handing a tuple of arrays to a function costs more than
# what is done for one fish.


@kernel
def _pay_life(world: FishWorld, rows: StepArrays, env: int, rules: FishRules) -> None:
    """Pay for being alive and charge for dying; everything else begins at zero."""
    first, elapsed = env * world.fish.shape[1], world.elapsed[env]
    alive_reward = rules.alive_reward if rules.plain_reward else REWARD_SCALE * _TWO
    death_reward = -rules.death_penalty if rules.plain_reward else DEATH_REWARD
    for row in range(world.fish.shape[1]):
        slot = first + row
        rows.alive[slot] = alive_reward if world.alive[env, row] else _ZERO
        rows.death[slot] = death_reward if world.deaths[env, row] == elapsed else _ZERO
        rows.predator[slot] = _ZERO
        rows.wall[slot] = _ZERO
        rows.density[slot] = _ZERO
        rows.divergence[slot] = _ZERO


@kernel
def _pay_place(world: FishWorld, rows: StepArrays, env: int) -> None:
    """Pay the original's terms for being near the predator and away from the wall."""
    fish, predators = world.fish, world.predators
    first = env * fish.shape[1]
    for row in range(fish.shape[1]):
        if not world.alive[env, row]:
            continue
        x, y = fish[env, row, 0], fish[env, row, 1]
        number = nearest_predator(fish, predators, env, row)
        distance = length(predators[env, number, 0] - x, predators[env, number, 1] - y)
        gap = RADIUS - length(x, y)
        near = _NEAR * distance / VISION if distance < VISION else _UNSEEN
        rows.predator[first + row] = REWARD_SCALE * near
        if gap < _ONE:
            rows.wall[first + row] = -REWARD_SCALE * _TWO * (_ONE - gap)


@kernel
def _pay_company(world: FishWorld, rows: StepArrays, env: int, rules: FishRules) -> None:
    """Charge for density and pay for divergence, if there are neighbors."""
    first, nearby = env * world.fish.shape[1], world.nearby
    scale = _ONE if rules.plain_reward else REWARD_SCALE
    for row in range(world.fish.shape[1]):
        if world.alive[env, row] and nearby[env, row, COUNT] > _ZERO:
            crowd = max(nearby[env, row, COUNT] - rules.density_target, _ZERO)
            rows.density[first + row] = -scale * world.density_penalty[env] * crowd
            worth = rules.divergence_reward * nearby[env, row, DIVERGENCE]
            rows.divergence[first + row] = scale * worth


@kernel
def pay(world: FishWorld, rows: StepArrays, env: int, rules: FishRules) -> None:
    """Write the rewards of one school's step."""
    _pay_life(world, rows, env, rules)
    if not rules.plain_reward:
        _pay_place(world, rows, env)
    if matter(world, env, rules):
        _pay_company(world, rows, env, rules)
    first = env * world.fish.shape[1]
    for slot in range(first, first + world.fish.shape[1]):
        place = rows.alive[slot] + rows.predator[slot] + rows.wall[slot]
        rows.reward[slot] = place + rows.density[slot] + rows.divergence[slot] + rows.death[slot]


@kernel
def _count_alive(world: FishWorld, env: int) -> int:
    present = 0
    for row in range(world.size[env]):
        present += world.alive[env, row]
    return present


@kernel
def _mark(world: FishWorld, rows: StepArrays, env: int, rules: FishRules) -> None:
    """Write which rows ended and which are there to act; dying wins over the time limit."""
    late = world.elapsed[env] >= world.limit[env]
    world.over[env] = late or _count_alive(world, env) == 0
    first = env * world.fish.shape[1]
    for row in range(world.fish.shape[1]):
        alive = world.alive[env, row]
        died = not alive and world.deaths[env, row] == world.elapsed[env]
        rows.terminated[first + row] = died or (alive and late and rules.limit_ends)
        rows.truncated[first + row] = alive and late and not rules.limit_ends
        rows.active[first + row] = alive


def _compile_step(stamp: int) -> Any:
    # One entry for both: what Python calls takes as long to compile as everything it calls.
    @entry
    def step(
        world: FishWorld, rows: StepArrays, rules: FishRules, envs: Array, actions: Array
    ) -> None:
        """Step schools, those that are over excepted; without actions, show them as they are."""
        _ = stamp
        moves = len(actions) > 0
        for env in envs:
            if moves:
                if world.over[env]:
                    continue
                move_school(world, env, actions, rules)
            if matter(world, env, rules):
                look_around(world, env, rules.neighbor_radius)
            if moves:
                _mark(world, rows, env, rules)
                pay(world, rows, env, rules)
            else:
                first = env * world.fish.shape[1]
                for row in range(world.fish.shape[1]):
                    rows.active[first + row] = world.alive[env, row]
            observe(world, rows, env, rules)

    return step


step_schools = _compile_step(world_stamp())
"""Step the schools of some numbers, or show them where there are no actions."""

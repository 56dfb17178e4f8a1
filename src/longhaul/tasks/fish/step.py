"""The entry point of the compiled world: one step of many schools, or a look without one."""

from __future__ import annotations

from typing import Any

from longhaul.core.env import Array
from longhaul.tasks.fish.dynamics import move_school
from longhaul.tasks.fish.neighbours import look_around, matter
from longhaul.tasks.fish.observe import observe
from longhaul.tasks.fish.reward import pay
from longhaul.tasks.fish.world import Rows, Rules, World, entry, kernel, kernel_stamp


@kernel
def _count_alive(world: World, env: int) -> int:
    present = 0
    for row in range(world.size[env]):
        present += world.alive[env, row]
    return present


@kernel
def _mark(world: World, rows: Rows, env: int, rules: Rules) -> None:
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


def _build_step(stamp: int) -> Any:
    # One entry for both: what Python calls takes as long to compile as everything it calls.
    @entry
    def step(world: World, rows: Rows, rules: Rules, envs: Array, actions: Array) -> None:
        """Step schools, those that are over excepted; without actions, show them as they are."""
        _ = stamp
        moves = len(actions) > 0
        for env in envs:
            if moves:
                if world.over[env]:
                    continue
                move_school(world, env, actions, rules)
            if matter(world, env, rules):
                look_around(world, env, rules.neighbour_radius)
            if moves:
                _mark(world, rows, env, rules)
                pay(world, rows, env, rules)
            else:
                first = env * world.fish.shape[1]
                for row in range(world.fish.shape[1]):
                    rows.active[first + row] = world.alive[env, row]
            observe(world, rows, env, rules)

    return step


step_schools = _build_step(kernel_stamp())
"""Step the schools of some numbers, or show them where there are no actions."""

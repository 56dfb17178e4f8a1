"""Our environments under Gymnasium ids, for users of any trainer."""

from __future__ import annotations

import itertools

import gymnasium as gym

NAMESPACE = "longhaul"
_ENTRY_POINTS = {"FreePixels-v0": "longhaul.envs.probes.free_pixels:FreePixels"}
_MARIO = "longhaul.tasks.mario.gymnasium_env"


def register() -> None:
    """Add the ids; does nothing the second time.

    Gymnasium 1.x no longer asks installed packages for their environments, so whoever makes one
    calls this first: `gym:longhaul/FreePixels-v0` does, and so does importing this module.
    """
    for name, entry_point in _ENTRY_POINTS.items():
        if f"{NAMESPACE}/{name}" not in gym.registry:
            gym.register(f"{NAMESPACE}/{name}", entry_point=entry_point)
    for world, number in itertools.product(range(1, 9), range(1, 5)):
        name = f"{NAMESPACE}/Mario-{world}-{number}-v0"
        if name not in gym.registry:
            gym.register(
                name,
                entry_point=f"{_MARIO}:MarioEnv",
                vector_entry_point=f"{_MARIO}:MarioVectorEnv",
                kwargs={"stage": f"{world}-{number}"},
            )


register()

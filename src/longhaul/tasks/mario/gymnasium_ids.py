"""The Gymnasium ids of the stages, apart from the environment, which takes long to import."""

from __future__ import annotations

import itertools

_ENV = "longhaul.tasks.mario.gymnasium_env"

GYMNASIUM_IDS = {
    f"longhaul/Mario-{world}-{number}-v0": {
        "entry_point": f"{_ENV}:MarioEnv",
        "vector_entry_point": f"{_ENV}:MarioVectorEnv",
        "kwargs": {"stage": f"{world}-{number}"},
    }
    for world, number in itertools.product(range(1, 9), range(1, 5))
}

"""Environments of installed tasks under Gymnasium ids, for users of any trainer."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import gymnasium as gym

GROUP = "longhaul.gymnasium"
"""Entry points: a task's name, and a mapping of ids to what `gymnasium.register` takes."""


def register() -> None:
    """Add the ids of all installed tasks; does nothing the second time.

    Gymnasium 1.x no longer asks installed packages for their environments. Call this before making
    one; importing this module does it, and so does a task `gym:ID` whose id is not known yet.
    """
    for env_id, arguments in _installed().items():
        if env_id not in gym.registry:
            gym.register(env_id, **arguments)


@functools.cache
def _installed() -> Mapping[str, Mapping[str, Any]]:
    from importlib.metadata import entry_points

    return {
        env_id: arguments
        for entry in entry_points(group=GROUP)
        for env_id, arguments in entry.load().items()
    }


register()

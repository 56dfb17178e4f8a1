"""Our environments under Gymnasium ids, for users of any trainer."""

from __future__ import annotations

import gymnasium as gym


def register() -> None:
    """Add the ids; called by Gymnasium itself through its plugin entry point."""
    gym.register(
        "longhaul/FreePixels-v0", entry_point="longhaul.envs.probes.free_pixels:FreePixels"
    )

"""The Gymnasium environment behind a task, as any other library would make it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import gymnasium as gym

from longhaul.envs.registration import register

if TYPE_CHECKING:
    from longhaul.app.config import RunConfig


@dataclass(frozen=True, slots=True)
class GymnasiumId:
    """An id and its arguments; picklable, so that other processes can make it."""

    env_id: str
    kwargs: Mapping[str, Any]

    @staticmethod
    def of(config: RunConfig) -> GymnasiumId | None:
        """Return what a configuration names, None if that is not a Gymnasium environment."""
        # Not above: the processes that make the environments need neither this nor torch.
        from longhaul.app.registry import Reference

        reference = Reference.parse(config.task)
        if reference.kind != "gym":
            return None
        kwargs = dict(config.options.get("kwargs", {}))
        if limit := config.options.get("max_episode_steps", 0):
            kwargs["max_episode_steps"] = limit
        return GymnasiumId(reference.argument, kwargs)

    def make(self) -> gym.Env[Any, Any]:
        """Return a fresh environment without Gymnasium's own checks in every step."""
        register()
        return gym.make(self.env_id, disable_env_checker=True, **self.kwargs)

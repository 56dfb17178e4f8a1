"""Checking a Gymnasium environment with Gymnasium's own checker."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import gymnasium as gym
from gymnasium.utils.env_checker import check_env

from longhaul.envs.guard import user_line, words_of
from longhaul.envs.gymnasium.ids import register

if TYPE_CHECKING:
    from longhaul.app.build.config import RunConfig


@dataclass(frozen=True, slots=True)
class GymnasiumId:
    """An id and its arguments; picklable for other processes."""

    env_id: str
    kwargs: Mapping[str, Any]

    @staticmethod
    def of(config: RunConfig) -> GymnasiumId | None:
        """Return what a configuration names, None if that is not a Gymnasium environment."""
        # Not above: the processes that make the environments need neither this nor torch.
        from longhaul.app.build.sources import Reference

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


_COLOR = re.compile(r"\x1b\[[0-9;]*m")


@dataclass(frozen=True, slots=True)
class Conformity:
    """What Gymnasium's checker says of an environment."""

    good: bool
    detail: str


def check_api(config: RunConfig) -> Conformity | None:
    """Return the checker's verdict, or None for a task that is not a Gymnasium environment."""
    named = GymnasiumId.of(config)
    if named is None:
        return None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        problem = _problem(named)
    said = dict.fromkeys(
        _COLOR.sub("", str(one.message)).removeprefix("WARN: ")
        for one in caught
        if issubclass(one.category, UserWarning)
    )
    remarks = f", with a warning: {' / '.join(said)}" if said else ""
    if problem:
        return Conformity(good=False, detail=f"fails Gymnasium's checker: {problem}{remarks}")
    return Conformity(good=True, detail=f"passes Gymnasium's checker{remarks}")


def _problem(named: GymnasiumId) -> str:
    """Return the checker's complaint, empty if there is none."""
    try:
        with closing(named.make()) as env:
            env.unwrapped.action_space.seed(1)  # the same verdict every time
            # Without rendering: training needs no window, and not every machine can open one.
            check_env(env.unwrapped, skip_render_check=True)
    except AssertionError as error:
        if not user_line(error.__traceback__):
            return str(error) or "an assertion failed"
        return words_of(error)
    except Exception as error:  # noqa: BLE001 - the env's own code, whatever it raises
        return words_of(error)
    return ""

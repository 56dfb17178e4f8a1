"""Small Gymnasium envs with one peculiarity each; importing this module registers them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.wrappers import FrameStackObservation

MODULE = "tests.envs.gymnasium_fakes"


class Spaces(gym.Env[Any, Any]):
    """Shows samples of any observation space and remembers the actions it got."""

    def __init__(self, observation_space: spaces.Space[Any], action_space: spaces.Space[Any]):
        self.observation_space = observation_space
        self.action_space = action_space
        self.actions: list[Any] = []
        self.shown: Any = None

    def _show(self) -> Any:
        self.observation_space.seed(int(self.np_random.integers(2**31)))
        self.shown = self.observation_space.sample()
        return self.shown

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return self._show(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.actions.append(action)
        return self._show(), float(np.sum(action)), False, False, {}


class Walk(gym.Env[Any, Any]):
    """A random walk on a line that ends beyond +-3; the base of the peculiar ones."""

    # Gymnasium reads this from the class.
    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012

    def __init__(self, render_mode: str | None = None) -> None:
        self.render_mode = render_mode
        self.observation_space = spaces.Box(-20.0, 20.0, (2,), np.float64)
        self.action_space = spaces.Discrete(3)
        self.position = 0.0
        self.stride = 1.0
        self.steps = 0

    def observe(self) -> Any:
        return np.array([self.position, self.steps / 10])

    def facts(self) -> dict[str, Any]:
        return {}

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        start = (options or {}).get("start")
        self.position = float(self.np_random.normal()) if start is None else float(start)
        self.steps = 0
        return self.observe(), self.facts()

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        self.steps += 1
        self.position += self.stride * (int(action) - 1) + float(self.np_random.normal()) / 2
        return self.observe(), self.position, abs(self.position) > 3, False, self.facts()

    def render(self) -> Any:
        return np.full((4, 6, 3), 7, np.uint8)


class MaskedWalk(Walk):
    """Forbids the direction it is already far in, through `info`."""

    def facts(self) -> dict[str, Any]:
        return {"action_mask": np.array([self.position > -2, True, self.position < 2], np.int8)}


class MethodMaskedWalk(Walk):
    """Gives the mask through a method."""

    def action_masks(self) -> list[bool]:
        return [self.position > -2, True, self.position < 2]


class SplitMaskedWalk(Walk):
    """Two choices with a mask each."""

    def __init__(self) -> None:
        super().__init__()
        self.action_space = spaces.MultiDiscrete([3, 2])

    def facts(self) -> dict[str, Any]:
        return {"action_mask": (np.array([1, 1, self.position < 1]), np.array([True, False]))}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        assert action[1] == 0
        return super().step(action[0])


class ForgetfulMaskedWalk(Walk):
    """Gives a mask at reset only, then none."""

    def facts(self) -> dict[str, Any]:
        return {} if self.steps else {"action_mask": np.ones(3, bool)}


class BlockedWalk(Walk):
    """Forbids everything from the third step on."""

    def facts(self) -> dict[str, Any]:
        return {"action_mask": np.full(3, self.steps < 3)}


class DictWalk(Walk):
    """Shows nested parts of several kinds."""

    def __init__(self) -> None:
        super().__init__()
        self.observation_space = spaces.Dict(
            {
                "here": spaces.Box(-20.0, 20.0, (2,), np.float32),
                "sides": spaces.Tuple(
                    (spaces.Discrete(2), spaces.MultiBinary(2), spaces.Box(0, 255, (3,), np.uint8))
                ),
            }
        )

    def observe(self) -> Any:
        left = int(self.position < 0)
        return {
            "here": np.array([self.position, self.steps / 10], np.float32),
            "sides": (left, np.array([left, 1 - left], np.int8), np.full(3, self.steps, np.uint8)),
        }


class ExactWalk(Walk):
    """Has native snapshots, with its generator in them, and takes settings."""

    def snapshot(self) -> dict[str, Any]:
        words = self.np_random.bit_generator.state["state"]
        return {
            "position": self.position,
            "steps": self.steps,
            "stride": self.stride,
            "generator": [str(words["state"]), str(words["inc"])],
        }

    def restore(self, state: dict[str, Any]) -> None:
        self.position, self.steps = state["position"], state["steps"]
        self.stride = state["stride"]
        generator = self.np_random.bit_generator
        words = [int(word) for word in state["generator"]]
        generator.state = {**generator.state, "state": {"state": words[0], "inc": words[1]}}

    def apply_settings(self, values: dict[str, Any]) -> None:
        self.stride = values["walk.stride"]


class SettingsWalk(Walk):
    """Takes settings but has no snapshots, so it is replayed."""

    def apply_settings(self, values: dict[str, Any]) -> None:
        self.stride = values["walk.stride"]


class TellingWalk(Walk):
    """Gives reason and success of its ends."""

    def facts(self) -> dict[str, Any]:
        return {"end_reason": "fell", "is_success": self.position > 0}


class Liar(Walk):
    """Ignores the seed."""

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        return super().reset(seed=None, options=options)


class SlyLiar(Walk):
    """Resets by the seed but steps by a generator of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.own = np.random.default_rng()

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        self.position += float(self.own.normal()) / 100
        return super().step(action)


class Hoarder(Walk):
    """Is the same in every construction, but not in its second episode."""

    def __init__(self) -> None:
        super().__init__()
        self.episodes = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        self.episodes += 1
        return super().reset(seed=seed, options=options)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        obs, reward, terminated, truncated, facts = super().step(action)
        return obs, reward + self.episodes, terminated, truncated, facts


class Broken(Walk):
    """Goes wrong at its third step in the way asked for."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how = how

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        self.position = 0.0
        obs, reward, *rest = super().step(action)
        if self.steps < 3:
            return (obs, reward, *rest)
        if self.how == "raise":
            raise RuntimeError("the simulator lost its ball")
        if self.how == "nan":
            obs = np.array([0.0, np.nan])
        elif self.how == "shape":
            obs = np.array([1.0])
        elif self.how == "inf reward":
            reward = np.inf
        elif self.how == "no reward":
            reward = None
        elif self.how == "nan at the end":
            return np.array([np.nan, 0.0]), reward, True, False, {}
        return (obs, reward, *rest)


class Fractions(Walk):
    """Declares bytes and shows fractions."""

    def __init__(self) -> None:
        super().__init__()
        self.observation_space = spaces.Box(0, 255, (2,), np.uint8)


class NoStart(Walk):
    """Cannot be constructed."""

    def __init__(self) -> None:
        raise OSError("no display")


class FlatPicture(Walk):
    """Shows a gray picture without an axis for its channel."""

    def __init__(self) -> None:
        super().__init__()
        self.observation_space = spaces.Box(0, 255, (64, 64), np.uint8)

    def observe(self) -> Any:
        return np.full((64, 64), self.steps, np.uint8)


class OddStart(Walk):
    """Has a mistake in its constructor."""

    def __init__(self) -> None:
        nothing: Any = None
        nothing["x"] = 1


class NeedsArgument(Walk):
    """Cannot be constructed without being told something."""

    def __init__(self, needed: int) -> None:
        super().__init__()


class Hanging(Walk):
    """Must not be reset or stepped; with continuous actions there is no mask to look for."""

    def __init__(self) -> None:
        super().__init__()
        self.action_space = spaces.Box(-1.0, 1.0, (1,))

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        raise AssertionError("a reset that might hang")

    def step(self, action: Any) -> Any:
        raise AssertionError("a step that might hang")


class OldGym(Walk):
    """Is written for Gym as it was before version 0.26, in one way or another."""

    def __init__(self, how: str, action_space: spaces.Space[Any]) -> None:
        super().__init__()
        self.action_space = action_space
        self.reset: Any = {"no seed": self.reset_unseeded, "bare reset": self.reset_bare}.get(
            how, self.reset
        )
        self.step: Any = self.step_old if how == "four values" else self.step

    def reset_unseeded(self) -> Any:
        return self.reset_bare()

    def reset_bare(self, seed: int | None = None, options: Any = None) -> Any:
        return super().reset(seed=seed)[0]

    def step_old(self, action: Any) -> tuple[Any, ...]:
        return self.observe(), 0.0, False, {}


class NeedsPackage(Walk):
    """Needs a package that does not exist."""

    def __init__(self) -> None:
        import a_package_that_is_not_there  # type: ignore[import-not-found]  # noqa: F401


class NeedsExtra(Walk):
    """Says itself what is missing."""

    def __init__(self) -> None:
        raise gym.error.DependencyNotInstalled("run `pip install walking-shoes`")


def stacked_walk() -> gym.Env[Any, Any]:
    """Return a walk inside a wrapper that has a state of its own."""
    walk: gym.Env[Any, Any] = ExactWalk()
    return FrameStackObservation(walk, 3)


_ALL: dict[str, tuple[Callable[..., gym.Env[Any, Any]], int | None]] = {
    "Spaces-v0": (Spaces, None),
    "Walk-v0": (Walk, 12),
    "MaskedWalk-v0": (MaskedWalk, 12),
    "MethodMaskedWalk-v0": (MethodMaskedWalk, 12),
    "SplitMaskedWalk-v0": (SplitMaskedWalk, 12),
    "ForgetfulMaskedWalk-v0": (ForgetfulMaskedWalk, 12),
    "BlockedWalk-v0": (BlockedWalk, 12),
    "DictWalk-v0": (DictWalk, 12),
    "ExactWalk-v0": (ExactWalk, 12),
    "SettingsWalk-v0": (SettingsWalk, 12),
    "TellingWalk-v0": (TellingWalk, 12),
    "StackedWalk-v0": (stacked_walk, 12),
    "Liar-v0": (Liar, 12),
    "SlyLiar-v0": (SlyLiar, 12),
    "Hoarder-v0": (Hoarder, 12),
    "Broken-v0": (Broken, 12),
    "Fractions-v0": (Fractions, 12),
    "NoStart-v0": (NoStart, None),
    "OddStart-v0": (OddStart, None),
    "FlatPicture-v0": (FlatPicture, 12),
    "NeedsArgument-v0": (NeedsArgument, None),
    "Hanging-v0": (Hanging, None),
    "OldGym-v0": (OldGym, None),
    "NeedsPackage-v0": (NeedsPackage, None),
    "NeedsExtra-v0": (NeedsExtra, None),
}

for _name, (_made, _limit) in _ALL.items():
    if f"longhaul-test/{_name}" not in gym.registry:
        gym.register(f"longhaul-test/{_name}", _made, max_episode_steps=_limit)


def fake_id(name: str) -> str:
    """Return the id under which Gymnasium finds a fake, importing this module if need be."""
    return f"{MODULE}:longhaul-test/{name}-v0"

"""Gymnasium environments as newcomers write them: they print, raise and leave things behind."""

from __future__ import annotations

import os
import warnings
from typing import Any

import gymnasium as gym
import numpy as np

from tests.app.toys import Result, Walk

GARBAGE = "GARBAGE \x1b[2J {not json"
NATIVE = b"native {garbage\n"

print(f"import: {GARBAGE}")  # noqa: T201 - that is what it is for


class Noisy(Walk):
    """Prints in every way there is."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012

    def __init__(self, render_mode: str | None = None) -> None:
        super().__init__()
        self.render_mode = render_mode
        self.shout("construct")

    def shout(self, where: str) -> None:
        print(f"{where}: {GARBAGE}")  # noqa: T201 - that is what it is for
        os.write(1, NATIVE)
        os.write(2, NATIVE)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        self.shout("reset")
        return super().reset(seed=seed, options=options)

    def step(self, action: Any) -> Result:
        self.shout("step")
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.warn("an odd step", UserWarning, stacklevel=1)
        return super().step(action)

    def render(self) -> Any:
        self.shout("render")
        return np.zeros((32, 32, 3), np.uint8)

    def close(self) -> None:
        self.shout("close")


class Raises(Walk):
    """Raises a KeyError where it is asked to; in a step, only in some episodes."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012

    def __init__(self, where: str = "step", render_mode: str | None = None) -> None:
        super().__init__()
        self.where = where
        self.render_mode = render_mode
        self.is_cursed = False
        self.may_raise("construct")

    def may_raise(self, where: str) -> None:
        if self.where == where:
            raise KeyError("ball")

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        self.may_raise("reset")
        seen, facts = super().reset(seed=seed, options=options)
        self.is_cursed = bool(self.np_random.random() < 0.1)
        return seen, facts

    def step(self, action: Any) -> Result:
        if self.is_cursed and self.steps == 4:
            self.may_raise("step")
        return super().step(action)

    def render(self) -> Any:
        self.may_raise("render")
        return np.zeros((32, 32, 3), np.uint8)

    def close(self) -> None:
        self.may_raise("close")


class WrongShape(Walk):
    """Shows another shape than it declares, in the third step of every episode."""

    def look(self) -> Any:
        return np.zeros(3 if self.steps == 3 else 2, np.float32)


for _name in ("Noisy", "Raises", "WrongShape"):
    gym.register(f"{_name}-v0", f"{__name__}:{_name}")


def task(name: str) -> str:
    """Return how a command names one of them."""
    return f"gym:{__name__}:{name}-v0"

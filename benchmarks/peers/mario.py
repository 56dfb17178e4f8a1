"""Other people's ways to run the game, measured by a separate interpreter.

This file is run as a script by a Python that has nes-py, gym-super-mario-bros and NumPy 1 but not
longhaul (`make peers-mario` makes one). It measures one system and writes agent steps a second.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

SKIP, STACK, SIZE = 4, 4, 84
BUTTONS = (0, 0x80, 0x81, 0x82, 0x83, 0x01, 0x40)
"""The set `simple`."""
DRAWN = 64
WARM_UP_SHARE = 0.2


def raw_core(count: int) -> Callable[[int], None]:
    """Return a step of nes-py's core alone: frames of `count` consoles, nothing made of them."""
    import numpy as np
    from gym_super_mario_bros import SuperMarioBrosEnv

    envs = [SuperMarioBrosEnv(target=(1, 1)) for _ in range(count)]
    for env in envs:
        env.reset()
    actions = np.random.default_rng(1).choice(BUTTONS, (DRAWN, count)).tolist()
    advance = [env._frame_advance for env in envs]

    def step(number: int) -> None:
        for one, action in zip(advance, actions[number % DRAWN], strict=True):
            for _ in range(SKIP):
                one(action)

    return step


def make_pipeline() -> Any:
    """Return one environment as trainers usually wrap it: skip, gray, 84 x 84 by area, stack."""
    import cv2
    import gymnasium
    import numpy as np
    from gym_super_mario_bros import SuperMarioBrosEnv

    class Pipeline(gymnasium.Env[Any, Any]):
        """The game with the usual wrappers in one."""

        def __init__(self) -> None:
            self.env = SuperMarioBrosEnv(target=(1, 1))
            self.observation_space = gymnasium.spaces.Box(0, 255, (STACK, SIZE, SIZE), np.uint8)
            self.action_space = gymnasium.spaces.Discrete(len(BUTTONS))
            self.stack = np.zeros((STACK, SIZE, SIZE), np.uint8)

        def push(self, picture: Any) -> Any:
            """Put a screen behind the latest ones and return a copy of them."""
            gray = cv2.cvtColor(picture, cv2.COLOR_RGB2GRAY)
            self.stack[:-1] = self.stack[1:]
            self.stack[-1] = cv2.resize(gray, (SIZE, SIZE), interpolation=cv2.INTER_AREA)
            return self.stack.copy()

        def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
            """Begin an episode."""
            self.stack[:] = 0
            return self.push(self.env.reset()), {}

        def step(self, action: int) -> Any:
            """Hold the buttons for four frames."""
            total, done = 0.0, False
            for _ in range(SKIP):
                picture, reward, done, info = self.env.step(BUTTONS[action])
                total += reward
                if done:
                    break
            return self.push(picture), total, done, False, info

    return Pipeline()


def pipeline(count: int, *, is_async: bool) -> Callable[[int], None]:
    """Return a step of Gymnasium's vector over the usual pipeline."""
    import gymnasium

    makers = [make_pipeline] * count
    vector: Any = (
        gymnasium.vector.AsyncVectorEnv(makers, shared_memory=True, context="spawn")
        if is_async
        else gymnasium.vector.SyncVectorEnv(makers)
    )
    vector.action_space.seed(1)
    actions = [vector.action_space.sample() for _ in range(DRAWN)]
    vector.reset(seed=1)

    def step(number: int) -> None:
        vector.step(actions[number % DRAWN])

    return step


SYSTEMS: dict[str, Callable[[int], Callable[[int], None]]] = {
    "nes-py": raw_core,
    "sync": lambda count: pipeline(count, is_async=False),
    "async": lambda count: pipeline(count, is_async=True),
}


def main(name: str, count: int, seconds: float) -> dict[str, float]:
    """Measure one system after a warm-up; return its speed and the processor time it took."""
    step = SYSTEMS[name](count)
    number = 0
    steps, took, used = 0, 0.0, 0.0
    for share in (WARM_UP_SHARE, 1.0):
        began, began_cpu, steps = time.perf_counter(), time.process_time(), 0
        while (took := time.perf_counter() - began) < seconds * share or not steps:
            step(number)
            number += 1
            steps += 1
        used = time.process_time() - began_cpu
    return {"steps_per_second": steps * count / took, "cpu_share": used / took}


if __name__ == "__main__":
    found = main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))
    sys.stdout.write(json.dumps(found) + "\n")
    sys.stdout.flush()
    # Vectors of processes may take their time to end; nothing of them is needed any more.
    sys.exit(0)

"""What an env can be told to do wrong, where and when, by a file it is pointed to."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

PLAN = "plan.json"
LEAKED: list[Any] = []  # a leak is memory nobody gives back


@dataclass(frozen=True)
class Plan:
    """One kind of trouble."""

    how: str
    where: str = "step"  # construct, reset, step or close
    steps: tuple[int, ...] = ()  # of an episode; empty for all
    seeds: tuple[int, ...] = ()  # of episodes; empty for all
    times: int = 0  # in each episode and step, over all processes; 0 for ever
    amount: float = 0.0  # seconds or megabytes


class OddError(Exception):
    """An exception that no pickle can carry and no text describes."""

    def __init__(self, first: object, second: object) -> None:
        super().__init__()
        self.held = (first, second, lambda: None)

    def __str__(self) -> str:
        raise RuntimeError("no text either")


EXCEPTIONS: Mapping[str, Callable[[], BaseException]] = {
    "runtime": lambda: RuntimeError("the simulator lost its ball"),
    "key": lambda: KeyError("ball"),
    "assertion": lambda: AssertionError(),
    "memory": lambda: MemoryError(),
    "os": lambda: OSError(5, "Input/output error"),
    "system exit": lambda: SystemExit(3),
    "interrupt": lambda: KeyboardInterrupt(),
    "odd": lambda: OddError(1, 2),
}


class Trouble:
    """Reads the plans in a folder and carries them out; absent plans do nothing."""

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder)

    def plans(self) -> list[Plan]:
        try:
            rows = json.loads((self._folder / PLAN).read_text())
        except FileNotFoundError:
            return []
        return [
            Plan(**{**row, "steps": tuple(row["steps"]), "seeds": tuple(row["seeds"])})
            for row in rows
        ]

    def at(self, where: str, *, seed: int = -1, step: int = -1) -> str:
        """Fail here if it is planned; return what kind of garbage to give, if any."""
        for number, plan in enumerate(self.plans()):
            fits = plan.where == where
            fits = fits and (not plan.seeds or seed in plan.seeds)
            fits = fits and (not plan.steps or step in plan.steps)
            if fits and self._has_turn(plan, f"{number}-{where}-{seed}-{step}"):
                return fail(plan)
        return ""

    def _has_turn(self, plan: Plan, place: str) -> bool:
        if not plan.times:
            return True
        for turn in range(plan.times):
            try:
                os.close(os.open(self._folder / f"{place}.{turn}", os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                continue
            return True
        return False


def tell(folder: Path, *plans: Plan) -> str:
    """Write down what envs pointed to this folder shall do; return the folder as text."""
    scratch = folder / f"{PLAN}.new"
    scratch.write_text(json.dumps([asdict(plan) for plan in plans]))
    scratch.rename(folder / PLAN)
    return str(folder)


def turns(folder: Path) -> int:
    """Return how often envs had their turn."""
    return sum(1 for path in folder.iterdir() if not path.name.startswith(PLAN))


def fail(plan: Plan) -> str:
    """Do what the plan says; garbage is returned to the env, which gives it."""
    match plan.how:
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "exit":
            os._exit(9)
        case "segfault":
            ctypes.string_at(0)
        case "sleep":
            time.sleep(3600)
        case "stop":
            os.kill(os.getpid(), signal.SIGSTOP)
        case "hold":
            ctypes.PyDLL(None).sleep(3600)  # native code that keeps the interpreter's lock
        case "slow":
            time.sleep(plan.amount)
        case "leak":
            LEAKED.append(np.ones(int(plan.amount * 2**20), np.uint8))
        case kind if kind in EXCEPTIONS:
            raise EXCEPTIONS[kind]()
        case garbage:
            return garbage
    return ""


def spoiled(garbage: str, obs: Any, reward: Any) -> tuple[Any, Any]:
    """Return an observation and a reward with something wrong about them."""
    match garbage:
        case "nan":
            return obs * np.nan, reward
        case "infinite reward":
            return obs, np.inf
        case "shape":
            return obs[:-1], reward
        case "dtype":
            return np.array(["a"] * len(obs)), reward
    return obs, reward

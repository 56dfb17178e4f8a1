"""Compiling the native code of tasks ahead of their first run."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from longhaul.app.assemble import build_env, build_task
from longhaul.app.configure import ConfigSources, resolve
from longhaul.app.registry import task_names
from longhaul.core.env import SingleEnvs
from longhaul.core.errors import ConfigError, LonghaulError
from longhaul.core.seeds import DerivedSeeds, Seeds
from longhaul.envs.checks import random_actions


def warm_up(tasks: Sequence[str], tell: Callable[[str], None]) -> None:
    """Make one environment of each task and step it once, so that later runs find it compiled.

    Without tasks, all that need no argument are taken; one that cannot be had here is told of.
    """
    for name in tasks or task_names():
        begin = time.monotonic()
        try:
            done = _step_once(name)
        except LonghaulError as error:
            if tasks:
                raise
            if not isinstance(error, ConfigError):  # a task that needs an argument is no news
                tell(f"{name}: {error}")
            continue
        if done:
            tell(f"{name}: ready after {time.monotonic() - begin:.1f} s")


def _step_once(name: str) -> bool:
    """Step one environment of a task; return whether there was native code to compile."""
    config = resolve(ConfigSources(task=name))
    task = build_task(config)
    if not task.envs.compiles:
        return False
    # In this process: what is compiled is cached beside the code, for all others.
    if isinstance(task.envs, SingleEnvs):
        config = replace(config, env=replace(config.env, runtime="serial"))
    env = build_env(config, task, DerivedSeeds(Seeds(config.seed)), 1)
    env.reset()
    env.step(random_actions(env.spec, 1, config.seed)[0])
    env.close()
    return True

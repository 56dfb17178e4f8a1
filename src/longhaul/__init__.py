"""Train agents in runs that are fast, unkillable, exactly resumable and self-explaining.

>>> import longhaul
>>> run = longhaul.train("gym:CartPole-v1", total_timesteps=100_000, seed=1)
>>> run.evaluate(episodes=20).mean
>>> agent = longhaul.load(run)
>>> action = agent.act(observation)

Names are imported when they are first used: `import longhaul` itself loads neither torch nor NumPy.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from longhaul.core.system import refuse_windows

if TYPE_CHECKING:
    from longhaul.api import SessionOptions as SessionOptions
    from longhaul.api import compare as compare
    from longhaul.api import evaluate as evaluate
    from longhaul.api import load as load
    from longhaul.api import register_env as register_env
    from longhaul.api import resume as resume
    from longhaul.api import train as train
    from longhaul.app.evaluation.agent import Agent as Agent
    from longhaul.app.evaluation.load import Run as Run
    from longhaul.core.control import Controller as Controller
    from longhaul.core.errors import LonghaulError as LonghaulError
    from longhaul.core.metrics import Metric as Metric
    from longhaul.core.parts import RunControl as RunControl
    from longhaul.core.parts import RunListener as RunListener
    from longhaul.core.policy import Policy as Policy
    from longhaul.core.settings import Setting as Setting
    from longhaul.core.task import Task as Task
    from longhaul.learn.base import Learner as Learner

_MODULES = {
    "api": ("SessionOptions", "compare", "evaluate", "load", "register_env", "resume", "train"),
    "app.evaluation.agent": ("Agent",),
    "app.evaluation.load": ("Run",),
    "core.control": ("Controller",),
    "core.errors": ("LonghaulError",),
    "core.metrics": ("Metric",),
    "core.parts": ("RunControl", "RunListener"),
    "core.policy": ("Policy",),
    "core.settings": ("Setting",),
    "core.task": ("Task",),
    "learn.base": ("Learner",),
}
_HOMES = {name: module for module, names in _MODULES.items() for name in names}
__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    """Import a public name from the module that defines it."""
    if name not in _HOMES:
        raise AttributeError(f"module 'longhaul' has no attribute {name!r}")
    refuse_windows()
    return getattr(import_module(f"longhaul.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    """Return the public names."""
    return list(__all__)

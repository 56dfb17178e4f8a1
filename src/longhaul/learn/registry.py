"""Finding a learner by the name in `learn.algorithm`."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from longhaul.core.errors import ConfigError, suggestion
from longhaul.core.plugins import find_plugin, plugin_names
from longhaul.learn.config import OnPolicyConfig, PPOConfig, VTraceConfig

if TYPE_CHECKING:
    from longhaul.learn.base import Learner

GROUP = "longhaul.learners"
BUILT_IN = {"ppo": "longhaul.learn.ppo:PPO", "vtrace": "longhaul.learn.vtrace:VTrace"}
CONFIGS: Mapping[str, type[OnPolicyConfig]] = {"ppo": PPOConfig, "vtrace": VTraceConfig}
"""The configs of the built-in learners, without importing the learners."""
_KEY = "learn.algorithm"


def find_learner(name: str) -> type[Learner[Any]]:
    """Return the learner a config names: a built-in one, an installed one or `module:Class`."""
    from longhaul.learn.base import Learner

    found = find_plugin(name, group=GROUP, built_in=BUILT_IN, where=_KEY)
    if found is None:
        known = plugin_names(GROUP, BUILT_IN)
        raise ConfigError(
            f"{_KEY}: there is no choice {name!r}{suggestion(name, known)} "
            f"(choices: {', '.join(known)}); or name one as module:Class"
        )
    if not (isinstance(found, type) and issubclass(found, Learner)):
        raise ConfigError(f"{_KEY} = {name!r} is {found!r}, not a subclass of Learner")
    config = found.config_class
    if not (dataclasses.is_dataclass(config) and issubclass(config, OnPolicyConfig)):
        raise ConfigError(
            f"{_KEY} = {name!r}: its config_class is {config!r}, not a dataclass derived from "
            "OnPolicyConfig"
        )
    return found


def config_class(name: str) -> type[OnPolicyConfig]:
    """Return the class of `[learn]` for the learner a config names."""
    return CONFIGS[name] if name in CONFIGS else find_learner(name).config_class


def foreign_keys(kind: type[OnPolicyConfig]) -> frozenset[str]:
    """Return the keys that only other built-in learners have.

    A preset may contain them; they are ignored when another learner is chosen.
    """
    known = {field.name for other in CONFIGS.values() for field in dataclasses.fields(other)}
    return frozenset(known - {field.name for field in dataclasses.fields(kind)})

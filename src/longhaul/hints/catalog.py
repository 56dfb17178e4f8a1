"""The rules of every run, and how a config changes them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from longhaul.core.config import convert
from longhaul.core.errors import ConfigError, suggestion
from longhaul.core.hint import Rule
from longhaul.hints.advisor import refuse_twins
from longhaul.hints.learning import EntropyAbnormal, LossAbnormal
from longhaul.hints.returns import EndingPays, EpisodesNeverEnd, EvaluationApart, ReturnsFlat
from longhaul.hints.speed import DeviceIdle, MemoryGrows, OneEnvSlow, ThroughputDropped
from longhaul.hints.steering import ExpertsCollapsed, GateStuck, QueueLow, ReplayUnderfilled
from longhaul.hints.updates import (
    GradientsTooLong,
    StillWarmingUp,
    UpdatesTooLarge,
    UpdatesTooSmall,
)

GENERAL: tuple[Rule, ...] = (
    ReturnsFlat(),
    EndingPays(),
    EpisodesNeverEnd(),
    EvaluationApart(),
    UpdatesTooLarge(),
    UpdatesTooSmall(),
    LossAbnormal(),
    EntropyAbnormal(),
    GradientsTooLong(),
    StillWarmingUp(),
    GateStuck(),
    QueueLow(),
    ExpertsCollapsed(),
    ReplayUnderfilled(),
    ThroughputDropped(),
    OneEnvSlow(),
    MemoryGrows(),
    DeviceIdle(),
)
"""The rules that fit any task."""


@dataclass(frozen=True, slots=True)
class HintsConfig:
    """Settings of the `[hints]` table."""

    enabled: bool = True
    """Whether the rules run after every iteration."""
    silent: tuple[str, ...] = ()
    """Names of rules that are turned off."""
    rules: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Changed thresholds, one table per rule: `hints.rules.returns-flat.window = 100`."""


def choose_rules(
    config: HintsConfig, plugins: Iterable[Rule] = (), own: Iterable[Rule] = ()
) -> tuple[Rule, ...]:
    """Return the rules of a run; a task's rule replaces one of the same name."""
    if not config.enabled:
        return ()
    rules: dict[str, Rule] = {rule.name: rule for rule in GENERAL}
    for more in (tuple(plugins), tuple(own)):
        refuse_twins(more)
        rules |= {rule.name: rule for rule in more}
    for name in (*config.silent, *config.rules):
        if name not in rules:
            raise ConfigError(
                f"hints: there is no rule {name!r}{suggestion(name, rules)} "
                f"(rules: {', '.join(rules)})"
            )
    return tuple(
        changed(rule, config.rules.get(name, {}))
        for name, rule in rules.items()
        if name not in config.silent
    )


def changed(rule: Rule, values: Mapping[str, Any]) -> Rule:
    """Return a rule with other thresholds; its name and kind stay."""
    if not values:
        return rule
    where = f"hints.rules.{rule.name}"
    if not dataclasses.is_dataclass(rule) or isinstance(rule, type):
        raise ConfigError(f"{where}: this rule has no thresholds to change")
    for fixed in ("name", "timed"):
        if fixed in values:
            raise ConfigError(f"{where}.{fixed} cannot be changed")
    return convert({**msgspec.to_builtins(rule), **values}, type(rule), where=where)

"""Everything of the player that a task is made of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from longhaul.core.control import Controller
from longhaul.core.errors import ConfigError
from longhaul.core.evaluation import Records, RunLog, Study
from longhaul.core.hint import Rule
from longhaul.core.metrics import Metric, Panel
from longhaul.core.settings import Setting
from longhaul.core.spaces import Discrete, EnvSpec
from longhaul.tasks.kind import RunPlan
from longhaul.tasks.nethack.policy.health import METRICS
from longhaul.tasks.nethack.policy.hints import RULES
from longhaul.tasks.nethack.policy.history import history_records
from longhaul.tasks.nethack.policy.network import ExpertPolicy, expert_names
from longhaul.tasks.nethack.policy.options import SETTINGS, PolicyOptions
from longhaul.tasks.nethack.policy.panels import panels
from longhaul.tasks.nethack.policy.phases import PhaseOptions, build_phases, phase_names
from longhaul.tasks.nethack.policy.skill_network import SkillPolicy
from longhaul.tasks.nethack.policy.study import ExpertStudy
from longhaul.tasks.nethack.rules import RuleGraph


def _make(spec: EnvSpec, graph: RuleGraph, options: PolicyOptions) -> ExpertPolicy:
    assert isinstance(spec.action, Discrete), "actions and skills are choices"
    choices = spec.action.names
    if options.needs_skills or graph.over == "skills":
        return SkillPolicy(spec.observation, graph, options, choices)
    return ExpertPolicy(spec.observation, graph, options, choices)


@dataclass(frozen=True, slots=True)
class PlayerParts:
    """The parts of a task that belong to its policy."""

    make_policy: Callable[[], ExpertPolicy]
    settings: tuple[Setting[Any], ...]
    controllers: tuple[Controller[Any], ...]
    metrics: tuple[Metric, ...]
    panels: tuple[Panel, ...]
    study: Study
    records: Callable[[RunLog], Records]
    hints: tuple[Rule, ...]


def build_player(
    spec: EnvSpec, graph: RuleGraph, policy: PolicyOptions, phases: PhaseOptions, plan: RunPlan
) -> PlayerParts:
    """Return the player for an environment; weights are drawn when the policy is made."""
    if phases.along == "run" and plan.total_iterations:
        raise ConfigError(
            "options.phases.along = 'run' needs the run's length in steps or episodes: leave "
            "total_iterations at 0, or count the phases in iterations"
        )
    return PlayerParts(
        make_policy=lambda: _make(spec, graph, policy),
        settings=SETTINGS,
        controllers=(build_phases(phases, plan.length),),
        metrics=METRICS,
        panels=panels(expert_names(policy.experts)),
        study=ExpertStudy(graph),
        records=lambda log: history_records(log, phase_names(phases)),
        hints=RULES,
    )

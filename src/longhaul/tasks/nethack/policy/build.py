"""Everything of the player that a task is made of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from longhaul.core.control import Controller
from longhaul.core.errors import ConfigError
from longhaul.core.hint import Rule
from longhaul.core.metrics import Metric
from longhaul.core.panel import Panel
from longhaul.core.run_log import Records, RunLog
from longhaul.core.settings import Setting
from longhaul.core.spaces import EnvSpec
from longhaul.core.study import Study
from longhaul.tasks.kind import RunPlan
from longhaul.tasks.nethack.policy.health import METRICS
from longhaul.tasks.nethack.policy.hints import RULES
from longhaul.tasks.nethack.policy.history import history_records
from longhaul.tasks.nethack.policy.network import ExpertPolicy, expert_names
from longhaul.tasks.nethack.policy.options import PolicyOptions
from longhaul.tasks.nethack.policy.panels import panels
from longhaul.tasks.nethack.policy.phase_options import PhaseOptions
from longhaul.tasks.nethack.policy.phases import build_phases, phase_names
from longhaul.tasks.nethack.policy.settings import SETTINGS
from longhaul.tasks.nethack.policy.study import ExpertStudy
from longhaul.tasks.nethack.rules import RuleGraph


@dataclass(frozen=True, slots=True)
class Player:
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
    spec: EnvSpec,
    graph: RuleGraph,
    policy: PolicyOptions,
    phases: PhaseOptions,
    plan: RunPlan,
) -> Player:
    """Return the player for an environment; weights are drawn when the policy is made."""
    if phases.along == "run" and not plan.total_timesteps:
        raise ConfigError(
            "options.phases.along = 'run' needs the run's length in steps: set total_timesteps "
            "and leave total_iterations at 0, or count the phases in iterations"
        )
    return Player(
        make_policy=lambda: ExpertPolicy(spec.observation, graph, policy),
        settings=SETTINGS,
        controllers=(build_phases(phases, total=plan.total_timesteps),),
        metrics=METRICS,
        panels=panels(expert_names(policy.experts)),
        study=ExpertStudy(graph),
        records=lambda log: history_records(log, phase_names(phases)),
        hints=RULES,
    )

"""Everything of the player that a task is made of, and the panels that show it."""

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
from longhaul.tasks.nethack.policy import health, study
from longhaul.tasks.nethack.policy.health import METRICS
from longhaul.tasks.nethack.policy.hints import RULES
from longhaul.tasks.nethack.policy.history import history_records
from longhaul.tasks.nethack.policy.network import ExpertPolicy, expert_names
from longhaul.tasks.nethack.policy.options import SETTINGS, PolicyOptions
from longhaul.tasks.nethack.policy.phases import METRIC, PhaseOptions, build_phases, phase_names
from longhaul.tasks.nethack.policy.skill_network import SkillPolicy
from longhaul.tasks.nethack.policy.study import ExpertStudy
from longhaul.tasks.nethack.rules import RuleGraph

STUDIED = (
    Panel(
        "Routing by situation",
        ("situation", "expert", "weight"),
        "matrix",
        records=f"evaluations/{study.SITUATIONS_FILE}",
        label="mean weight",
    ),
    Panel(
        "Routing by atom",
        ("atom", "expert", "weight"),
        "matrix",
        records=f"evaluations/{study.ATOMS_FILE}",
        label="mean weight",
    ),
    Panel(
        "Routing over one episode",
        ("expert", "step", "weight"),
        "matrix",
        records=f"evaluations/{study.ROUTING_FILE}",
        label="mean weight",
        note="the best of the episodes played again",
    ),
    Panel(
        "Likeness of experts, pair by pair",
        ("a", "b", "likeness"),
        "matrix",
        records=f"evaluations/{study.LIKENESS_FILE}",
        label="mean cosine of logits",
    ),
    Panel(
        "What each expert does",
        ("action", "expert", "share"),
        "matrix",
        records=f"evaluations/{study.ACTIONS_FILE}",
        label="mean probability",
    ),
    Panel(
        "Operators that hold most often",
        ("operator", "held"),
        "bars",
        records=f"evaluations/{study.OPERATORS_FILE}",
    ),
    Panel(
        "Operator scores",
        ("operator", "expert", "score_held"),
        "matrix",
        records=f"evaluations/{study.OPERATORS_FILE}",
        label="mean score while a rule of it holds",
    ),
)
"""What `longhaul study` finds when it plays episodes again."""


def panels(names: tuple[str, ...]) -> tuple[Panel, ...]:
    """Return the panels of a player with these experts."""
    weights = tuple(f"policy/expert_weight/{name}" for name in names)
    shares = tuple(f"policy/expert_share/{name}" for name in names)
    return (
        Panel("Expert weights", weights, "area", note="mean weight of each expert over the run"),
        Panel(
            "Leading expert", shares, "area", note="share of steps in which an expert weighs most"
        ),
        Panel(
            "Entropy of the experts' weights",
            (health.STEP_ENTROPY, health.MEAN_ENTROPY),
            right=(METRIC,),
            note="of a step, and of the mean over steps: only the first shows specialization",
        ),
        Panel(
            "Rules and router",
            ("train/aux_alignment", health.ALIGNED),
            right=(health.INFORMATION,),
            note="distance from the rules' recommendation, cosine with it, and what the leading "
            "expert contains about the situation",
        ),
        Panel(
            "Likeness of experts",
            ("train/aux_semantic", "train/aux_diversity", "train/aux_overlap"),
        ),
        Panel("Health", ("train/grad_norm",), right=(health.FOCUS,)),
        Panel(
            "Scores beside players that learned nothing",
            ("player", "scores"),
            "distribution",
            records="evaluations/*.json",
            each="scores",
            label="true score",
            note="held-out games under one cap",
        ),
        *STUDIED,
    )


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

"""What readers want to see of experts, router and graph."""

from __future__ import annotations

from longhaul.core.panel import Panel
from longhaul.tasks.nethack.policy import health, study
from longhaul.tasks.nethack.policy.phases import METRIC

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
        Panel(
            "Expert weights",
            weights,
            "area",
            note="mean weight of each expert over the run",
        ),
        Panel(
            "Leading expert", shares, "area", note="share of steps in which an expert weighs most"
        ),
        Panel(
            "Entropy of the experts' weights",
            (health.STEP_ENTROPY, health.MEAN_ENTROPY),
            right=(METRIC,),
            note="of a step, and of the mean over steps: only the first tells of specialisation",
        ),
        Panel(
            "Rules and router",
            ("train/aux_alignment", health.ALIGNED),
            right=(health.INFORMATION,),
            note="distance from the rules' recommendation, cosine with it, and what the leading "
            "expert tells about the situation",
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

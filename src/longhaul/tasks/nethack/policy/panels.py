"""What to look at of a player: its panels."""

from __future__ import annotations

import math
from dataclasses import replace

from longhaul.core.metrics import Panel
from longhaul.tasks.nethack.policy import health, study
from longhaul.tasks.nethack.policy.history import PHASES_FILE
from longhaul.tasks.nethack.policy.moments import MOMENTS_FILE
from longhaul.tasks.nethack.policy.phases import METRIC


def _routing(title: str, row: str, file: str) -> Panel:
    fields = (row, "expert", "weight")
    return Panel(title, fields, "matrix", records=f"evaluations/{file}", label="mean weight")


STUDIED = (
    replace(_routing("Routing by situation", "situation", study.SITUATIONS_FILE), is_compared=True),
    _routing("Routing by atom", "atom", study.ATOMS_FILE),
    Panel(
        "Routing over one episode",
        ("step", "weights", "action", "atoms", "value"),
        "tracks",
        records=f"evaluations/{study.STEPS_FILE}",
        note="of the episodes played again the middle one by score; dark: high, or it holds",
    ),
    Panel(
        "Chances of actions over one episode",
        ("step", "chances"),
        "tracks",
        records=f"evaluations/{study.STEPS_FILE}",
        note="how likely each action was, under the mask; the darker, the likelier",
    ),
    Panel(
        "What the graph attends to",
        ("title", "picture", "links", "ends", "groups"),
        "moments",
        records=f"evaluations/{MOMENTS_FILE}",
        note="the moments of that episode in which each expert weighed most: conditions that hold, "
        "the operators the intent attends to most with their scores, and attention as width",
    ),
    Panel(
        "Answers of the experts, projected",
        ("x", "y", "expert"),
        "scatter",
        records=f"evaluations/{study.OUTPUTS_FILE}",
        note="logits of every expert for the same states, on their two principal components",
    ),
    Panel(
        "Intents, projected",
        ("x", "y", "situation"),
        "scatter",
        records=f"evaluations/{study.INTENTS_FILE}",
        note="intents of the same states, on their two principal components",
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


TRAINED = (
    Panel(
        "Training game by game",
        ("episode_return", "metrics.score"),
        "episodes",
        borders=METRIC,
        note="dotted: where a phase begins",
    ),
    Panel(
        "Phases",
        ("phase", "value", "low", "high", "figure"),
        "estimates",
        records=f"evaluations/{PHASES_FILE}",
        each="estimates",
        note="means with 95 % intervals, over games and over iterations",
    ),
    Panel(
        "Scores by phase",
        ("phase", "scores"),
        "boxes",
        records=f"evaluations/{PHASES_FILE}",
        label="true score",
    ),
)
"""What every training game and every phase came to."""


def panels(names: tuple[str, ...]) -> tuple[Panel, ...]:
    """Return the panels of a player with these experts."""
    weights = tuple(f"policy/expert_weight/{name}" for name in names)
    shares = tuple(f"policy/expert_share/{name}" for name in names)
    levels = tuple((f"ln {count}", math.log(count)) for count in sorted({len(names), 2}))
    return (
        Panel("Expert weights", weights, "area", note="mean weight of each expert over the run"),
        Panel(
            "Leading expert",
            shares,
            "area",
            is_compared=True,
            note="share of steps in which an expert weighs most",
        ),
        Panel("Switches of the leading expert", (health.SWITCHES,), is_compared=True),
        Panel(
            "Entropy of the experts' weights",
            (health.STEP_ENTROPY, health.MEAN_ENTROPY),
            levels=levels,
            borders=METRIC,
            note="of a step, and of the mean over steps: only the first shows specialization; "
            "dotted: where a phase begins",
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
        Panel(
            "Health",
            (health.STEP_ENTROPY, "train/grad_norm", health.FOCUS, health.SPREAD, health.MASKED),
            "overview",
        ),
        Panel(
            "Scores beside players that learned nothing",
            ("player", "scores"),
            "distribution",
            records="evaluations/*.json",
            each="scores",
            label="true score",
            note="held-out games under one cap",
        ),
        *TRAINED,
        *STUDIED,
    )

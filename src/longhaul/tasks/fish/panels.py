"""What the laboratory looks at after a run, as pictures."""

from __future__ import annotations

from longhaul.core.panel import Panel
from longhaul.tasks.fish.trace.exports import STEP_ONE
from longhaul.tasks.fish.trace.panels import RECORD_PANELS
from longhaul.tasks.fish.world import RADIUS

DEATH_BINS = tuple(float(edge) for edge in range(0, 526, 25))
"""Bins of 25 steps; the last holds the survivors."""

PANELS = (
    Panel(
        "Survival in training",
        ("env/survival_rate", "env/survival_rate_full"),
        name="survival",
        right=("env/final_num_alive",),
        note="the second only over episodes that were not cut short",
        is_filmed=True,
    ),
    Panel(
        "Training at a glance",
        ("env/survival_rate", "rollout/ep_rew_mean", "rollout/ep_len_mean"),
        kind="overview",
        name="training_overview",
    ),
    Panel(
        "Evaluations",
        (
            "eval/avg_final_survival_rate",
            "eval/min_final_survival_rate",
            "eval/early_death_fraction_100",
            "eval/survival_bound",
        ),
        name="multi_eval_timeline",
        right=("eval/p10",),
        limits=(0.0, 1.05),
    ),
    Panel("First deaths in training", ("env/first_death_step", "env/first_death_p10"),
          name="first_death", dashed=("env/first_death_p10",)),
    Panel("Density penalty and first deaths", ("fish.density_penalty",),
          name="penalty_vs_first_death", right=("env/first_death_step",)),
    Panel("Density penalty and entropy weight", ("fish.density_penalty",),
          name="penalty_vs_entropy", right=("learn.entropy_weight",)),
    Panel(
        "Death steps at every evaluation",
        ("dead",),
        kind="histogram",
        name="death_hist",
        records="events.jsonl",
        event="evaluated",
        each="episodes",
        bins=DEATH_BINS,
        label="step of death",
        total="eval/total_fish_samples",
        note="all fish of the evaluation; the last bin holds the survivors",
    ),
    Panel(
        "Death steps in the final evaluation",
        ("facts.death_steps",),
        kind="histogram",
        name="death_histogram",
        records="evaluations/*.json",
        each="episodes",
        bins=DEATH_BINS,
        label="step of death",
        note="all fish; the last bin holds the survivors",
    ),
    Panel(
        "Where fish died in the first step",
        ("fish_position.0", "fish_position.1"),
        kind="map",
        name="step_one_map",
        records=f"evaluations/{STEP_ONE}",
        bins=(float(RADIUS),),
    ),
    *RECORD_PANELS,
)  # fmt: skip

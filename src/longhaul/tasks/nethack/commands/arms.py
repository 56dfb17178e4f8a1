"""The arms that show what guidance, its content and the mixture are worth: all else is equal."""

from __future__ import annotations

from pathlib import Path

from longhaul.app.experiments.arms import Arm, Experiment
from longhaul.core.errors import ConfigError, suggestion

PRESET = "skills"
ALIKE = (
    "total_timesteps=300000",
    "learn.teacher.sources=[]",
    "schedule=[]",
    "options.network=experts",
    "options.phases.along=run",
    "options.phases.scale=0.0002",
    "options.phases.learning_rate_factor=3.0",
    "options.phases.mode=baseline",
    "collect.chunk=1",
    "options.eval_episodes=400",
)
"""What all arms share: skills, decisions, observations, no teacher, no losses of the rules."""
MIXTURE = ("options.policy.own_skills=true", "options.policy.mixing=probabilities")
GUIDED = (*MIXTURE, "options.policy.operator_weight=1.0")
ARMS: dict[str, tuple[str, ...]] = {
    "plain": (
        "options.network=plain",
        "policy.hidden=[410, 410]",
        "learn.learning_rate=0.0003",
        "learn.ent_coef=0.02",
    ),
    "one-expert": ("options.policy.experts=1", "options.policy.expert_size=340"),
    "router": MIXTURE,
    "guided-router": (*MIXTURE, "options.phases.mode=manager"),
    "guided-skills": GUIDED,
    "shuffled": (*GUIDED, "options.policy.shuffle_rules=1"),
    "rule-router": (*MIXTURE, "options.policy.router=rules"),
    "random-router": (*MIXTURE, "options.policy.router=random"),
}
"""`guided-router` aligns the router with the rules; `guided-skills` adds their order to the logits,
and `shuffled` the same with each skill's rules given to another."""


def experiment(
    only: tuple[str, ...], *, seeds: int, root: Path, overrides: tuple[str, ...]
) -> Experiment:
    """Return the experiment with all arms, or with some of them."""
    for name in only:
        if name not in ARMS:
            raise ConfigError(f"there is no arm {name!r}{suggestion(name, ARMS)}")
    chosen = only or tuple(ARMS)
    # What the user changes counts for all arms; what makes an arm comes last.
    arms = tuple(Arm(name, PRESET, ARMS[name]) for name in chosen)
    return Experiment("nethack", arms, seeds, root, (*ALIKE, *overrides), name="arms")

"""Players that learned nothing, as anchors: random ones, the rules' order, and the script."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from longhaul.core.env import Array, Episode, StepBuffers, empty_actions
from longhaul.core.evaluation import Case
from longhaul.core.seeds import Seeds
from longhaul.tasks.nethack.options import MapOptions, MaskOptions, NetHackGameOptions
from longhaul.tasks.nethack.rule_order import RuleOrder
from longhaul.tasks.nethack.source import NetHackFactory, rules_of
from longhaul.tasks.nethack.vocabulary import ATOM_BITS

Choose = Callable[[StepBuffers], int]
"""Returns the action for the present observation of one game."""
RANDOM, MASKED = "random", "random-under-mask"
RANDOM_SKILL, RULE_ORDER, SCRIPT = "random-skill", "rule-order", "script"
ANCHORS = (RANDOM, MASKED, RANDOM_SKILL, RULE_ORDER, SCRIPT)


def random_player(generator: np.random.Generator) -> Choose:
    """Return a player that draws any action, each as likely as the others, the closed ones too."""

    def choose(slots: StepBuffers) -> int:
        return int(generator.integers(_open(slots).size))

    return choose


def masked_player(generator: np.random.Generator) -> Choose:
    """Return a player that draws one of the actions or skills that are open."""
    return lambda slots: int(generator.choice(np.flatnonzero(_open(slots))))


def rule_player(options: NetHackGameOptions, *, without: Sequence[str] = ()) -> Choose:
    """Return a player that takes the skill the rules call for most, leaving some skills out."""
    order = RuleOrder(rules_of(options.rules, "skills"), without=without)

    def choose(slots: StepBuffers) -> int:
        return int(order.choose(slots.obs[ATOM_BITS], _open(slots)[None])[0])

    return choose


def _open(slots: StepBuffers) -> Array:
    assert slots.mask is not None, "anchors are played in games that have masks"
    mask: Array = slots.mask[0]
    return mask


def play_cases(
    options: NetHackGameOptions, cases: Sequence[Case], choose: Choose
) -> tuple[Episode, ...]:
    """Play every case to its end, one after another."""
    env = NetHackFactory(replace(options, map=MapOptions(), mask=MaskOptions()))()
    slots = StepBuffers.allocate(env.spec, 1)
    env.bind(slots)
    actions = empty_actions(env.spec, 1)
    episodes = []
    try:
        for number, case in enumerate(cases):
            env.reset(case.seed, None)
            total, length, ending = 0.0, 0, None
            while ending is None:
                actions[0] = choose(slots)
                ending = env.step(actions)
                total += float(slots.reward[0])
                length += 1
            episodes.append(
                Episode(0, number, case.seed, length, total, ending.reason, ending.metrics)
            )
    finally:
        env.close()
    return tuple(episodes)


def play_references(
    options: NetHackGameOptions, cases: Sequence[Case]
) -> dict[str, tuple[Episode, ...]]:
    """Play the cases with all anchors, under the cap and with the actions of the options."""
    return {name: play_anchor(name, options, cases) for name in ANCHORS}


def play_anchor(
    name: str, options: NetHackGameOptions, cases: Sequence[Case], *, without: Sequence[str] = ()
) -> tuple[Episode, ...]:
    """Play the cases with one anchor; those that follow rules may leave skills out."""
    draw = Seeds(0).generator("nethack", "anchor", name)
    if name in (RANDOM, MASKED):
        keys = replace(
            options, play="keys", rules="" if options.play == "skills" else options.rules
        )
        return play_cases(
            keys, cases, random_player(draw) if name == RANDOM else masked_player(draw)
        )
    rules = options.rules if options.play == "skills" else ""
    skills = replace(options, play="skills", rules=rules)
    if name == RANDOM_SKILL:
        return play_cases(skills, cases, masked_player(draw))
    if name == SCRIPT:
        skills = replace(skills, skill_steps=1)
    return play_cases(skills, cases, rule_player(skills, without=without))

"""Every rule speaks once of a run that is not well, and never of one that is."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from longhaul.core.hint import Rule
from longhaul.tasks.nethack.policy import hints
from tests.hints.streams import Stream

LENGTH = 150


def healthy(number: int) -> Mapping[str, float]:
    """Return the metrics of a run through all phases as it should be."""
    phase = 1.0 + (number > 40) + (number > 110)
    return {
        "curriculum/phases_phase": phase,
        "policy/alpha_entropy": {1.0: 1.35, 2.0: 0.9, 3.0: 0.5}[phase],
        "policy/mean_alpha_entropy": 1.2,
        "policy/expert_share/survival": 0.15,
        "policy/expert_share/combat": 0.25,
        "policy/expert_share/exploration": 0.5,
        "policy/expert_share/general": 0.1,
        "policy/attention_variance": 0.4,
        "train/grad_norm": 2.0,
        "train/aux_alignment": max(0.05, 0.4 - 0.01 * number),
    }


def ill(**changes: float) -> Stream:
    named = {name.replace("__", "/"): value for name, value in changes.items()}
    return Stream(lambda number: {**healthy(number), **named}, LENGTH)


SICK: dict[str, Stream] = {
    "experts-collapsed": ill(
        policy__expert_share__exploration=0.9, policy__expert_share__survival=0.04
    ),
    "expert-dead": ill(policy__expert_share__general=0.01),
    "experts-undecided": Stream(
        lambda number: {**healthy(number), "policy/alpha_entropy": 1.3}, LENGTH
    ),
    "attention-flat": ill(policy__attention_variance=0.02),
    "gradients-too-long": ill(train__grad_norm=14.0),
    "alignment-stuck": ill(train__aux_alignment=0.4),
}


@pytest.mark.parametrize("rule", hints.RULES, ids=lambda rule: rule.name)
def test_a_rule_speaks_once_of_what_it_is_for(rule: Rule) -> None:
    said = SICK[rule.name].hints_of(rule)
    assert len(said) == 1
    assert said[0][1].finding.setting.startswith("options.")


@pytest.mark.parametrize("rule", hints.RULES, ids=lambda rule: rule.name)
def test_a_healthy_run_is_left_in_peace(rule: Rule) -> None:
    assert Stream(healthy, LENGTH).hints_of(rule) == []


def test_high_entropy_in_the_first_phase_is_as_meant() -> None:
    warm = Stream(lambda number: {**healthy(1), "policy/alpha_entropy": 1.38}, LENGTH)
    assert warm.hints_of(hints.ExpertsUndecided()) == []


def test_an_ablation_without_alignment_is_not_asked_for_it() -> None:
    bare = Stream(
        lambda number: {**healthy(number), "train/aux_alignment": 0.4},
        LENGTH,
        facts={"options.phases.mode": "baseline"},
    )
    assert bare.hints_of(hints.AlignmentStuck()) == []

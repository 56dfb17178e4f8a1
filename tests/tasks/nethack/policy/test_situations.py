from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from longhaul.tasks.nethack.policy.health import (
    INFORMATION,
    SITUATION_NAMES,
    SITUATIONS,
    Situations,
    joint_counts,
    measures,
    mutual_information,
    purity,
)
from longhaul.tasks.nethack.vocabulary import ATOM_COUNT, ATOM_INDEX
from tests.tasks.nethack.policy.players import DECLARED, observations, player


def atoms(*names: str) -> torch.Tensor:
    found = torch.zeros(1, ATOM_COUNT, dtype=torch.uint8)
    found[0, [ATOM_INDEX[name] for name in names]] = 1
    return found


def test_the_most_urgent_situation_counts() -> None:
    situations = Situations()

    def named(*there: str) -> str:
        return SITUATION_NAMES[int(situations.forward(atoms(*there)))]

    for situation in SITUATIONS:
        for name in situation.atoms:
            assert named(name) == situation.name
    assert named("frontier_reachable", "hostile_adjacent") == "fight"
    assert named("hp_low", "hostile_adjacent") == "danger"
    assert named("in_room") == "quiet"


def test_what_determines_the_other_tells_all_of_it() -> None:
    counts = np.eye(4) * 1000
    assert mutual_information(counts) == pytest.approx(math.log(4), abs=2e-3)
    assert purity(counts) == [1.0] * 4


def test_independent_choices_tell_nothing() -> None:
    rng = np.random.default_rng(6)
    expert, situation = rng.integers(4, size=4000), rng.integers(10, size=4000)
    counts = joint_counts(torch.from_numpy(expert), torch.from_numpy(situation), 4)
    assert mutual_information(counts.numpy()) < 0.004
    assert mutual_information([[0.0, 0.0]]) == 0.0


def test_a_minibatch_is_measured_by_the_same_formula() -> None:
    policy, obs = player(), observations(300)
    with torch.no_grad():
        thought = policy.think(obs, DECLARED)
        situation = policy.situations.forward(obs["atoms"])
        target = policy.target(thought.spoken.score, DECLARED)
        before = thought.alpha.unsqueeze(0)
        started = torch.zeros(1, 300, dtype=torch.bool)
        found = measures(thought, target, situation, before, started, None)
    counts = joint_counts(thought.alpha.argmax(1), situation, 4).numpy()
    assert float(found[INFORMATION]) == pytest.approx(mutual_information(counts), abs=1e-5)
    assert float(found["policy/expert_switches"]) == 0.0
    mean = thought.alpha.mean(0)
    expected = -float((mean * mean.log()).sum())
    assert float(found["policy/mean_alpha_entropy"]) == pytest.approx(expected, abs=1e-5)

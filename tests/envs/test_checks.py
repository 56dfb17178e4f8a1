"""The start-up check finds environments whose seeds do not hold."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from longhaul.core.env import Array, Ending, EnvSource, SingleEnvs
from longhaul.core.spaces import Tier
from longhaul.envs.checks import check_seeds, random_actions
from longhaul.envs.gymnasium.env import GymnasiumFactory, gymnasium_envs
from longhaul.tasks.probe.chase import chase_envs
from tests.envs.gymnasium_fakes import fake_id
from tests.envs.school import School, SchoolFactory
from tests.faults.gymnasium_walk import GYMNASIUM_ID
from tests.faults.trouble import Plan, tell, turns


def gymnasium(env_id: str) -> SingleEnvs:
    return gymnasium_envs(GymnasiumFactory(env_id))


@pytest.mark.parametrize(
    "source",
    [
        gymnasium("CartPole-v1"),
        gymnasium("Pendulum-v1"),
        gymnasium(fake_id("SplitMaskedWalk")),
        gymnasium(fake_id("DictWalk")),
        gymnasium(fake_id("ExactWalk")),
        SchoolFactory().source(),
        chase_envs(rows=3, has_masks=True),
    ],
    ids=lambda source: source.spec.id,
)
def test_an_honest_env_passes_with_its_tier(source: EnvSource) -> None:
    check = check_seeds(source)
    assert check.honest
    assert check.source == source
    assert "seeds reproduce" in check.report()


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("Liar", {("two resets", 0), ("two constructions", 0)}),
        ("SlyLiar", {("an episode played again", 1), ("two constructions", 1)}),
        ("Hoarder", {("an episode played again", 1)}),
    ],
)
def test_a_liar_is_reported_and_runs_as_tier_none(name: str, found: set[tuple[str, int]]) -> None:
    check = check_seeds(gymnasium(fake_id(name)))
    assert {(finding.comparison, finding.step) for finding in check.findings} == found
    assert check.source.spec.tier is Tier.NONE
    assert "not bit for bit" in check.report()
    assert name in check.report()


class CrookedSchool(School):
    def step(self, actions: Array) -> Ending | None:
        ending = super().step(actions)
        self.slots.terms["luck"][:] += 1
        return ending


def test_reward_terms_that_do_not_add_up_are_reported() -> None:
    source = SingleEnvs(SchoolFactory().spec, lambda: CrookedSchool(SchoolFactory()))
    check = check_seeds(source)
    assert [finding.comparison for finding in check.findings] == ["reward terms"]
    assert check.source.spec.tier is Tier.REPLAY
    assert "do not add up" in check.report()
    assert "tier" not in check.report()


def test_unbounded_actions_are_tried_near_zero() -> None:
    spec = gymnasium("Pendulum-v1").spec
    actions = random_actions(spec, 50, 0)
    assert actions.shape == (50, 1, 1)
    assert np.abs(actions).max() <= 1.0


def test_a_source_keeps_its_maker() -> None:
    liar = gymnasium(fake_id("Liar"))
    assert check_seeds(liar).source == replace(liar, spec=replace(liar.spec, tier=Tier.NONE))


def test_an_env_whose_worker_is_killed_during_the_check_keeps_its_tier(tmp_path: Path) -> None:
    tell(tmp_path, Plan("kill", steps=(5,), times=3))
    source = gymnasium_envs(GymnasiumFactory(GYMNASIUM_ID, {"folder": str(tmp_path)}))
    check = check_seeds(replace(source, prefers_processes=True))
    assert turns(tmp_path) >= 3
    assert check.source.spec.tier is Tier.REPLAY

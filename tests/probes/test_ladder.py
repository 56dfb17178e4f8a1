"""The ladder of probes: each rung adds one thing that can be wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

from longhaul.nets.config import PolicyConfig
from tests.probes.schooling import BRISK, LEARNERS, Lessons, Taught, teach
from tests.probes.worlds import (
    ConstantReward,
    Countdown,
    DelayedReward,
    DyingRow,
    ForbiddenFruit,
    ForcedHand,
    PaidAction,
    ShownAction,
    ShownReward,
    Steady,
    Target,
    TwoChoices,
    World,
    WorldFactory,
)

pytestmark = pytest.mark.parametrize("algorithm", LEARNERS)
GAMMA = BRISK.gamma


def learned(world: Callable[[], World], algorithm: str, lessons: Lessons | None = None) -> Taught:
    return teach(WorldFactory(world).source(), algorithm, lessons or Lessons())


def test_a_constant_reward_is_expected(algorithm: str) -> None:
    assert learned(ConstantReward, algorithm).value(0.5) == pytest.approx(1.0, abs=0.05)


def test_a_reward_that_is_shown_is_expected(algorithm: str) -> None:
    taught = learned(ShownReward, algorithm)
    assert taught.value(1.0) == pytest.approx(1.0, abs=0.1)
    assert taught.value(-1.0) == pytest.approx(-1.0, abs=0.1)


def test_a_reward_one_step_off_is_discounted(algorithm: str) -> None:
    taught = learned(DelayedReward, algorithm)
    assert taught.value(1.0) == pytest.approx(1.0, abs=0.05)
    assert taught.value(0.0) == pytest.approx(GAMMA, abs=0.05)


def test_the_better_action_is_taken(algorithm: str) -> None:
    taught = learned(PaidAction, algorithm)
    assert taught.action(0.5).item() == 1
    assert taught.last.reward.mean() > 0.9, "it is taken nearly always, too"


def test_the_action_that_fits_what_is_shown_is_taken(algorithm: str) -> None:
    taught = learned(ShownAction, algorithm)
    assert taught.action(1.0).item() == 1
    assert taught.action(-1.0).item() == 0
    assert taught.mean_return() == 1.0


LONG = Lessons(rollouts=40)


def test_a_cut_by_the_clock_is_no_end(algorithm: str) -> None:
    """Reward 1 for ever is worth 1 / (1 - discount), however often the clock cuts it."""
    value = learned(Steady, algorithm, LONG).value(1.0)
    assert value == pytest.approx(1.0 / (1.0 - GAMMA), rel=0.05)


def test_a_real_end_is_one(algorithm: str) -> None:
    taught = learned(Countdown, algorithm, LONG)
    for now in range(5):
        worth = sum(GAMMA**t for t in range(5 - now))
        assert taught.value(now / 5) == pytest.approx(worth, abs=0.25), now


def test_a_forbidden_action_is_never_taken_however_well_it_pays(algorithm: str) -> None:
    taught = learned(ForbiddenFruit, algorithm)
    assert taught.last.mask is not None
    assert taught.last.mask.gather(2, taught.last.action.unsqueeze(2)).all()
    assert taught.last.reward.max() <= 1.0
    assert taught.mean_return() == 1.0


def test_a_dead_row_teaches_nothing(algorithm: str) -> None:
    """The living row's value is that of its own rewards: the dead one's silence is not averaged.

    At one observation for every step, the best single value is the mean of what follows each of
    the 7 steps that rows were there for.
    """
    lessons = Lessons(rollouts=30, steps=12, learn=replace(BRISK, gae_lambda=1.0))
    taught = learned(DyingRow, algorithm, lessons)
    assert taught.action(1.0).item() == 1
    following = [sum(GAMMA**t for t in range(left)) for left in (6, 5, 4, 3, 2, 1)]
    expected = (sum(following) + 1.0) / 7
    assert taught.value(1.0) == pytest.approx(expected, abs=0.3)
    assert taught.last.env_steps == int(taught.last.active.sum()) < taught.last.reward.numel()


def test_a_forced_action_is_not_learned_as_if_chosen(algorithm: str) -> None:
    taught = learned(ForcedHand, algorithm)
    assert taught.last.forced.any()
    assert taught.action(0.5).item() == 1
    assert taught.value(0.5) == pytest.approx(1.0, abs=0.2)


def test_a_point_is_hit(algorithm: str) -> None:
    narrow = PolicyConfig(hidden=(16,), initial_log_std=-1.0)
    lessons = Lessons(rollouts=50, learn=replace(BRISK, learning_rate=0.01), policy=narrow)
    taught = learned(Target, algorithm, lessons)
    for sign in (-1.0, 1.0):
        expected = torch.tensor([0.5 * sign, -0.3])
        torch.testing.assert_close(taught.action(sign), expected, atol=0.15, rtol=0.0)
    assert taught.mean_return() > -0.03


def test_two_choices_at_once_are_both_learned(algorithm: str) -> None:
    taught = learned(TwoChoices, algorithm)
    assert taught.action(1.0).tolist() == [1, 2]
    assert taught.action(-1.0).tolist() == [0, 1]
    assert taught.mean_return() == 1.0

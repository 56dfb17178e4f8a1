"""Hard starts, milestones and the early payment follow the run."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from longhaul.core.control import NoState, Progress, View
from longhaul.core.settings import Settings
from longhaul.tasks.mario.options import HARD_SHARE
from longhaul.tasks.mario.payments import RewardOptions
from longhaul.tasks.mario.stage_schedule import (
    FRESH_CLEAR_RATE,
    EarlyWindow,
    HardStarts,
    MilestonesOnce,
)

WEIGHTS = {one.name: one for one in RewardOptions(early=0.5).settings()}


@given(st.lists(st.floats(0, 1), max_size=80))
def test_the_share_of_hard_starts_stays_between_nothing_and_its_first_value(
    rates: list[float],
) -> None:
    hard = HardStarts(0.5)
    state, now = hard.initial(), Settings([HARD_SHARE], {HARD_SHARE.name: 0.5})
    for iteration, rate in enumerate(rates):
        view = View(Progress(iteration), {FRESH_CLEAR_RATE: rate}, now)
        decision = hard.decide(state, view)
        state, now = decision.state, now.with_(decision.assignments)
        assert 0 <= now[HARD_SHARE] <= 0.5


def test_a_mastered_stage_needs_no_hard_starts_and_no_news_changes_nothing() -> None:
    hard = HardStarts(0.5)
    state, now = hard.initial(), Settings([HARD_SHARE], {HARD_SHARE.name: 0.5})
    assert hard.decide(state, View(Progress(1), {}, now)).assignments == ()
    for iteration in range(100):
        decision = hard.decide(state, View(Progress(iteration), {FRESH_CLEAR_RATE: 1.0}, now))
        state, now = decision.state, now.with_(decision.assignments)
    assert now[HARD_SHARE] == 0.0


def test_the_floor_of_milestones_follows_the_farthest_progress_upwards_only() -> None:
    setting = WEIGHTS["reward.milestone_floor"]
    once, now = MilestonesOnce(setting), Settings([setting])
    for reached, floor in ((300.0, 300.0), (200.0, 300.0), (450.0, 450.0)):
        view = View(Progress(1), {"env/max_progress": reached}, now)
        now = now.with_(once.decide(NoState(), view).assignments)
        assert now[setting] == floor


def test_the_early_payment_ends_with_its_window() -> None:
    setting = WEIGHTS["reward.early"]
    early, now = EarlyWindow(setting, 3), Settings([setting])
    paid = []
    for iteration in range(1, 6):
        now = now.with_(early.decide(NoState(), View(Progress(iteration), {}, now)).assignments)
        paid.append(now[setting])
    assert paid == [0.5, 0.5, 0.0, 0.0, 0.0]

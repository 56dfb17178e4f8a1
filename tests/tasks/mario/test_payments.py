"""Every term is in the reward, by its formula, and nothing else is."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from longhaul.core.env import StepBuffers
from longhaul.core.errors import ConfigError
from longhaul.core.settings import Settings
from longhaul.core.spaces import Discrete, EnvSpec, Part
from longhaul.envs.native.thread_pool import Chain, run_alone
from longhaul.tasks.mario.game import reward as at
from longhaul.tasks.mario.payments import PREFIX, TERMS, RewardOptions, TermPay, TermReward

NOTHING = RewardOptions(progress=0, time=0, death=0, flag=0, loop=0)


class Bench:
    """One game whose figures are written by hand."""

    def __init__(self, options: RewardOptions, x: int = 40) -> None:
        self.figures = np.zeros((1, at.FIGURES), np.int32)
        self.figures[0, [at.X, at.BEST_X]] = x
        reward = TermReward()
        spec = EnvSpec(
            "m",
            {"x": Part((1,))},
            Discrete(2),
            terms=reward.terms,
            measures=reward.measures,
        )
        self.slots = StepBuffers.allocate(spec, 1)
        self.pay = TermPay(options, 1)
        self.pay.bind(self.figures, self.slots)
        self.pay.begin(np.array([0]))

    def step(self, **changes: int) -> dict[str, float]:
        """Pay a step that left these figures; return the terms that are not 0."""
        own = self.figures[0]
        own[[at.GAINED, at.SCORE_GAINED, at.COINS_GAINED, at.CLOCK_LOST, at.POWER_CHANGE]] = 0
        own[[at.LOOPED, at.CLEARED_NOW, at.DIED_NOW, at.REASON]] = 0
        for name, value in changes.items():
            own[vars(at)[name]] = value
        run_alone(Chain(self.pay.bound()), np.zeros(1, np.int64), 0, 1)
        total = sum(float(term[0]) for term in self.slots.terms.values())
        assert float(self.slots.reward[0]) == pytest.approx(total, abs=1e-5)
        return {n: float(t[0]) for n, t in self.slots.terms.items() if t[0]}

    def walk(self, x: int) -> dict[str, float]:
        """Walk to a place, as the game layer counts it."""
        best = int(self.figures[0, at.BEST_X])
        gained = max(x - best, 0)
        progress = int(self.figures[0, at.PROGRESS]) + gained
        return self.step(X=x, GAINED=gained, BEST_X=max(best, x), PROGRESS=progress)


def only(**weights: float) -> RewardOptions:
    """Return options in which nothing else pays."""
    values = {"progress": 0.0, "time": 0.0, "death": 0.0, "flag": 0.0, "loop": 0.0, **weights}
    return RewardOptions(**values)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "step", "expected"),
    [
        (only(score=0.025), {"SCORE_GAINED": 200}, {"score": 5.0}),
        (only(coins=0.5), {"COINS_GAINED": 2}, {"coins": 1.0}),
        (only(power=2.0), {"POWER_CHANGE": -1}, {"power": -2.0}),
        (only(time=-0.1), {"CLOCK_LOST": 3}, {"time": -0.3}),
        (only(death=-5.0), {"DIED_NOW": 1, "REASON": at.ENEMY}, {"death": -5.0}),
        (only(death=-5.0), {"REASON": at.OVER}, {"death": -5.0}),
        (only(death=-5.0), {"REASON": at.TIMEOUT}, {}),
        (only(flag=5.0), {"CLEARED_NOW": 1, "REASON": at.FLAG}, {"flag": 5.0}),
        (only(stagnation=-1.5), {"REASON": at.STAGNATION}, {"stagnation": -1.5}),
    ],
)
def test_a_term_pays_by_its_formula_and_no_other_does(
    options: RewardOptions, step: dict[str, int], expected: dict[str, float]
) -> None:
    assert Bench(options).step(**step) == pytest.approx(expected)


def test_new_ground_pays_once_and_moving_right_pays_every_time() -> None:
    bench = Bench(only(progress=0.5, forward=0.25))
    assert bench.walk(50) == {"progress": 5.0, "forward": 2.5}
    assert bench.walk(44) == {}
    assert bench.walk(50) == {"forward": 1.5}


@settings(max_examples=50)
@given(st.lists(st.tuples(st.integers(0, 3000), st.integers(0, 20)), max_size=40))
def test_progress_pays_the_gains_that_the_game_counts_and_nothing_for_places(
    steps: list[tuple[int, int]],
) -> None:
    """What it counts is best x less first x: `test_the_gains_of_an_episode_...` of the games."""
    bench = Bench(only(progress=0.5))
    paid = [bench.step(X=x, GAINED=gained).get("progress", 0.0) for x, gained in steps]
    assert paid == [0.5 * gained for _, gained in steps]


def test_a_place_that_was_not_walked_to_pays_nothing() -> None:
    bench = Bench(only(progress=1.0, forward=1.0))
    assert bench.step(X=900, BEST_X=900) == {}
    assert bench.step(X=30, BEST_X=30, AREA_SLOT=1) == {}
    assert bench.step(X=34, BEST_X=34, GAINED=4) == {"progress": 4.0, "forward": 4.0}


def test_a_maze_takes_back_what_the_wrong_way_paid_and_pays_for_the_right_one() -> None:
    bench = Bench(only(progress=1.0, loop=1.0), x=0)
    paid = 0.0
    for x in range(16, 1505, 16):
        paid += sum(bench.walk(x).values())
    assert paid == 1504
    looped = bench.step(X=480, LOOPED=1)
    assert looped == {"loop": -1024.0}
    assert bench.step(X=480) == {}
    back = sum(sum(bench.walk(x).values()) for x in range(496, 1521, 16))
    assert back == 1024 + 16
    assert paid + sum(looped.values()) + back == 1520


def test_looping_for_ever_pays_nothing() -> None:
    bench = Bench(only(progress=1.0, loop=1.0), x=0)
    for x in range(16, 1505, 16):
        bench.walk(x)
    for _ in range(3):
        lap = sum(bench.step(X=480, LOOPED=1).values())
        lap += sum(sum(bench.walk(x).values()) for x in range(496, 1505, 16))
        assert lap == 0


def test_the_scale_spares_the_ends() -> None:
    bench = Bench(only(progress=1.0, death=-5.0, scale=0.1))
    died = bench.step(X=50, GAINED=10, BEST_X=50, DIED_NOW=1, REASON=at.PIT)
    assert died == pytest.approx({"progress": 1.0, "death": -5.0})


def test_a_milestone_pays_whoever_passes_it_and_several_at_once() -> None:
    bench = Bench(only(milestone=0.5), x=0)
    assert bench.step(X=290, GAINED=290, PROGRESS=290, BEST_X=290) == {}
    assert bench.step(X=910, GAINED=620, PROGRESS=910, BEST_X=910) == {"milestone": 1.5}


def test_milestones_below_the_floor_pay_nothing() -> None:
    options = only(milestone=0.5)
    bench = Bench(options, x=0)
    declared = options.settings()
    bench.pay.configure(Settings(declared, {f"{PREFIX}milestone_floor": 700.0}))
    bench.pay.begin(np.array([0]))
    assert bench.step(X=650, GAINED=650, PROGRESS=650, BEST_X=650) == {}
    assert bench.step(X=950, GAINED=300, PROGRESS=950, BEST_X=950) == {"milestone": 0.5}


def test_the_early_payment_comes_on_top_and_its_absence_changes_nothing() -> None:
    plain, early = Bench(only(progress=0.5)), Bench(only(progress=0.5, early=0.25))
    assert plain.walk(50) == {"progress": 5.0}
    assert early.walk(50) == {"progress": 5.0, "early": 2.5}


def test_a_weight_set_during_the_run_holds_from_the_next_episode_on() -> None:
    options = only(progress=1.0)
    bench = Bench(options)
    bench.pay.configure(Settings(options.settings(), {f"{PREFIX}progress": 2.0}))
    assert bench.walk(41) == {"progress": 1.0}
    bench.pay.begin(np.array([0]))
    assert bench.walk(42) == {"progress": 2.0}


def test_a_snapshot_keeps_what_is_owed_and_all_weights() -> None:
    options = only(progress=1.0, loop=1.0)
    bench, other = Bench(options, x=0), Bench(options, x=0)
    bench.walk(1504)
    bench.step(X=480, LOOPED=1)
    bench.pay.configure(Settings(options.settings(), {f"{PREFIX}progress": 3.0}))
    other.figures[...] = bench.figures
    other.pay.restore(bench.pay.snapshot())
    assert other.walk(500) == bench.walk(500) == {"loop": 20.0}
    other.pay.begin(np.array([0]))
    assert other.walk(2000) == {"progress": 3.0 * 496}


def test_every_term_is_a_setting_with_its_first_value() -> None:
    declared = {one.name: one.default for one in RewardOptions(progress=0.25).settings()}
    assert {f"{PREFIX}{term}" for term in TERMS} <= set(declared)
    assert declared[f"{PREFIX}progress"] == 0.25


@pytest.mark.parametrize("name", ["progress", "scale", "loop"])
def test_a_weight_that_cannot_be_negative_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=f"options.reward.{name}"):
        RewardOptions(**{name: -0.1})  # type: ignore[arg-type]


def test_numbers_that_are_none_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"options.reward.flag"):
        RewardOptions(flag=float("nan"))
    with pytest.raises(ConfigError, match="milestone_every"):
        RewardOptions(milestone_every=0)

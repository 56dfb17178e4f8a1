"""Schools as a vector environment: the contract, threads, settings, starts and endings."""

from __future__ import annotations

import json
from collections.abc import Iterator

import numpy as np
import pytest

from longhaul.core.env import BatchedEnvs, Start, VectorEnv
from longhaul.core.errors import EnvError
from longhaul.core.seeds import EpisodeSeeds
from longhaul.core.settings import Settings
from longhaul.envs.checks import check_seeds
from longhaul.envs.serial import BatchedVectorEnv
from longhaul.envs.starts import STARTS, tupled
from longhaul.tasks.fish.options import (
    ESCAPE_BOOST,
    SCHOOL_SIZE,
    FishOptions,
    FishRewardOptions,
    NeighborOptions,
    PredatorOptions,
)
from longhaul.tasks.fish.world.broadcast import broadcast_envs
from longhaul.tasks.fish.world.school import fish_envs
from longhaul.tasks.fish.world.starts import PositionStart, SeedStart, ThrownStart, read_start
from tests.contracts.vector_env_contract import (
    SEEDS,
    Make,
    VectorEnvContract,
    assert_same,
    play,
    through_checkpoint,
    wishes,
)
from tests.tasks.fish.worlds import placed, tank

MODERN = FishOptions(fish=6, time_limit=30, short_limit=7, short_share=0.5)
EVERYTHING = FishOptions(
    fish=6,
    time_limit=25,
    predator=PredatorOptions(count=2, homing=1.0),
    neighbors=NeighborOptions(inputs=True),
    reward=FishRewardOptions(density_penalty=0.2, divergence=0.1),
    obstacles=((3.0, 3.0, 1.0),),
)
ORIGINAL = FishOptions(
    fish=5, inputs="world", time_limit=20, limit_ends=True, reward=FishRewardOptions("original")
)
SOURCES = {
    "modern": fish_envs(MODERN),
    "everything": fish_envs(EVERYTHING),
    "original": fish_envs(ORIGINAL),
    "broadcast": broadcast_envs(ORIGINAL),
    "broadcast at random": broadcast_envs(
        FishOptions(fish=4, sampling="random", time_limit=21, short_share=0.3, short_limit=9)
    ),
}
CASES = [(name, 1) for name in SOURCES] + [("modern", 2)]


class TestFishContract(VectorEnvContract):
    @pytest.fixture(params=CASES, ids=str)
    def make(self, request: pytest.FixtureRequest) -> Iterator[Make]:
        name, threads = request.param
        made: list[VectorEnv] = []

        def make(count: int, seeds: EpisodeSeeds) -> VectorEnv:
            made.append(BatchedVectorEnv(SOURCES[name], count, seeds, threads=threads))
            return made[-1]

        yield make
        for vector in made:
            vector.close()


@pytest.mark.parametrize("name", SOURCES)
@pytest.mark.parametrize("threads", [2, 5, 40])
def test_results_do_not_depend_on_the_threads(name: str, threads: int) -> None:
    source = SOURCES[name]
    alone = BatchedVectorEnv(source, 17, SEEDS)
    shared = BatchedVectorEnv(source, 17, SEEDS, threads=threads)
    alone.reset()
    shared.reset()
    actions = wishes(alone, 40)
    assert_same(play(alone, actions), play(shared, actions))
    shared.close()


def test_results_do_not_depend_on_how_schools_are_split_into_batches() -> None:
    whole = tank(MODERN, seeds=tuple(range(9)))
    parts = [tank(MODERN, seeds=tuple(range(begin, begin + 3))) for begin in (0, 3, 6)]
    generator = np.random.default_rng(0)
    for _ in range(30):
        actions = generator.integers(0, 5, 9 * 6)
        whole.step(actions.tolist())
        for number, part in enumerate(parts):
            part.step(actions[number * 18 : (number + 1) * 18].tolist())
        np.testing.assert_array_equal(whole.obs, np.concatenate([part.obs for part in parts]))
        rewards = np.concatenate([part.slots.reward for part in parts])
        np.testing.assert_array_equal(whole.slots.reward, rewards)


@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)
def test_seeds_reproduce_and_terms_add_up(source: BatchedEnvs) -> None:
    check = check_seeds(source)
    assert not check.findings, check.report()


def test_a_school_goes_on_without_its_dead_and_ends_with_the_last() -> None:
    bodies = ((0.3, 0.0, 0.0, 0.0), (0.0, 1.3, 0.0, 0.0))
    world = placed(FishOptions(fish=2), bodies, (0.0, 0.0, 0.0, 1.5))
    world.step(4)
    assert world.slots.active.tolist() == [False, True]
    assert not world.schools.over.any()
    assert not world.obs[0].any()
    while not world.schools.over.any():
        world.step(4)
    ending = world.schools.ending(0)
    assert ending.reason == "all_dead"
    assert ending.metrics == {
        "survival_rate": 0.0,
        "final_num_alive": 0.0,
        "avg_num_alive": 3 / 4,
        "step_one_deaths": 1.0,
        "first_death_step": 1.0,
        "first_later_death_step": 4.0,
        "fish": 2.0,
    }
    assert world.slots.terminated.tolist() == [False, True]
    assert world.schools.death_steps(0)[1] > 1


def test_the_time_limit_truncates_survivors_or_ends_them_in_the_original() -> None:
    for limit_ends in (False, True):
        options = FishOptions(fish=2, time_limit=3, limit_ends=limit_ends)
        bodies = ((0.0, -9.0, 0.0, 0.0), (3.0, -9.0, 0.0, 0.0))
        world = placed(options, bodies, (0.0, 5.0, 0.0, 0.0))
        for _ in range(3):
            assert not world.schools.over.any()
            world.step(3)
        assert world.slots.terminated.all() == limit_ends
        assert world.slots.truncated.all() != limit_ends
        ending = world.schools.ending(0)
        assert ending.reason == "time_limit"
        assert "first_death_step" not in ending.metrics


def test_four_of_five_episodes_are_short_and_which_ones_depends_on_the_seed_alone() -> None:
    options = FishOptions(fish=1, short_share=0.8)
    limits = tank(options, seeds=tuple(range(4000))).schools.world.limit
    assert set(limits.tolist()) == {60, 500}
    assert (limits == 60).mean() == pytest.approx(0.8, abs=0.02)
    again = tank(options, seeds=tuple(range(3999, -1, -1))).schools.world.limit
    np.testing.assert_array_equal(limits, again[::-1])


def test_a_smaller_school_leaves_rows_empty_and_is_drawn_like_one_of_its_size() -> None:
    settings = Settings([SCHOOL_SIZE], {SCHOOL_SIZE.name: 4})
    world = tank(FishOptions(fish=9), seeds=(5,), settings=settings)
    small = tank(FishOptions(fish=4), seeds=(5,))
    assert world.slots.active.tolist() == [True] * 4 + [False] * 5
    for _ in range(20):
        np.testing.assert_array_equal(world.obs[:4], small.obs)
        assert not world.obs[4:].any()
        world.step(1)
        small.step(1)
    assert len(world.schools.death_steps(0)) == 4


def test_the_boost_setting_changes_starts_unless_the_schools_are_a_fixed_suite() -> None:
    settings = Settings([ESCAPE_BOOST], {ESCAPE_BOOST.name: 0.5})
    for follows, speed in ((True, 1.0), (False, 1.5)):
        schools = fish_envs(FishOptions(fish=3), follows_settings=follows).make(1)
        schools.configure(settings)
        schools.reset(np.arange(1), np.array([1]), [None])
        velocity = schools.snapshot()["fish"][0, :, 2:]
        np.testing.assert_allclose(np.hypot(*velocity.T), speed, rtol=1e-5)


def through_json(start: Start) -> Start:
    loaded = tupled(json.loads(json.dumps(start)))
    assert loaded is not None
    return loaded


def test_a_seed_start_plays_that_seeds_episode_again() -> None:
    options = FishOptions(fish=7)
    start = through_json(SeedStart(42, 0.8, 5).as_value())
    again = tank(options, seeds=(1,), starts=(start,)).schools.world
    settings = Settings([ESCAPE_BOOST, SCHOOL_SIZE], {ESCAPE_BOOST.name: 0.8, SCHOOL_SIZE.name: 5})
    first = tank(options, seeds=(42,), settings=settings).schools.world
    np.testing.assert_array_equal(again.fish, first.fish)
    np.testing.assert_array_equal(again.predators, first.predators)
    assert again.size[0] == 5


def test_a_stored_position_comes_back_exactly_with_its_deaths() -> None:
    options = FishOptions(fish=96)
    seeds = (2, 3, 5, 8)
    first = tank(options, seeds=seeds)
    starts = [through_json(first.schools.present_start(e).as_value()) for e in range(len(seeds))]
    again = tank(options, seeds=(0, 0, 0, 0), starts=tuple(starts))
    np.testing.assert_array_equal(first.obs, again.obs)
    for _ in range(40):
        first.step(2)
        again.step(2)
    np.testing.assert_array_equal(first.schools.world.deaths, again.schools.world.deaths)
    assert (first.schools.world.deaths == 1).any()


def test_a_throw_sets_the_predators_velocity_before_or_after_its_pre_roll() -> None:
    options = FishOptions(fish=2)
    after = tank(options, starts=(ThrownStart((1.0, -2.0), after_pre_roll=True).as_value(),))
    np.testing.assert_allclose(after.schools.world.predators[0, 0, 2:], (1.0, -2.0))
    before = tank(options, starts=(ThrownStart((1.0, -2.0)).as_value(),))
    plain = tank(options)
    assert not np.allclose(before.schools.world.predators, plain.schools.world.predators)
    np.testing.assert_array_equal(before.schools.world.fish, plain.schools.world.fish)


@pytest.mark.parametrize(
    "start",
    [
        SeedStart(7),
        SeedStart(7, 0.8),
        SeedStart(7, 0.8, 12),
        ThrownStart((0.5, -1.0)),
        ThrownStart((0.5, -1.0), after_pre_roll=True),
        PositionStart(((0.0, 1.0, 2.0, 3.0),), ((4.0, 5.0, 6.0, 7.0),)),
    ],
)
def test_starts_survive_a_file(start: SeedStart | ThrownStart | PositionStart) -> None:
    assert read_start(through_json(start.as_value())) == start


@pytest.mark.parametrize(
    ("start", "message"),
    [
        (3, "is not of the form"),
        (("seed", 1.5), "is not of the form"),
        (("position", ((1.0, 2.0),), ((0.0, 0.0, 0.0, 0.0),)), "is not of the form"),
        (("seed", 1, 0.8, 99), "99 fish does not fit a school of 6"),
        (("position", ((0.0,) * 4,), ((0.0,) * 4,) * 2), "2 predators does not fit"),
    ],
)
def test_an_impossible_start_is_an_error(start: Start, message: str) -> None:
    vector = BatchedVectorEnv(fish_envs(MODERN), 1, SEEDS)
    vector.configure(Settings([STARTS], {STARTS.name: (start,)}))
    with pytest.raises(EnvError, match=message):
        vector.reset()


def test_a_state_saved_under_changed_settings_goes_on_under_them() -> None:
    def make() -> BatchedVectorEnv:
        return BatchedVectorEnv(fish_envs(MODERN), 5, SEEDS)

    whole = make()
    whole.reset()
    actions = wishes(whole, 60)
    play(whole, actions[:10])
    whole.configure(Settings([ESCAPE_BOOST, SCHOOL_SIZE], {SCHOOL_SIZE.name: 4}))
    play(whole, actions[10:25])
    resumed = make()
    resumed.load_state_dict(through_checkpoint(whole.state_dict()))
    assert_same(play(resumed, actions[25:]), play(whole, actions[25:]))

"""The serial runtime: the contract, outside oracles, and every way an env can go wrong."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from longhaul.core.env import Array, Ending, SingleEnvs, VectorEnv
from longhaul.core.errors import ConfigError, EnvError, NumericalError
from longhaul.core.seeds import EpisodeSeeds, ListedSeeds
from longhaul.core.settings import Setting, Settings
from longhaul.core.spaces import Tier
from longhaul.envs.gymnasium.env import (
    GymnasiumEnv,
    GymnasiumFactory,
    describe,
    gymnasium_envs,
)
from longhaul.envs.serial import SerialVectorEnv
from longhaul.envs.starts import STARTS, STARTS_USED
from tests.contracts.vector_env_contract import (
    SEEDS,
    Make,
    VectorEnvContract,
    assert_same,
    play,
    through_checkpoint,
    wishes,
)
from tests.envs.gymnasium_fakes import fake_id
from tests.envs.school import ROWS, SchoolFactory

STRIDE: Setting[float] = Setting("walk.stride", 1.0, "Length of a step")


def fake(name: str, **kwargs: object) -> SingleEnvs:
    return gymnasium_envs(GymnasiumFactory(fake_id(name), kwargs))


SOURCES = {
    "cartpole": lambda: gymnasium_envs(GymnasiumFactory("CartPole-v1")),
    "masks": lambda: fake("MaskedWalk"),
    "split masks": lambda: fake("SplitMaskedWalk"),
    "dict": lambda: fake("DictWalk"),
    "stacked": lambda: fake("StackedWalk"),
    "snapshot": lambda: fake("ExactWalk"),
    "rows by replay": lambda: SchoolFactory(Tier.REPLAY).source(),
    "rows by snapshot": lambda: SchoolFactory(Tier.SNAPSHOT).source(),
}


class TestSerialContract(VectorEnvContract):
    @pytest.fixture(params=SOURCES)
    def make(self, request: pytest.FixtureRequest) -> Iterator[Make]:
        source = SOURCES[request.param]()
        made: list[VectorEnv] = []

        def make(count: int, seeds: EpisodeSeeds) -> VectorEnv:
            made.append(SerialVectorEnv(source, count, seeds))
            return made[-1]

        yield make
        for vector in made:
            vector.close()


@pytest.mark.parametrize("name", ["Walk", "MaskedWalk", "DictWalk", "ExactWalk", "TellingWalk"])
def test_the_fakes_are_sound_gymnasium_envs(name: str) -> None:
    check_env(gym.make(fake_id(name)).unwrapped, skip_render_check=True)


@pytest.mark.parametrize("env_id", ["CartPole-v1", "Acrobot-v1", "Pendulum-v1", fake_id("Walk")])
def test_a_vector_env_equals_gymnasium_stepped_by_hand(env_id: str) -> None:
    limited = GymnasiumFactory(env_id, {"max_episode_steps": 30})
    vector = SerialVectorEnv(gymnasium_envs(limited), 2, SEEDS)
    vector.reset()
    raw = [gym.make(env_id, max_episode_steps=30) for _ in range(2)]
    number = [0, 0]
    seen = [env.reset(seed=SEEDS.seed(index, 0))[0] for index, env in enumerate(raw)]
    np.testing.assert_array_equal(vector.slots.obs["obs"], np.array(seen, np.float32))
    for actions in wishes(vector, 100):
        step = vector.step(actions)
        finals: dict[int, object] = {}
        for index, env in enumerate(raw):
            obs, reward, terminated, truncated, _ = env.step(actions[index])
            assert step.slots.reward[index] == np.float32(reward)
            assert step.slots.terminated[index] == terminated
            assert step.slots.truncated[index] == truncated
            if terminated or truncated:
                finals[index] = obs.astype(np.float32)
                number[index] += 1
                obs, _ = env.reset(seed=SEEDS.seed(index, number[index]))
            np.testing.assert_array_equal(step.slots.obs["obs"][index], obs.astype(np.float32))
        assert (step.finals is None) == (not finals)
        if step.finals is not None:
            assert step.finals.rows.tolist() == list(finals)
            np.testing.assert_array_equal(step.finals.obs["obs"], list(finals.values()))
    assert min(number) >= 3


def test_a_first_episode_equals_gymnasiums_own_vector_env() -> None:
    seeds = [4, 8, 15]
    vector = SerialVectorEnv(SOURCES["cartpole"](), 3, ListedSeeds(tuple(seeds), envs=3))
    oracle: Any = gym.vector.SyncVectorEnv(
        [lambda: gym.make("CartPole-v1")] * 3,
        autoreset_mode=gym.vector.AutoresetMode.SAME_STEP,
    )
    vector.reset()
    obs, _ = oracle.reset(seed=seeds)
    np.testing.assert_array_equal(vector.slots.obs["obs"], obs)
    running = np.ones(3, bool)  # later episodes are seeded, Gymnasium's are not
    for actions in wishes(vector, 60):
        step = vector.step(actions)
        obs, reward, terminated, truncated, infos = oracle.step(actions)
        np.testing.assert_array_equal(step.slots.terminated[running], terminated[running])
        np.testing.assert_array_equal(step.slots.truncated[running], truncated[running])
        np.testing.assert_array_equal(step.slots.reward[running], reward[running])
        for row in np.flatnonzero(running & (terminated | truncated)):
            assert step.finals is not None
            mine = step.finals.obs["obs"][step.finals.rows.tolist().index(row)]
            np.testing.assert_array_equal(mine, infos["final_obs"][row])
        running &= ~(terminated | truncated)
        np.testing.assert_array_equal(step.slots.obs["obs"][running], obs[running])
    assert not running.any()
    oracle.close()


def test_terminated_and_truncated_are_never_merged() -> None:
    vector = SerialVectorEnv(fake("Walk"), 6, SEEDS)
    vector.reset()
    reasons = set()
    for record in play(vector, wishes(vector)):
        for episode in record.episodes:
            assert record.arrays["terminated"][episode.env] == (episode.reason == "terminated")
            assert record.arrays["truncated"][episode.env] == (episode.length == 12)
            reasons.add(episode.reason)
    assert reasons == {"terminated", "time_limit"}


def test_rows_that_end_early_have_finals_while_their_env_goes_on() -> None:
    vector = SerialVectorEnv(SchoolFactory().source(), 2, SEEDS)
    vector.reset()
    early = [
        record
        for record in play(vector, wishes(vector))
        if record.finals is not None and not record.episodes
    ]
    assert early
    for record in early:
        assert record.finals is not None
        assert not record.arrays["active"][record.finals.rows].any()
        assert len(record.finals.rows) < ROWS * 2


def test_the_envs_own_reason_and_success_are_recorded() -> None:
    vector = SerialVectorEnv(fake("TellingWalk"), 1, SEEDS)
    vector.reset()
    episode = next(e for r in play(vector, wishes(vector)) for e in r.episodes)
    assert episode.reason == "fell"
    assert episode.metrics["is_success"] in (0.0, 1.0)


@pytest.mark.parametrize("name", ["ExactWalk", "SettingsWalk"])
def test_settings_reach_an_env_at_its_next_reset(name: str) -> None:
    plain = SerialVectorEnv(fake(name), 2, SEEDS)
    changed = SerialVectorEnv(fake(name), 2, SEEDS)
    for vector in (plain, changed):
        vector.configure(Settings([STRIDE]))
        vector.reset()
    actions = wishes(plain)
    changed.configure(Settings([STRIDE], {STRIDE.name: 0.0}))
    first, second = play(plain, actions), play(changed, actions)
    over = next(step for step, r in enumerate(first) if any(e.env == 0 for e in r.episodes))
    for one, two in zip(first[: over + 1], second[: over + 1], strict=True):
        np.testing.assert_array_equal(one.arrays["obs.obs"][0], two.arrays["obs.obs"][0])
    with pytest.raises(AssertionError):
        assert_same(first, second)


@pytest.mark.parametrize("name", ["ExactWalk", "SettingsWalk"])
@pytest.mark.parametrize("cut", [1, 5, 17])
def test_settings_and_starts_of_running_episodes_survive_a_restart(name: str, cut: int) -> None:
    source = fake(name)
    starts = Settings([STRIDE, STARTS], {STARTS.name: tuple(0.25 * n for n in range(9))})
    whole = SerialVectorEnv(source, 3, SEEDS)
    whole.configure(starts)
    whole.reset()
    actions = wishes(whole)
    play(whole, actions[:cut])
    whole.configure(starts.with_([STRIDE.to(0.5)]))
    play(whole, actions[cut : cut + 6])
    resumed = SerialVectorEnv(source, 3, SEEDS)
    resumed.load_state_dict(through_checkpoint(whole.state_dict()))
    assert resumed.starts_used == whole.starts_used
    assert_same(play(resumed, actions[cut + 6 :]), play(whole, actions[cut + 6 :]))


def test_hard_starts_are_dealt_once_in_order_and_counted() -> None:
    vector = SerialVectorEnv(fake("Walk"), 2, SEEDS)
    settings = Settings([STARTS], {STARTS.name: (0.5, -0.5, 1.5)})
    vector.configure(settings)
    vector.reset()
    assert vector.slots.obs["obs"][:, 0].tolist() == [0.5, -0.5]
    records = play(vector, wishes(vector, 40))
    begun = next(record for record in records if record.episodes)
    assert begun.arrays["obs.obs"][begun.episodes[0].env, 0] == 1.5
    vector.configure(settings)
    play(vector, wishes(vector, 40))
    assert vector.starts_used == 3
    used = [e for r in records for e in r.episodes if STARTS_USED in e.metrics]
    assert [(e.env, e.number) for e in used][:1] == [(begun.episodes[0].env, 0)]
    assert len(used) == 3


def test_other_starts_begin_a_fresh_deal() -> None:
    vector = SerialVectorEnv(fake("Walk"), 1, SEEDS)
    vector.configure(Settings([STARTS], {STARTS.name: (0.5, 1.0)}))
    vector.reset()
    vector.configure(Settings([STARTS], {STARTS.name: (2.0,)}))
    vector.reset()
    assert vector.slots.obs["obs"][0, 0] == 2.0
    vector.reset()
    assert vector.slots.obs["obs"][0, 0] not in (0.5, 1.0, 2.0)


def test_an_exception_is_an_error_that_names_env_seed_and_step() -> None:
    vector = SerialVectorEnv(fake("Broken", how="raise"), 2, SEEDS)
    vector.reset()
    place = f"Broken-v0, env 0, seed {SEEDS.seed(0, 0)}, step 3: "
    with pytest.raises(
        EnvError,
        match=place + "RuntimeError: the simulator lost its ball at "
        r"gymnasium_fakes\.py:\d+ in step$",
    ):
        play(vector, wishes(vector, 4))


def test_the_envs_own_traceback_is_kept() -> None:
    vector = SerialVectorEnv(fake("Broken", how="raise"), 1, SEEDS)
    vector.reset()
    with pytest.raises(EnvError) as caught:
        play(vector, wishes(vector, 4))
    assert isinstance(caught.value.__cause__, RuntimeError)
    assert caught.value.__cause__.__traceback__ is not None


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("stays", "ended, but stays active"),
        ("silent", "is neither terminated, truncated nor inactive"),
    ],
)
def test_a_row_that_breaks_the_row_rules_is_an_error(fault: str, message: str) -> None:
    vector = SerialVectorEnv(SchoolFactory(fault=fault).source(), 2, SEEDS)
    vector.reset()
    with pytest.raises(EnvError, match=message):
        play(vector, wishes(vector))


class Mute(GymnasiumEnv):
    """Ends its row and keeps it to itself."""

    def step(self, actions: Array) -> Ending | None:
        super().step(actions)
        return None


def test_a_single_row_that_ends_without_its_env_is_an_error() -> None:
    spec = describe(GymnasiumFactory("CartPole-v1"))
    vector = SerialVectorEnv(SingleEnvs(spec, lambda: Mute("CartPole-v1")), 2, SEEDS)
    vector.reset()
    with pytest.raises(EnvError, match="ended, but stays active"):
        play(vector, wishes(vector, 300))


def test_a_non_finite_action_is_blamed_on_the_policy() -> None:
    vector = SerialVectorEnv(gymnasium_envs(GymnasiumFactory("Pendulum-v1")), 2, SEEDS)
    vector.reset()
    with pytest.raises(NumericalError, match="the policy's action is"):
        vector.step(np.array([[0.0], [np.nan]], np.float32))


def test_no_environments_at_all_is_a_config_error() -> None:
    with pytest.raises(ConfigError, match=r"env\.count = 0"):
        SerialVectorEnv(fake("Walk"), 0, SEEDS)

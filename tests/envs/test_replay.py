"""States by tier: logs, replays that fail, and what is begun anew."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from longhaul.core.env import SingleEnvs
from longhaul.core.errors import EnvError
from longhaul.core.spaces import Continuous, Discrete, MultiDiscrete, Tier
from longhaul.envs.gymnasium.env import GymnasiumFactory, gymnasium_envs
from longhaul.envs.replay_log import ActionLog, resume_promise
from longhaul.envs.serial import SerialVectorEnv
from tests.contracts.vector_env_contract import SEEDS, assert_same, play, through_checkpoint, wishes
from tests.envs.gymnasium_fakes import fake_id


def walk(name: str = "Walk", tier: Tier = Tier.REPLAY) -> SingleEnvs:
    return gymnasium_envs(GymnasiumFactory(fake_id(name), tier=tier))


@given(st.lists(st.integers(0, 40), min_size=1, max_size=40))
def test_a_log_holds_every_action_of_running_episodes(lengths: list[int]) -> None:
    begun = [0, 0]
    log = ActionLog(Discrete(1000), (2,), lambda: min(begun))
    tick = 0
    for turn, length in enumerate(lengths):
        for _ in range(length * 20):
            log.append(np.array([tick % 1000, (tick + 1) % 1000]))
            tick += 1
        for row in range(2):
            expected = np.arange(begun[row], tick) + row
            kept = log.since(begun[row], slice(row, row + 1))
            np.testing.assert_array_equal(kept[:, 0], expected % 1000)
        begun[turn % 2] = tick


@pytest.mark.parametrize(
    ("action", "dtype"),
    [
        (Discrete(256), "uint8"),
        (Discrete(257), "uint16"),
        (MultiDiscrete((3, 300)), "uint16"),
        (Continuous((-1.0,), (1.0,)), "float32"),
    ],
)
def test_a_log_takes_no_more_room_than_its_actions(
    action: Discrete | MultiDiscrete | Continuous, dtype: str
) -> None:
    log = ActionLog(action, (1,), lambda: 0)
    log.append(np.zeros(1))
    assert log.since(0, slice(0, 1)).dtype == dtype


def test_the_log_of_endless_short_episodes_stays_small() -> None:
    begun = [0]
    log = ActionLog(Discrete(2), (1,), lambda: begun[0])
    for tick in range(10_000):
        log.append(np.zeros(1, np.int64))
        begun[0] = tick - tick % 50
    assert log._stored.size <= 512


@pytest.mark.parametrize("name", ["Liar", "SlyLiar"])
def test_a_replay_that_differs_names_env_seed_step_and_the_true_tier(name: str) -> None:
    source = walk(name)
    vector = SerialVectorEnv(source, 2, SEEDS)
    vector.reset()
    play(vector, wishes(vector, 2))
    state = through_checkpoint(vector.state_dict())
    place = rf"{name}-v0, env 0, seed {state['ledger']['seeds'][0]}, step \d+: "
    with pytest.raises(
        EnvError, match=place + r"replaying.*tier none.*declared tier replay.*env\.tier"
    ):
        SerialVectorEnv(source, 2, SEEDS).load_state_dict(state)


def test_a_replay_with_other_rewards_is_noticed() -> None:
    source = walk("Hoarder")
    vector = SerialVectorEnv(source, 1, SEEDS)
    vector.reset()
    while vector.step(wishes(vector, 1)[0]).finals is None:
        pass
    vector.step(wishes(vector, 1)[0])
    with pytest.raises(EnvError, match="led to other rewards"):
        SerialVectorEnv(source, 1, SEEDS).load_state_dict(vector.state_dict())


def test_a_damaged_digest_is_noticed() -> None:
    vector = SerialVectorEnv(walk(), 2, SEEDS)
    vector.reset()
    play(vector, wishes(vector, 3))
    state = vector.state_dict()
    state["replay"]["digests"][1] = "0" * 32
    with pytest.raises(EnvError, match=r"env 1, .* led to another observation"):
        SerialVectorEnv(walk(), 2, SEEDS).load_state_dict(state)


def test_a_replay_that_ends_early_is_noticed() -> None:
    vector = SerialVectorEnv(walk(), 1, SEEDS)
    vector.reset()
    play(vector, wishes(vector, 3))
    state = vector.state_dict()
    state["ledger"]["lengths"] = np.array([40])
    state["replay"]["actions"] = np.zeros((40, 1), np.uint8)
    with pytest.raises(EnvError, match="ended the episode at step"):
        SerialVectorEnv(walk(), 1, SEEDS).load_state_dict(state)


@pytest.mark.parametrize("tier", [Tier.RESTART, Tier.NONE])
def test_lower_tiers_begin_the_next_episode(tier: Tier) -> None:
    source = walk(tier=tier)
    vector = SerialVectorEnv(source, 2, SEEDS)
    vector.reset()
    play(vector, wishes(vector, 1))
    resumed = SerialVectorEnv(source, 2, SEEDS)
    resumed.load_state_dict(through_checkpoint(vector.state_dict()))
    assert resumed.slots.started.all()
    episodes = [e for r in play(resumed, wishes(resumed)) for e in r.episodes]
    first = {env: next(e for e in episodes if e.env == env) for env in range(2)}
    assert [first[env].number for env in range(2)] == [1, 1]
    assert [first[env].seed for env in range(2)] == [SEEDS.seed(env, 1) for env in range(2)]


def test_tier_restart_is_exact_at_an_episodes_start() -> None:
    source = walk(tier=Tier.RESTART)
    vector = SerialVectorEnv(source, 2, SEEDS)
    vector.reset()
    resumed = SerialVectorEnv(source, 2, SEEDS)
    resumed.load_state_dict(through_checkpoint(vector.state_dict()))
    actions = wishes(vector)
    assert_same(play(resumed, actions), play(vector, actions))


def test_every_tier_says_what_a_resume_will_be() -> None:
    promises = {tier: resume_promise(tier) for tier in Tier}
    assert len(set(promises.values())) == 4
    assert "not bit for bit" in promises[Tier.NONE]


def test_a_source_of_another_tier_refuses_the_state() -> None:
    vector = SerialVectorEnv(walk(), 1, SEEDS)
    other = replace(walk(), spec=replace(walk().spec, tier=Tier.NONE))
    with pytest.raises(Exception, match=r"tier replay, 1 rows.*tier none"):
        SerialVectorEnv(other, 1, SEEDS).load_state_dict(vector.state_dict())

"""Schools in the engine's hands: what a rollout holds, and going on after a restart."""

from __future__ import annotations

import numpy as np
import torch

from longhaul.core.rollout import Rollout
from longhaul.core.seeds import DerivedSeeds, Seeds
from longhaul.core.settings import Settings
from longhaul.engine.collector import RolloutCollector
from longhaul.envs.serial import BatchedVectorEnv
from longhaul.nets.actor_critic import build_policy
from longhaul.nets.config import PolicyConfig
from longhaul.tasks.fish.options import FishOptions
from longhaul.tasks.fish.world.school import fish_envs
from tests.tasks.fish.worlds import tank

OPTIONS = FishOptions(fish=30, time_limit=40, short_limit=17, short_share=0.5)
SEEDS = Seeds(6)


def collector(
    options: FishOptions = OPTIONS, *, schools: int = 4, steps: int = 24
) -> RolloutCollector:
    torch.manual_seed(0)
    policy = build_policy(fish_envs(options).spec, PolicyConfig(hidden=(8,)))
    env = BatchedVectorEnv(fish_envs(options), schools, DerivedSeeds(SEEDS))
    return RolloutCollector(env, policy, SEEDS, steps=steps, chunk=0)


def test_every_transition_has_its_own_fishs_action_and_reward() -> None:
    options = FishOptions(fish=30, time_limit=60)
    rollout = collector(options, steps=60).collect(Settings([]))
    world = tank(options, seeds=tuple(DerivedSeeds(SEEDS).seed(env, 0) for env in range(4)))
    for step in range(60):
        np.testing.assert_array_equal(rollout.obs["obs"][step].numpy(), world.obs)
        np.testing.assert_array_equal(rollout.active[step].numpy(), world.slots.active)
        world.step(rollout.action[step].tolist())
        np.testing.assert_array_equal(rollout.reward[step].numpy(), world.slots.reward)
        np.testing.assert_array_equal(rollout.terminated[step].numpy(), world.slots.terminated)
    assert rollout.terminated.any()


def test_the_dead_leave_no_transitions_until_their_school_begins_again() -> None:
    rollout = collector(steps=60).collect(Settings([]))
    assert rollout.env_steps == int(rollout.active.sum()) < rollout.active.numel()
    for row in range(rollout.rows):
        dead = False
        for step in range(rollout.steps):
            if rollout.started[step, row]:
                dead = False
            assert bool(rollout.active[step, row]) == (not dead)
            dead = dead or bool(rollout.terminated[step, row])


def test_survivors_of_the_time_limit_are_bootstrapped() -> None:
    rollout = collector(steps=60).collect(Settings([]))
    cut = rollout.truncated.nonzero()
    assert len(cut) > 0
    np.testing.assert_array_equal(rollout.truncations.step, cut[:, 0])
    np.testing.assert_array_equal(rollout.truncations.row, cut[:, 1])
    assert (rollout.truncations.obs["obs"][:, 4] > 0).all()
    assert not (rollout.terminated & rollout.truncated).any()


def test_a_collector_restored_amid_episodes_goes_on_identically() -> None:
    whole, resumed = collector(), collector()
    settings = Settings(OPTIONS.settings())
    whole.collect(settings)
    resumed.load_state_dict(whole.state_dict())
    for _ in range(3):
        assert_equal(whole.collect(settings), resumed.collect(settings))


def assert_equal(one: Rollout, two: Rollout) -> None:
    assert one.episodes == two.episodes
    assert torch.equal(one.obs["obs"], two.obs["obs"])
    for first, second in (
        (one.action, two.action),
        (one.reward, two.reward),
        (one.value, two.value),
        (one.active, two.active),
        (one.last.value, two.last.value),
    ):
        assert torch.equal(first, second)

"""Making Gymnasium envs, and what the adapter promises beyond the vector env's contract."""

from __future__ import annotations

import pickle
import sys
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from longhaul.core.env import StepBuffers, empty_actions
from longhaul.core.errors import ConfigError, EnvError
from longhaul.core.spaces import Continuous, Discrete, MultiDiscrete, Part, Tier
from longhaul.envs.gymnasium.env import GymnasiumEnv, GymnasiumFactory, describe, gymnasium_envs
from longhaul.envs.gymnasium.make import NO_LIMIT, open_gymnasium
from tests.envs.gymnasium_fakes import fake_id


@pytest.mark.filterwarnings("ignore:.*is out of date")
@pytest.mark.parametrize(
    ("env_id", "kwargs", "message"),
    [
        ("CartPol-v1", {}, "'CartPol-v1' is not known .* did you mean 'CartPole-v1'"),
        ("cartpole-v1", {}, "did you mean 'CartPole-v1'"),
        ("CartPole-v7", {}, "'CartPole-v7' is not known"),
        ("LunarLander-v2", {}, "LunarLander-v3"),
        ("Cart Pole!", {}, "'Cart Pole!' cannot be made: Malformed"),
        ("Qxqxq/Zwzwz-v0", {}, "name your own env 'module:Name-v0'"),
        ("ALE/Nothing-v5", {}, "atari:Nothing"),
        ("no_such_module:Thing-v0", {}, "module 'no_such_module', which was not found; put the "),
        ("minigrid:Thing-v0", {}, "`pip install minigrid`"),
        ("CartPole-v1", {"color": 3}, "'CartPole-v1' does not take .*'color': 3"),
        (fake_id("NeedsArgument"), {}, r"--set options\.kwargs\.needed=\.\.\.$"),
        (
            fake_id("NeedsPackage"),
            {},
            "'a_package_that_is_not_there', which was not found; install the package it belongs",
        ),
        (fake_id("NeedsExtra"), {}, "lacks a package: run `pip install walking-shoes`"),
    ],
)
def test_an_env_that_cannot_be_made_names_the_remedy(
    env_id: str, kwargs: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        GymnasiumEnv(env_id, kwargs)


def test_no_stranger_s_package_is_advised_for_a_module_of_the_user() -> None:
    with pytest.raises(ConfigError) as refusal:
        GymnasiumEnv("my_envs:Thing-v0")
    assert "pip install my_envs" not in str(refusal.value)


def test_box2d_is_advised_as_the_extra_that_needs_no_compiler(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "Box2D", None)
    monkeypatch.delitem(sys.modules, "gymnasium.envs.box2d", raising=False)
    monkeypatch.delitem(sys.modules, "gymnasium.envs.box2d.lunar_lander", raising=False)
    monkeypatch.delitem(sys.modules, "gymnasium.envs.box2d.bipedal_walker", raising=False)
    with pytest.raises(ConfigError) as refusal:
        GymnasiumEnv("LunarLander-v3")
    said = str(refusal.value)
    assert "pip install 'longhaul-rl[box2d]'" in said
    assert "swig" not in said
    assert "gymnasium[box2d]" not in said


def test_mujoco_is_advised_as_our_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in [one for one in sys.modules if one.startswith("gymnasium.envs.mujoco")]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "mujoco", None)
    with pytest.raises(ConfigError, match=r"needs MuJoCo: pip install 'longhaul-rl\[mujoco\]'"):
        GymnasiumEnv("Hopper-v5")


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("NoStart", "OSError: no display at gymnasium_fakes.py:\\d+ in __init__$"),
        ("OddStart", "TypeError: .* at gymnasium_fakes.py:\\d+ in __init__$"),
    ],
)
def test_a_constructor_that_fails_is_told_with_the_user_s_line(name: str, line: str) -> None:
    with pytest.raises(EnvError, match=f"cannot be made: {line}"):
        GymnasiumEnv(fake_id(name))


@pytest.mark.parametrize(
    ("how", "problem"),
    [
        ("no seed", r"reset\(\) takes no seed"),
        ("bare reset", r"reset\(\) does not return \(observation, info\)"),
        ("four values", r"step\(\) returns 4 values"),
    ],
)
@pytest.mark.parametrize("action", [spaces.Discrete(3), spaces.Box(-1.0, 1.0, (1,))], ids=str)
def test_the_old_gym_api_is_called_by_its_name(
    how: str, problem: str, action: spaces.Space[Any]
) -> None:
    factory = GymnasiumFactory(fake_id("OldGym"), {"how": how, "action_space": action})
    with pytest.raises(EnvError, match=f"uses the old Gym API: {problem}; port it"):
        begin_to_play(factory)


def begin_to_play(factory: GymnasiumFactory) -> None:
    env = gymnasium_envs(factory).make()
    env.reset(0, None)
    env.step(empty_actions(env.spec, 1))


def test_looking_at_an_environment_calls_nothing_that_may_hang() -> None:
    source = gymnasium_envs(GymnasiumFactory(fake_id("Hanging")))
    assert source.spec.tier is Tier.REPLAY


@pytest.mark.parametrize("which", ["observation", "action"])
def test_an_unsupported_space_names_the_env(which: str) -> None:
    kwargs = {
        "observation_space": spaces.Discrete(2),
        "action_space": spaces.Discrete(2),
        f"{which}_space": spaces.Text(3),
    }
    with pytest.raises(ConfigError, match=f"Spaces-v0': {which} space Text"):
        GymnasiumEnv(fake_id("Spaces"), kwargs)


def test_a_description_holds_what_is_known_before_running() -> None:
    spec = describe(GymnasiumFactory("CartPole-v1"))
    assert spec.id == "CartPole-v1"
    assert spec.observation == {"obs": Part((4,))}
    assert spec.action == Discrete(2)
    assert (spec.rows, spec.tier, spec.has_masks) == (1, Tier.REPLAY, False)
    assert describe(GymnasiumFactory("Pendulum-v1")).action == Continuous((-2.0,), (2.0,))


@pytest.mark.parametrize(
    ("name", "masks"),
    [("Walk", "none"), ("MaskedWalk", "info"), ("MethodMaskedWalk", "method")],
)
def test_masks_are_found_at_the_first_reset(name: str, masks: str) -> None:
    source = gymnasium_envs(GymnasiumFactory(fake_id(name)))
    assert source.spec.has_masks == (masks != "none")
    assert isinstance(source.make, GymnasiumFactory)
    assert source.make.masks == masks
    assert source.make().spec == source.spec


def test_taxis_mask_is_the_one_gymnasium_gives() -> None:
    env = GymnasiumEnv("Taxi-v3")
    raw = gym.make("Taxi-v3")
    slots = StepBuffers.allocate(env.spec, 1)
    env.bind(slots)
    env.reset(3, None)
    state, info = raw.reset(seed=3)
    assert slots.mask is not None
    np.testing.assert_array_equal(slots.mask[0], info["action_mask"].astype(bool))
    assert slots.obs["obs"][0].argmax() == state


def test_a_mask_of_several_choices_is_laid_side_by_side() -> None:
    env = GymnasiumEnv(fake_id("SplitMaskedWalk"))
    slots = StepBuffers.allocate(env.spec, 1)
    env.bind(slots)
    env.reset(0, -1.0)
    assert env.spec.action == MultiDiscrete((3, 2))
    assert slots.mask is not None
    assert slots.mask[0].tolist() == [True, True, True, True, False]


def test_a_factory_can_be_sent_to_another_process() -> None:
    factory = gymnasium_envs(GymnasiumFactory("CartPole-v1", {"max_episode_steps": 7})).make
    again = pickle.loads(pickle.dumps(factory))
    assert again == factory
    assert again().spec.id == "CartPole-v1"


def test_native_snapshots_make_an_env_tier_snapshot() -> None:
    assert describe(GymnasiumFactory(fake_id("ExactWalk"))).tier is Tier.SNAPSHOT
    assert describe(GymnasiumFactory(fake_id("Walk"))).tier is Tier.REPLAY


def test_a_wrapper_with_a_state_of_its_own_makes_an_env_tier_replay() -> None:
    name = fake_id("StackedWalk")
    assert describe(GymnasiumFactory(name)).tier is Tier.REPLAY


def test_a_tier_can_be_declared_but_not_beyond_what_the_env_can_do() -> None:
    assert describe(GymnasiumFactory(fake_id("Walk"), tier=Tier.RESTART)).tier is Tier.RESTART
    with pytest.raises(ConfigError, match="cannot be tier snapshot"):
        GymnasiumFactory(fake_id("Walk"), tier=Tier.SNAPSHOT)()


def test_known_wrappers_are_taken_off_and_the_limit_is_kept() -> None:
    opened = open_gymnasium("CartPole-v1", {}, render=False)
    assert opened.is_bare
    assert opened.time_limit == 500
    assert open_gymnasium("CartPole-v1", {"max_episode_steps": 9}, render=False).time_limit == 9
    endless = open_gymnasium("CartPole-v1", {"max_episode_steps": -1}, render=False)
    assert endless.time_limit == NO_LIMIT


def test_pictures_are_made_only_when_asked_for() -> None:
    silent = GymnasiumEnv(fake_id("Walk"))
    silent.reset(0, None)
    assert silent.frame() is None
    drawn = GymnasiumEnv(fake_id("Walk"), render=True)
    drawn.reset(0, None)
    picture = drawn.frame()
    assert picture is not None
    assert picture.shape == (4, 6, 3)


def test_actions_reach_the_env_in_its_own_space() -> None:
    for space in (
        spaces.Discrete(3, start=5),
        spaces.MultiDiscrete([2, 3]),
        spaces.MultiBinary(4),
        spaces.Box(-1.0, 1.0, (2, 2)),
    ):
        seen: spaces.Space[Any] = spaces.Box(0, 1, (1,))
        env = GymnasiumEnv(
            fake_id("Spaces"), {"observation_space": seen, "action_space": space}, masks="none"
        )
        env.reset(0, None)
        width = {"Discrete": (1,), "MultiDiscrete": (1, 2)}.get(type(space).__name__, (1, 4))
        dtype = np.float32 if isinstance(space, spaces.Box) else np.int64
        env.step(np.ones(width, dtype))
        inner: Any = env._env.unwrapped
        assert inner.actions[-1] in space

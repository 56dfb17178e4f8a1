"""Atari: the preprocessing against the emulator's own, lives, scores, and states."""

from __future__ import annotations

import ale_py
import gymnasium as gym
import numpy as np
import pytest
from ale_py import AtariVectorEnv
from gymnasium.wrappers import AtariPreprocessing, FrameStackObservation

from longhaul.core.env import BatchedEnvs, Step, VectorEnv
from longhaul.core.errors import ConfigError
from longhaul.core.seeds import DerivedSeeds, Seeds
from longhaul.core.spaces import Discrete
from longhaul.envs.build import make_vector_env
from longhaul.tasks.atari.options import find_game
from tests.contracts.task_contract import build

PLAIN = ("options.noop_max=0", "options.press_fire=false", "options.episodic_life=false")


def make(task: str, *overrides: str, seed: int = 1, count: int = 1) -> VectorEnv:
    envs = build(task, *overrides).task.envs
    assert isinstance(envs, BatchedEnvs)
    return make_vector_env(envs, count=count, seeds=DerivedSeeds(Seeds(seed)), threads=1)


def play(vector: VectorEnv, actions: np.ndarray) -> list[Step]:
    return [vector.step(one) for one in actions]


def drawn(choices: int, steps: int, count: int = 1) -> np.ndarray:
    return np.random.default_rng(7).integers(choices, size=(steps, count))


@pytest.mark.parametrize("name", ["Pong", "Breakout", "SpaceInvaders"])
def test_pictures_and_rewards_are_those_of_the_emulators_own_preprocessing(name: str) -> None:
    ours = make(f"atari:{name}", *PLAIN)
    rom = find_game(name).stem
    theirs = AtariVectorEnv(
        rom, num_envs=1, num_threads=1, noop_max=0, use_fire_reset=False, reward_clipping=False
    )
    ours.reset()
    shown: np.ndarray = theirs.reset(seed=1)[0]
    assert (ours.slots.obs["obs"][0, -1] == shown[0, -1]).all()
    for step, actions in enumerate(drawn(ours.spec.choices, 150)):
        result = ours.step(actions)
        shown, reward, *_ = theirs.step(actions)
        assert ours.slots.reward[0] == reward[0]
        assert not result.episodes
        # The older pictures of a game's first steps differ: theirs are black, ours the first one.
        newest = min(step + 2, 4)
        assert (ours.slots.obs["obs"][0, -newest:] == shown[0, -newest:]).all()
    ours.close()


@pytest.mark.parametrize("name", ["Pong", "Seaquest"])
def test_pictures_are_those_of_gymnasiums_wrappers(name: str) -> None:
    bare = ale_py.AtariEnv(name.lower(), frameskip=1, repeat_action_probability=0.0)
    theirs: gym.Env[np.ndarray, int] = FrameStackObservation(
        AtariPreprocessing(bare, noop_max=0), 4
    )
    ours = make(f"atari:{name}", *PLAIN)
    ours.reset()
    shown: np.ndarray = theirs.reset(seed=1)[0]
    for actions in drawn(ours.spec.choices, 100):
        assert (ours.slots.obs["obs"][0] == shown).all()
        result = ours.step(actions)
        assert not result.episodes
        shown, reward, *_ = theirs.step(int(actions[0]))
        assert ours.slots.reward[0] == reward
    ours.close()


def test_a_lost_life_ends_what_is_learned_from_and_not_the_game() -> None:
    vector = make("atari:Breakout")
    vector.reset()
    lost, away = 0, 0
    for actions in drawn(vector.spec.choices, 3000):
        was_away = not vector.slots.active[0]
        step = vector.step(actions)
        if step.episodes:
            break
        if vector.slots.terminated[0]:
            lost += 1
            assert not vector.slots.active[0]
        away += was_away
        assert not (was_away and not vector.slots.active[0]), "it was away for more than one step"
    (game,) = step.episodes
    assert (lost, away) == (4, 4), "the fifth life ends the game"
    assert game.reason == "terminated"
    vector.close()


def test_without_episodic_life_only_the_game_ends() -> None:
    vector = make("atari:Breakout", "options.episodic_life=false")
    vector.reset()
    for actions in drawn(vector.spec.choices, 3000):
        step = vector.step(actions)
        assert vector.slots.terminated[0] == bool(step.episodes)
        if step.episodes:
            break
    assert step.episodes
    vector.close()


def test_a_return_is_the_games_score_and_only_the_learner_clips() -> None:
    built = build("atari:Qbert")
    assert built.config.learn.reward_clip == 1.0
    vector = make("atari:Qbert")
    vector.reset()
    rewards: list[float] = []
    for actions in drawn(vector.spec.choices, 3000):
        step = vector.step(actions)
        rewards.append(float(vector.slots.reward[0]))
        if step.episodes:
            break
    assert max(rewards) == 25.0
    assert step.episodes[0].episode_return == sum(rewards)
    vector.close()


def test_a_game_is_cut_at_its_longest() -> None:
    vector = make("atari:Pong", "options.max_frames=100", "options.press_fire=false", *PLAIN[:1])
    vector.reset()
    steps = play(vector, drawn(6, 25))
    (game,) = steps[-1].episodes
    assert (game.length, game.reason) == (25, "time_limit")
    assert vector.slots.truncated[0]
    assert not vector.slots.terminated[0]
    vector.close()


@pytest.mark.parametrize("sticky", [0.0, 0.25])
@pytest.mark.parametrize("name", ["Breakout", "BeamRider"])
def test_a_restored_game_goes_on_as_if_nothing_had_been(name: str, sticky: float) -> None:
    one, other = (make(f"atari:{name}", f"options.sticky={sticky}", count=2) for _ in range(2))
    one.reset()
    actions = drawn(one.spec.choices, 260, count=2)
    play(one, actions[:130])
    other.reset()
    play(other, actions[40:60])
    other.load_state_dict(one.state_dict())
    for given in actions[130:]:
        one.step(given)
        other.step(given)
        for field in ("reward", "terminated", "active"):
            assert (getattr(one.slots, field) == getattr(other.slots, field)).all()
        assert (one.slots.obs["obs"] == other.slots.obs["obs"]).all()
    one.close()
    other.close()


def test_a_game_does_not_depend_on_the_one_before() -> None:
    envs = build("atari:BeamRider").task.envs
    assert isinstance(envs, BatchedEnvs)
    batch = envs.make(2)
    batch.reset(np.array([0]), np.array([3], np.int64), [None])
    for action in drawn(envs.spec.choices, 200)[:, 0]:
        batch.step(0, 1, np.array([action, 0]))
    batch.reset(np.arange(2), np.array([9, 9], np.int64), [None, None])
    used, fresh = batch.snapshot()["games"]
    assert (used["stack"] == fresh["stack"]).all()
    assert (used["console"] == fresh["console"]).all()


def test_sticky_actions_are_repeated_as_often_as_said() -> None:
    envs = build("atari:Pong", "options.sticky=0.25").task.envs
    assert isinstance(envs, BatchedEnvs)
    (game,) = envs.make(1)._games  # type: ignore[attr-defined]
    game.reset(5)
    assert np.mean(game._repeats) == pytest.approx(0.25, abs=0.01)


def test_actions_have_the_names_of_the_joystick() -> None:
    action = build("atari:Pong").task.envs.spec.action
    assert action == Discrete(6, ("NOOP", "FIRE", "RIGHT", "LEFT", "RIGHTFIRE", "LEFTFIRE"))
    assert build("atari:Pong", "options.all_actions=true").task.envs.spec.choices == 18


@pytest.mark.parametrize("name", ["MsPacman", "ms_pacman", "mspacman"])
def test_a_game_is_found_however_it_is_written(name: str) -> None:
    assert find_game(name).stem == "ms_pacman"


@pytest.mark.parametrize(
    ("task", "overrides", "said"),
    [
        ("atari", (), "needs a game, for example atari:Pong"),
        ("atari:Pongg", (), "there is no Atari game 'Pongg'.*Pong"),
        ("atari:Combat", (), "cannot be played by one player"),
        ("atari:Pong", ("options.sticky=1.5",), "options.sticky = 1.5"),
        ("atari:Pong", ("options.frame_skip=0",), "options.frame_skip = 0"),
        ("atari:Pong", ("options.size=300",), "options.size = 300"),
    ],
)
def test_what_cannot_be_is_refused(task: str, overrides: tuple[str, ...], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        build(task, *overrides)

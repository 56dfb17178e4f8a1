"""Gymnasium environments as tasks: ids, options and what is said of wrong ones."""

from __future__ import annotations

import pytest

from longhaul.app.build.sources import ConfigSources, resolve
from longhaul.core.env import SingleEnvs
from longhaul.core.errors import ConfigError
from longhaul.core.seeds import DerivedSeeds, Seeds
from longhaul.core.spaces import Discrete, Tier
from longhaul.envs.build import make_vector_env
from tests.contracts.task_contract import build, play
from tests.envs.gymnasium_fakes import fake_id


def test_the_score_that_counts_as_solved_is_gymnasiums() -> None:
    assert build("gym:CartPole-v1").task.evaluation.solved == 475.0


def test_an_environment_without_a_threshold_is_never_solved() -> None:
    assert build("gym:Pendulum-v1").task.evaluation.solved is None


def test_an_environment_of_ones_own_is_named_with_its_module() -> None:
    task = build(f"gym:{fake_id('Walk')}").task
    assert task.name == f"gym:{fake_id('Walk')}"
    assert task.envs.spec.action == Discrete(3)


@pytest.mark.filterwarnings("ignore:.*latest versioned environment")
def test_an_id_without_its_version_takes_the_newest() -> None:
    task = build("gym:CartPole").task
    assert task.envs.spec.action == Discrete(2)
    assert task.evaluation.solved == 475.0


def test_episodes_are_cut_where_the_options_say() -> None:
    built = build("gym:CartPole-v1", "options.max_episode_steps=7")
    vector = make_vector_env(built.task.envs, count=2, seeds=DerivedSeeds(Seeds(1)))
    vector.reset()
    episodes = play(vector, steps=30)
    vector.close()
    assert [episode.length for episode in episodes] == [7] * 8


def test_arguments_reach_the_environment() -> None:
    # The book's reward is -1 at the fall and 0 before it, Gymnasium's is 1 for every step.
    built = build("gym:CartPole-v1", "options.kwargs.sutton_barto_reward=true")
    vector = make_vector_env(built.task.envs, count=2, seeds=DerivedSeeds(Seeds(1)))
    vector.reset()
    episodes = play(vector, steps=100)
    vector.close()
    assert {episode.episode_return for episode in episodes} == {-1.0}


STACK = '{use="gymnasium.wrappers:FrameStackObservation", stack_size=3}'


def test_wrappers_go_around_the_environment_in_order() -> None:
    flat = '"gymnasium.wrappers:FlattenObservation"'
    stacked = build("gym:CartPole-v1", f"options.wrappers=[{STACK}]").task.envs.spec
    assert stacked.observation["obs"].shape == (3, 4)
    both = build("gym:CartPole-v1", f"options.wrappers=[{STACK}, {flat}]")
    assert both.task.envs.spec.observation["obs"].shape == (12,)
    assert both.config.options["wrappers"][1] == "gymnasium.wrappers:FlattenObservation"


def test_a_wrapped_environment_is_restored_with_what_its_wrappers_hold() -> None:
    envs = build("gym:CartPole-v1", f"options.wrappers=[{STACK}]").task.envs
    one, other = (make_vector_env(envs, count=2, seeds=DerivedSeeds(Seeds(1))) for _ in range(2))
    one.reset()
    play(one, steps=13)
    other.reset()
    other.load_state_dict(one.state_dict())
    assert (one.slots.obs["obs"] == other.slots.obs["obs"]).all()
    assert play(one, steps=30) == play(other, steps=30)


def test_a_picture_without_channels_is_told_of_at_the_start() -> None:
    (told,) = build(f"gym:{fake_id('FlatPicture')}").task.warnings
    assert "'obs' (64, 64) looks like an image but has no channels" in told
    assert build("gym:CartPole-v1").task.warnings == ()


def test_the_tier_can_be_lowered() -> None:
    assert build("gym:CartPole-v1").task.envs.spec.tier is Tier.REPLAY
    assert build("gym:CartPole-v1", "env.tier=restart").task.envs.spec.tier is Tier.RESTART


def test_each_env_is_made_afresh() -> None:
    source = build("gym:CartPole-v1").task.envs
    assert isinstance(source, SingleEnvs)
    assert source.make() is not source.make()


@pytest.mark.parametrize(
    ("task", "overrides", "said"),
    [
        ("gym", (), "needs an environment id"),
        ("gym:", (), "needs an environment id"),
        ("gym:CartPol-v1", (), "CartPole-v1"),
        ("gym:CartPole-v1", ("options.kwargs.gravity_of=3",), "gravity_of"),
        ("gym:CartPole-v1", ("options.max_episode_steps=-3",), "options.max_episode_steps"),
        ("gym:CartPole-v1", ("options.max_steps=3",), "options.max_episode_steps"),
        ("gym:CartPole-v1", ("options.kwargs=3",), "options.kwargs"),
        ("gym:CartPole-v1", ("policy.trunk=nature",), "policy.trunk"),
        ("gym:CartPole-v1", ("options.wrappers=['gone:Thing']",), "options.wrappers.*'gone'"),
        ("gym:CartPole-v1", ("options.wrappers=['gymnasium.wrappers:Thing']",), "no 'Thing'"),
        ("gym:CartPole-v1", ("options.wrappers=['Thing']",), "'Thing' names no wrapper"),
        ("gym:CartPole-v1", ("options.wrappers=[{size=3}]",), "names no wrapper"),
        (
            "gym:CartPole-v1",
            ("options.wrappers=['gymnasium.wrappers:FrameStackObservation']",),
            "FrameStackObservation' with {} failed.*stack_size",
        ),
        ("gym:CartPole-v1", ("options.wrappers=['builtins:repr']",), "which lacks reset"),
    ],
)
def test_what_cannot_be_is_refused_with_the_remedy(
    task: str, overrides: tuple[str, ...], said: str
) -> None:
    with pytest.raises(ConfigError, match=said):
        build(task, *overrides).task.make_policy()


def test_a_preset_of_another_environment_can_be_asked_for() -> None:
    config = resolve(ConfigSources(task="gym:Acrobot-v1", preset="CartPole-v1"))
    assert config.task == "gym:Acrobot-v1"
    assert config.collect.num_steps == 128

"""Games that begin where others ended, in the true game."""

from __future__ import annotations

import numpy as np
import pytest

from longhaul.core.env import Episode, StepBuffers
from longhaul.core.seeds import DerivedSeeds, Seeds
from longhaul.core.settings import Settings
from longhaul.envs.checks import check_seeds
from longhaul.envs.serial import BatchedVectorEnv
from longhaul.tasks.mario.options import HARD_SHARE, MarioOptions, StartOptions
from longhaul.tasks.mario.source import GameSource
from longhaul.tasks.mario.start_places import HARD, REACH, hard_envs

pytestmark = pytest.mark.usefixtures("cartridge")
GAMES = 8


def vector(options: MarioOptions, share: float = 0.7) -> BatchedVectorEnv:
    source = GameSource(options.games(), "")
    env = BatchedVectorEnv(
        hard_envs(source, options.starts), GAMES, DerivedSeeds(Seeds(5)), threads=1
    )
    env.configure(Settings([HARD_SHARE], {HARD_SHARE.name: share}))
    return env


def play(env: BatchedVectorEnv, *, steps: int, seed: int = 0) -> list[Episode]:
    """Run to the right, jumping now and then: it comes far enough to die in several places."""
    source = np.random.default_rng(seed)
    episodes: list[Episode] = []
    for _ in range(steps):
        jumps = source.random(GAMES) < 0.4
        episodes += env.step(np.where(jumps, 4, 3).astype(np.int64)).episodes
    return episodes


@pytest.fixture(scope="module")
def played() -> list[Episode]:
    env = vector(MarioOptions(starts=StartOptions(share=0.7), stagnation_limit=12))
    env.reset()
    return play(env, steps=250)


def test_episodes_begin_at_kept_places_and_are_known_by_it(played: list[Episode]) -> None:
    hard = [episode for episode in played if episode.metrics[HARD]]
    assert 0.3 < len(hard) / len(played) < 0.95
    assert all(e.metrics[REACH] >= e.metrics["progress"] for e in hard)
    assert max(e.metrics[REACH] - e.metrics["progress"] for e in hard) > 200


def test_a_fresh_episode_reaches_as_far_as_it_progresses(played: list[Episode]) -> None:
    fresh = [episode for episode in played if not episode.metrics[HARD]]
    assert fresh
    assert all(e.metrics[REACH] == e.metrics["progress"] for e in fresh)


def test_a_reach_is_where_the_episode_ended(played: list[Episode]) -> None:
    for episode in played:
        # 1-1 has one long area, which begins at x = 40; a place's reach is known to a few steps.
        assert abs(episode.metrics[REACH] + 40 - episode.metrics["x"]) < 150


def test_the_floor_of_fresh_starts_holds_whatever_the_setting_says() -> None:
    starts = StartOptions(share=0.1, fresh_floor=0.9)
    env = vector(MarioOptions(starts=starts, stagnation_limit=12), share=1.0)
    env.reset()
    episodes = play(env, steps=250)
    assert np.mean([episode.metrics[HARD] for episode in episodes]) < 0.4


def test_a_restored_batch_deals_the_same_starts() -> None:
    options = MarioOptions(starts=StartOptions(share=0.7), sticky=0.25, stagnation_limit=12)
    first = vector(options)
    first.reset()
    play(first, steps=120)
    kept = first.state_dict()
    second = vector(options)
    second.load_state_dict(kept)
    after = [play(env, steps=100, seed=2) for env in (first, second)]
    assert after[0] == after[1]
    assert any(episode.metrics[HARD] for episode in after[0])
    same_slots(first.slots, second.slots)


def same_slots(one: StepBuffers, other: StepBuffers) -> None:
    for name, part in one.obs.items():
        assert np.array_equal(part, other.obs[name])
    assert np.array_equal(one.reward, other.reward)


def test_before_settings_ask_for_it_a_seed_alone_decides() -> None:
    options = MarioOptions(starts=StartOptions(share=0.7), stagnation_limit=6)
    source = GameSource(options.games(), "")
    assert check_seeds(hard_envs(source, options.starts)).honest

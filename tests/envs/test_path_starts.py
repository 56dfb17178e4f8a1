from __future__ import annotations

import numpy as np
import pytest

from longhaul.core.env import Episode, SingleEnvs
from longhaul.core.errors import CheckpointError, ConfigError
from longhaul.core.seeds import DerivedSeeds, Seeds
from longhaul.envs.build import Supervision, make_vector_env
from longhaul.envs.config import PathConfig
from longhaul.envs.path_starts import EARLIEST, PLACE, RATE, Path, PathDealer, path_metrics
from longhaul.envs.search_space import EnvSpace
from longhaul.envs.starts import STARTS_USED
from longhaul.tasks.probe.lock import LockFactory

CONFIG = PathConfig(every=1, floor=0.2, window=3)
PATH = Path("goal", (None, *range(1, 40)))


def dealer(*paths: Path, config: PathConfig = CONFIG) -> PathDealer:
    return PathDealer(paths or (PATH,), config, lambda episode: episode.reason == "won")


def ended(env: int, *, won: bool) -> Episode:
    return Episode(env, 0, 0, 5, 1.0, "won" if won else "lost", {STARTS_USED: 1.0})


def play(one: PathDealer, episodes: int, solves: float, *, first_seed: int = 0) -> list[int]:
    """Play episodes that are won from all states at or behind a place; return where they began."""
    begun = []
    for seed in range(first_seed, first_seed + episodes):
        start = one.deal(0, seed)
        state = 0 if start is None else int(start)  # type: ignore[arg-type]
        begun.append(state)
        one.finished(ended(0, won=state >= solves))
    return begun


def test_episodes_begin_near_the_goal_at_first() -> None:
    begun = play(dealer(), 400, solves=99)
    along = [state for state in begun if state]
    assert np.median(along) >= 30


def test_they_begin_earlier_as_later_states_are_solved() -> None:
    one = dealer()
    play(one, 600, solves=20)
    begun = [state for state in play(one, 400, solves=20, first_seed=600) if state]
    assert 15 <= np.median(begun) <= 24
    play(one, 1500, solves=5, first_seed=1000)
    begun = [state for state in play(one, 400, solves=5, first_seed=2500) if state]
    assert 2 <= np.median(begun) <= 10


def test_the_true_start_has_its_floor_and_more_as_it_is_solved() -> None:
    never = play(dealer(), 3000, solves=99)
    assert np.mean(np.array(never) == 0) == pytest.approx(0.2, abs=0.03)
    one = dealer()
    play(one, 1000, solves=0)
    always = play(one, 1000, solves=0, first_seed=1000)
    assert np.mean(np.array(always) == 0) > 0.95


def test_dealing_depends_on_the_seed_and_the_counts_alone() -> None:
    one = dealer()
    play(one, 300, solves=30)
    copy = dealer()
    copy.load_state_dict(one.state_dict())
    assert [one.deal(0, seed) for seed in range(50)] == [copy.deal(0, seed) for seed in range(50)]
    assert play(one, 200, solves=30) == play(copy, 200, solves=30)


def test_no_count_is_ever_lost() -> None:
    one = dealer()
    play(one, 500, solves=30)
    counts = one.state_dict()["rates"][0]
    assert counts["ended"].sum() == 500
    assert counts["solved"].sum() <= 500
    assert counts["solved"][:30].sum() == 0


def test_a_running_episode_is_counted_where_it_began_after_a_restart() -> None:
    one = dealer()
    seed = next(seed for seed in range(99) if one.deal(3, seed) is not None)
    copy = dealer()
    copy.load_state_dict(one.state_dict())
    place = one.finished(ended(3, won=True)).metrics[PLACE]
    assert copy.finished(ended(3, won=True)).metrics[PLACE] == place > 0
    assert seed >= 0


def test_counts_of_other_paths_are_refused() -> None:
    other = Path("goal", (None, 1, 2))
    with pytest.raises(CheckpointError, match="trained along other paths"):
        dealer(other).load_state_dict(dealer().state_dict())


def test_of_several_paths_those_that_fail_are_played_more() -> None:
    easy = Path("easy", (None, *(f"e{state}" for state in range(20))))
    hard = Path("hard", ("h0", *(f"h{state}" for state in range(20))))
    one = dealer(easy, hard)
    drawn = []
    for seed in range(2000):
        start = one.deal(0, seed)
        is_easy = start is None or str(start).startswith("e")
        drawn.append(is_easy)
        one.finished(ended(0, won=is_easy))
    assert np.mean(drawn[-500:]) < 0.15


def test_metrics_say_how_far_the_window_has_come() -> None:
    one = dealer()
    episodes = []
    for seed in range(200):
        start = one.deal(0, seed)
        episodes.append(one.finished(ended(0, won=start is not None)))
    found = path_metrics(episodes)
    assert found["path/success"] == 1.0
    assert found["path/success_true"] == 0.0
    assert found["path/success/10"] == 1.0
    assert found[RATE] == 0.0
    assert 0 < found[EARLIEST] < 1
    assert found["path/share"] == pytest.approx(0.8, abs=0.1)
    assert path_metrics([ended(0, won=True)]) == {}


def test_an_episode_from_the_true_start_counts_as_no_hard_start() -> None:
    one = dealer()
    seed = next(seed for seed in range(99) if one.deal(0, seed) is None)
    one.deal(0, seed)
    assert STARTS_USED not in one.finished(ended(0, won=False)).metrics


@pytest.mark.parametrize("runtime", ["serial", "processes"])
def test_episodes_of_every_runtime_begin_in_states_of_the_path(runtime: str) -> None:
    lock = LockFactory(positions=6)
    space = EnvSpace(SingleEnvs(lock.spec, lock), 1)
    space.begin()
    for choice in lock.key[:4]:
        space.step(np.array([choice]))
    path = Path("start", (None, space.start(0)))
    source = SingleEnvs(lock.spec, lock)
    env = make_vector_env(
        source,
        count=8,
        seeds=DerivedSeeds(Seeds(1)),
        runtime="serial" if runtime == "serial" else "processes",
        supervision=Supervision(dealer=dealer(path)),
    )
    try:
        env.reset()
        positions = set(env.slots.obs["obs"][:, :-1].argmax(axis=1).tolist())
        assert positions == {0, 4}
    finally:
        env.close()


def test_paths_need_a_fixed_order_of_episodes() -> None:
    lock = LockFactory()
    with pytest.raises(ConfigError, match=r"needs env\.order"):
        make_vector_env(
            SingleEnvs(lock.spec, lock),
            count=2,
            seeds=DerivedSeeds(Seeds(1)),
            supervision=Supervision(order="first-come", dealer=dealer()),
        )

"""The batched runtime and its probe."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from longhaul.core.env import BatchedEnvs, VectorEnv
from longhaul.core.errors import EnvError
from longhaul.core.seeds import EpisodeSeeds
from longhaul.core.settings import Settings
from longhaul.core.spaces import Tier
from longhaul.envs.serial import BatchedVectorEnv
from longhaul.envs.starts import STARTS
from longhaul.tasks.probe.chase import MEAN_DISTANCE, SIDE, STEP_COST, best_return, chase_envs
from tests.contracts.vector_env_contract import (
    SEEDS,
    Make,
    VectorEnvContract,
    assert_same,
    play,
    through_checkpoint,
    wishes,
)


def replayed(source: BatchedEnvs) -> BatchedEnvs:
    return replace(source, spec=replace(source.spec, tier=Tier.REPLAY))


SOURCES = {
    "one row": chase_envs(),
    "rows": chase_envs(rows=4, time_limit=14),
    "masks": chase_envs(rows=2, has_masks=True),
    "rows by replay": replayed(chase_envs(rows=3)),
}


CASES = [("one row", 1), ("rows", 1), ("rows", 2), ("masks", 2), ("rows by replay", 2)]


class TestBatchedContract(VectorEnvContract):
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


@pytest.mark.parametrize("threads", [2, 3, 7, 40])
def test_results_do_not_depend_on_the_threads(threads: int) -> None:
    source = chase_envs(rows=3)
    alone = BatchedVectorEnv(source, 17, SEEDS)
    shared = BatchedVectorEnv(source, 17, SEEDS, threads=threads)
    alone.reset()
    shared.reset()
    actions = wishes(alone, 60)
    assert_same(play(alone, actions), play(shared, actions))
    shared.close()


def test_a_state_saved_with_one_thread_goes_on_with_two() -> None:
    source = chase_envs(rows=2)
    alone = BatchedVectorEnv(source, 5, SEEDS)
    alone.reset()
    actions = wishes(alone, 50)
    play(alone, actions[:20])
    shared = BatchedVectorEnv(source, 5, SEEDS, threads=2)
    shared.load_state_dict(through_checkpoint(alone.state_dict()))
    assert_same(play(alone, actions[20:]), play(shared, actions[20:]))
    shared.close()


def towards_the_goal(vector: VectorEnv) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    way = vector.slots.obs["obs"]
    across = np.where(way[:, 0] < 0, 1, 2)
    along = np.where(way[:, 1] < 0, 3, np.where(way[:, 1] > 0, 4, 0))
    return np.where(way[:, 0] != 0, across, along).astype(np.int64)


def test_the_shortest_way_returns_the_documented_optimum() -> None:
    vector = BatchedVectorEnv(chase_envs(), 256, SEEDS)
    vector.reset()
    episodes = [e for _ in range(80) for e in vector.step(towards_the_goal(vector)).episodes]
    assert {episode.reason for episode in episodes} == {"arrived"}
    for episode in episodes:
        assert episode.episode_return == pytest.approx(1 - 0.05 * episode.length, abs=1e-6)
    # Equal steps per env favor short episodes, so the first ones stand for the mean.
    first = [e.episode_return for e in episodes if e.number < 10]
    assert len(first) == 2560
    assert np.mean(first) == pytest.approx(best_return(), abs=0.005)


def test_the_mean_distance_is_that_of_all_pairs_of_cells() -> None:
    cells = [(x, y) for x in range(SIDE) for y in range(SIDE)]
    distances = [abs(a[0] - b[0]) + abs(a[1] - b[1]) for a in cells for b in cells if a != b]
    assert np.mean(distances) == pytest.approx(MEAN_DISTANCE)


def test_settings_reach_a_simulator_at_its_next_reset() -> None:
    vector = BatchedVectorEnv(chase_envs(time_limit=4), 8, SEEDS)
    vector.reset()
    stay = np.zeros(8, np.int64)
    vector.configure(Settings([STEP_COST], {STEP_COST.name: 0.5}))
    costs = [vector.step(stay).slots.reward[0] for _ in range(8)]
    assert costs == pytest.approx([-0.05] * 4 + [-0.5] * 4)


def test_hard_starts_place_the_walkers() -> None:
    vector = BatchedVectorEnv(chase_envs(rows=2, has_masks=True), 2, SEEDS)
    vector.configure(Settings([STARTS], {STARTS.name: ((0, 0), (4, 2))}))
    vector.reset()
    assert vector.slots.mask is not None
    assert vector.slots.mask[:2].tolist() == [[True, False, True, False, True]] * 2
    assert vector.slots.mask[2:].tolist() == [[True, True, False, True, True]] * 2


@pytest.mark.parametrize("start", [(5, 0), (1,), 3, "here"])
def test_an_impossible_start_is_an_error(start: int | str | tuple[int, ...]) -> None:
    vector = BatchedVectorEnv(chase_envs(), 1, SEEDS)
    vector.configure(Settings([STARTS], {STARTS.name: (start,)}))
    with pytest.raises(EnvError, match="is not a cell"):
        vector.reset()


def test_a_picture_shows_walker_and_goal() -> None:
    vector = BatchedVectorEnv(chase_envs(), 1, SEEDS)
    vector.reset()
    picture = vector.frame(0)
    assert picture is not None
    colors = {tuple(color) for color in picture.reshape(-1, 3).tolist()}
    assert colors == {(0, 0, 0), (255, 255, 255), (0, 255, 0)}

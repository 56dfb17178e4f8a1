"""What every VectorEnv must do; subclass, give a `make` fixture, and all of it is tested."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from longhaul.core.env import Array, Episode, Finals, StepBuffers, VectorEnv
from longhaul.core.errors import CheckpointError, EnvError
from longhaul.core.seeds import DerivedSeeds, EpisodeSeeds, ListedSeeds, Seeds
from longhaul.core.spaces import Tier
from longhaul.envs.checks import allowed_actions, random_actions

Make = Callable[[int, EpisodeSeeds], VectorEnv]

SEEDS = DerivedSeeds(Seeds(11))
STEPS = 90


@dataclass
class Record:
    """Everything a vector env showed in one step, copied."""

    arrays: dict[str, Array]
    finals: Finals | None = None
    episodes: tuple[Episode, ...] = ()
    actions: Array = field(default_factory=lambda: np.zeros(0))


def copied(slots: StepBuffers) -> dict[str, Array]:
    arrays: dict[str, Array] = {f"obs.{name}": part for name, part in slots.obs.items()}
    arrays |= {f"term.{name}": term for name, term in slots.terms.items()}
    arrays |= {f"measure.{name}": part for name, part in slots.measures.items()}
    for name in ("reward", "terminated", "truncated", "started", "active", "forced"):
        arrays[name] = {
            "reward": slots.reward,
            "terminated": slots.terminated,
            "truncated": slots.truncated,
            "started": slots.started,
            "active": slots.active,
            "forced": slots.forced,
        }[name]
    if slots.mask is not None:
        arrays["mask"] = slots.mask
    return {name: array.copy() for name, array in arrays.items()}


def wishes(vector: VectorEnv, steps: int = STEPS, seed: int = 5) -> Array:
    """Return random actions [steps, rows, ...]; each env's are the same whatever the count."""
    columns = [random_actions(vector.spec, steps, seed + env) for env in range(vector.count)]
    return np.concatenate(columns, axis=1)


def play(vector: VectorEnv, actions: Array) -> list[Record]:
    records = []
    for wished in actions:
        allowed = allowed_actions(vector.spec, vector.slots, wished)
        step = vector.step(allowed)
        records.append(Record(copied(step.slots), step.finals, step.episodes, allowed))
    return records


def assert_same(first: list[Record], second: list[Record]) -> None:
    assert len(first) == len(second)
    for one, two in zip(first, second, strict=True):
        assert one.arrays.keys() == two.arrays.keys()
        for name, array in one.arrays.items():
            np.testing.assert_array_equal(array, two.arrays[name], err_msg=name)
        assert one.episodes == two.episodes
        assert (one.finals is None) == (two.finals is None)
        if one.finals is not None and two.finals is not None:
            np.testing.assert_array_equal(one.finals.rows, two.finals.rows)
            for name, part in one.finals.obs.items():
                np.testing.assert_array_equal(part, two.finals.obs[name])


def through_checkpoint(state: Any) -> Any:
    """Return a state as a checkpoint would bring it back, refusing what it cannot hold."""
    if isinstance(state, dict):
        assert all(isinstance(key, str) for key in state)
        return {key: through_checkpoint(value) for key, value in state.items()}
    if isinstance(state, list):
        return [through_checkpoint(value) for value in state]
    if isinstance(state, (np.ndarray, bytes)):
        return state
    assert state is None or type(state) in (bool, int, float, str), f"{state!r} cannot be saved"
    return json.loads(json.dumps(state, allow_nan=False))


class VectorEnvContract:
    """The suite; `make(count, seeds)` returns the vector env under test."""

    @pytest.fixture
    def make(self) -> Make:
        raise NotImplementedError

    @pytest.fixture
    def vector(self, make: Make) -> VectorEnv:
        vector = make(3, SEEDS)
        vector.reset()
        return vector

    def test_slots_have_the_shapes_and_dtypes_of_the_spec(self, vector: VectorEnv) -> None:
        assert vector.rows == vector.count * vector.spec.rows
        for name, part in vector.spec.observation.items():
            assert vector.slots.obs[name].shape == (vector.rows, *part.shape)
            assert vector.slots.obs[name].dtype == part.dtype
        assert (vector.slots.mask is not None) == vector.spec.has_masks

    def test_every_row_is_started_and_active_after_a_reset(self, vector: VectorEnv) -> None:
        assert vector.slots.started.all()
        assert vector.slots.active.all()

    def test_several_episodes_end_within_the_suite(self, vector: VectorEnv) -> None:
        episodes = [episode for r in play(vector, wishes(vector)) for episode in r.episodes]
        assert len(episodes) >= 2 * vector.count

    def test_seeds_are_dealt_by_env_and_episode(self, vector: VectorEnv) -> None:
        expected = [0] * vector.count
        for record in play(vector, wishes(vector)):
            for episode in record.episodes:
                assert episode.number == expected[episode.env]
                assert episode.seed == SEEDS.seed(episode.env, episode.number)
                expected[episode.env] += 1

    def test_lengths_and_returns_are_those_of_the_rewards(self, vector: VectorEnv) -> None:
        length = np.zeros(vector.count, int)
        total = np.zeros(vector.rows)
        for record in play(vector, wishes(vector)):
            length += 1
            total += record.arrays["reward"]
            for episode in record.episodes:
                rows = slice(episode.env * vector.spec.rows, (episode.env + 1) * vector.spec.rows)
                assert episode.length == length[episode.env]
                assert episode.episode_return == pytest.approx(total[rows].mean())
                length[episode.env] = 0
                total[rows] = 0.0

    def test_exactly_the_rows_of_ended_envs_are_started(self, vector: VectorEnv) -> None:
        for record in play(vector, wishes(vector)):
            over = [episode.env for episode in record.episodes]
            started = record.arrays["started"].reshape(vector.count, -1)
            np.testing.assert_array_equal(started.all(axis=1), np.isin(range(vector.count), over))
            np.testing.assert_array_equal(started.any(axis=1), started.all(axis=1))

    def test_ended_envs_come_back_reset_with_their_next_seed(
        self, make: Make, vector: VectorEnv
    ) -> None:
        for record in play(vector, wishes(vector, 60)):
            for episode in record.episodes:
                seed = SEEDS.seed(episode.env, episode.number + 1)
                fresh = make(1, ListedSeeds((seed,), envs=1))
                fresh.reset()
                rows = slice(episode.env * vector.spec.rows, (episode.env + 1) * vector.spec.rows)
                for name, part in fresh.slots.obs.items():
                    np.testing.assert_array_equal(part, record.arrays[f"obs.{name}"][rows])
                fresh.close()

    def test_finals_hold_exactly_the_rows_that_ended(self, vector: VectorEnv) -> None:
        for record in play(vector, wishes(vector)):
            ended = np.flatnonzero(record.arrays["terminated"] | record.arrays["truncated"])
            rows = np.zeros(0, int) if record.finals is None else record.finals.rows
            np.testing.assert_array_equal(rows, ended)
            if record.finals is not None:
                assert record.finals.obs.keys() == vector.spec.observation.keys()
                assert all(len(part) == len(ended) for part in record.finals.obs.values())

    def test_finals_stay_the_readers_own(self, vector: VectorEnv) -> None:
        kept: list[tuple[Finals, dict[str, Array]]] = []
        for record in play(vector, wishes(vector)):
            if record.finals is not None:
                obs = record.finals.obs
                kept.append((record.finals, {name: part.copy() for name, part in obs.items()}))
        for finals, obs in kept:
            for name, part in obs.items():
                np.testing.assert_array_equal(finals.obs[name], part)

    def test_inactive_rows_earn_nothing_and_do_not_end(self, vector: VectorEnv) -> None:
        before = vector.slots.active.copy()
        for record in play(vector, wishes(vector)):
            absent = ~before
            assert not record.arrays["reward"][absent].any()
            assert not record.arrays["terminated"][absent].any()
            assert not record.arrays["truncated"][absent].any()
            before = record.arrays["active"]

    def test_reward_terms_add_up_to_the_reward(self, vector: VectorEnv) -> None:
        for record in play(vector, wishes(vector)):
            terms = [record.arrays[f"term.{name}"] for name in vector.spec.terms]
            if terms:
                np.testing.assert_allclose(
                    np.sum(terms, axis=0), record.arrays["reward"], rtol=1e-5, atol=1e-6
                )

    def test_an_env_does_not_depend_on_its_neighbors(self, make: Make, vector: VectorEnv) -> None:
        alone = make(1, SEEDS)
        alone.reset()
        rows = slice(0, alone.rows)
        together = play(vector, wishes(vector))
        for one, many in zip(play(alone, wishes(alone)), together, strict=True):
            for name, array in one.arrays.items():
                np.testing.assert_array_equal(array, many.arrays[name][rows], err_msg=name)

    @pytest.mark.parametrize("cut", [0, 1, 7, 33])
    def test_a_restored_vector_env_continues_identically(self, make: Make, cut: int) -> None:
        whole = make(3, SEEDS)
        whole.reset()
        actions = wishes(whole)
        play(whole, actions[:cut])
        state = through_checkpoint(whole.state_dict())
        slots = copied(whole.slots)
        resumed = make(3, SEEDS)
        resumed.load_state_dict(state)
        for name, array in copied(resumed.slots).items():
            if name.startswith("measure."):
                continue  # of the last step, which the rollout before has taken
            np.testing.assert_array_equal(array, slots[name], err_msg=name)
        assert_same(play(resumed, actions[cut:]), play(whole, actions[cut:]))

    def test_saving_changes_nothing(self, make: Make, vector: VectorEnv) -> None:
        watched = make(3, SEEDS)
        watched.reset()
        actions = wishes(vector, 40)
        records = []
        for wished in actions:
            watched.state_dict()
            records += play(watched, wished[None])
        assert_same(records, play(vector, actions))

    def test_a_used_vector_env_can_be_taken_back(self, vector: VectorEnv) -> None:
        actions = wishes(vector)
        play(vector, actions[:20])
        state = through_checkpoint(vector.state_dict())
        first = play(vector, actions[20:])
        vector.load_state_dict(state)
        assert_same(play(vector, actions[20:]), first)

    def test_a_state_from_the_very_end_of_an_episode_can_be_taken_back(
        self, vector: VectorEnv
    ) -> None:
        actions = wishes(vector)
        played = 1
        while not play(vector, actions[played - 1 : played])[0].episodes:
            played += 1
        state = through_checkpoint(vector.state_dict())
        first = play(vector, actions[played : played + 2])
        vector.load_state_dict(state)
        assert_same(play(vector, actions[played : played + 2]), first)

    @pytest.mark.parametrize("between", [1, 21])
    def test_a_state_can_be_restored_twice_over(self, make: Make, between: int) -> None:
        vector = make(3, SEEDS)
        vector.reset()
        actions = wishes(vector)
        play(vector, actions[:9])
        middle = make(3, SEEDS)
        middle.load_state_dict(through_checkpoint(vector.state_dict()))
        play(middle, actions[9 : 9 + between])
        last = make(3, SEEDS)
        last.load_state_dict(through_checkpoint(middle.state_dict()))
        play(vector, actions[9 : 9 + between])
        assert_same(play(last, actions[30:]), play(vector, actions[30:]))

    def test_a_state_from_before_the_first_reset_is_a_beginning(self, make: Make) -> None:
        resumed, plain = make(3, SEEDS), make(3, SEEDS)
        resumed.load_state_dict(through_checkpoint(make(3, SEEDS).state_dict()))
        resumed.reset()
        plain.reset()
        actions = wishes(plain, 20)
        assert_same(play(resumed, actions), play(plain, actions))

    def test_a_state_of_another_count_is_refused(self, make: Make, vector: VectorEnv) -> None:
        with pytest.raises(CheckpointError, match=r"3 of .* this run has 2 of"):
            make(2, SEEDS).load_state_dict(vector.state_dict())

    def test_actions_of_a_wrong_shape_are_refused(self, vector: VectorEnv) -> None:
        with pytest.raises(EnvError, match="actions have shape"):
            vector.step(wishes(vector, 1)[0][:-1])

    def test_a_step_before_the_first_reset_is_refused(self, make: Make) -> None:
        vector = make(2, SEEDS)
        with pytest.raises(EnvError, match="reset"):
            vector.step(wishes(vector, 1)[0])

    def test_a_second_reset_begins_the_next_episodes(self, vector: VectorEnv) -> None:
        vector.reset()
        first = next(e for r in play(vector, wishes(vector)) for e in r.episodes)
        assert first.number == 1
        assert first.seed == SEEDS.seed(first.env, 1)

    def test_the_tier_promises_exactness(self, vector: VectorEnv) -> None:
        assert vector.spec.tier in (Tier.SNAPSHOT, Tier.REPLAY)

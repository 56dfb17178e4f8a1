"""Every number of a rollout against envs stepped by hand."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import pytest
import torch
from torch import Tensor

from longhaul.core.env import Array, Episode, StepBuffers
from longhaul.core.rollout import Rollout
from longhaul.core.seeds import Seeds
from longhaul.core.settings import Settings
from longhaul.engine.collector import RolloutCollector
from tests.engine.comparing import assert_equal, through_checkpoint
from tests.engine.diary import (
    ROWS,
    SEEDS,
    SETTINGS,
    TILT,
    DiaryFactory,
    DiaryPolicy,
    diaries,
    log_probability,
    worth,
)

COUNT = 3
STEPS = 12
CHUNK = 4
VERSION = torch.tensor(3.0)


@dataclass
class HandStepped:
    """One env, one call at a time: what it showed before and what it answered after each step."""

    env: int
    number: int = 0
    total: Array = field(default_factory=lambda: np.zeros(ROWS))
    length: int = 0
    started: bool = True
    age: Array = field(default_factory=lambda: np.zeros(ROWS, np.float32))

    def __post_init__(self) -> None:
        self.diary = DiaryFactory()()
        self.slots = StepBuffers.allocate(self.diary.spec, ROWS)
        self.diary.bind(self.slots)
        self.diary.reset(SEEDS.seed(self.env, 0), None)

    def before(self) -> dict[str, Array]:
        assert self.slots.mask is not None
        return {
            "page": self.slots.obs["page"].copy(),
            "step": self.slots.obs["step"].copy(),
            "active": self.slots.active.copy(),
            "mask": self.slots.mask.copy(),
            "started": np.full(ROWS, self.started),
            "age": self.age.copy(),
        }

    def act(self, actions: Array) -> tuple[dict[str, Array], Episode | None]:
        ending = self.diary.step(actions)
        slots = self.slots
        answer = {
            "reward": slots.reward.copy(),
            "terminated": slots.terminated.copy(),
            "truncated": slots.truncated.copy(),
            "forced": slots.forced.copy(),
            "final": slots.obs["page"].copy(),
        }
        self.total += slots.reward
        self.length += 1
        self.age += 1
        self.started = ending is not None
        if ending is None:
            return answer, None
        seed = SEEDS.seed(self.env, self.number)
        episode = Episode(
            self.env, self.number, seed, self.length, float(self.total.mean()), ending.reason,
            dict(ending.metrics),
        )  # fmt: skip
        self.number += 1
        self.total, self.length, self.age = np.zeros(ROWS), 0, np.zeros(ROWS, np.float32)
        self.diary.reset(SEEDS.seed(self.env, self.number), None)
        return answer, episode


@dataclass
class Oracle:
    """All envs stepped by hand with the actions of a rollout."""

    envs: list[HandStepped]
    shown: dict[str, list[Array]] = field(default_factory=dict)
    episodes: list[Episode] = field(default_factory=list)

    def follow(self, rollout: Rollout) -> None:
        self.shown, self.episodes = {}, []
        for actions in rollout.action.numpy():
            for name, parts in self._step(actions).items():
                self.shown.setdefault(name, []).append(np.concatenate(parts))

    def _step(self, actions: Array) -> dict[str, list[Array]]:
        parts: dict[str, list[Array]] = {}
        for env in self.envs:
            seen = env.before()
            answer, episode = env.act(actions[env.env * ROWS : (env.env + 1) * ROWS])
            if episode is not None:
                self.episodes.append(episode)
            for name, part in {**seen, **answer}.items():
                parts.setdefault(name, []).append(part)
        return parts

    def tensor(self, name: str) -> Tensor:
        return torch.from_numpy(np.stack(self.shown[name]))


@pytest.fixture
def policy() -> DiaryPolicy:
    return DiaryPolicy(float(VERSION))


@pytest.fixture
def collector(policy: DiaryPolicy) -> RolloutCollector:
    return RolloutCollector(diaries(COUNT), policy, Seeds(1), steps=STEPS, chunk=CHUNK)


@pytest.fixture(params=[0, 1, 4], ids="rollout {}".format)
def followed(request: pytest.FixtureRequest, collector: RolloutCollector) -> tuple[Rollout, Oracle]:
    """A rollout, first or later in the run, and the oracle that followed all of them."""
    oracle = Oracle([HandStepped(env) for env in range(COUNT)])
    for _ in range(request.param + 1):
        rollout = collector.collect(SETTINGS)
        oracle.follow(rollout)
    return rollout, oracle


Followed = tuple[Rollout, Oracle]


def test_observations_and_masks_are_those_acted_on(followed: Followed) -> None:
    rollout, oracle = followed
    assert torch.equal(rollout.obs["page"], oracle.tensor("page"))
    assert torch.equal(rollout.obs["step"], oracle.tensor("step"))
    assert rollout.mask is not None
    assert torch.equal(rollout.mask, oracle.tensor("mask"))


def test_no_forbidden_action_is_taken(followed: Followed) -> None:
    rollout, _ = followed
    assert rollout.mask is not None
    assert rollout.mask.gather(2, rollout.action.unsqueeze(2)).all()


@pytest.mark.parametrize(
    "name", ["reward", "terminated", "truncated", "started", "active", "forced"]
)
def test_what_came_of_each_action_is_written_beside_it(followed: Followed, name: str) -> None:
    rollout, oracle = followed
    recorded = {
        "reward": rollout.reward,
        "terminated": rollout.terminated,
        "truncated": rollout.truncated,
        "started": rollout.started,
        "active": rollout.active,
        "forced": rollout.forced,
    }
    assert torch.equal(recorded[name], oracle.tensor(name))


def test_the_rollouts_hold_every_kind_of_step(collector: RolloutCollector) -> None:
    """Without this the comparisons above could be about nothing."""
    rollouts = [collector.collect(SETTINGS) for _ in range(3)]
    for name in ("terminated", "truncated", "started", "forced"):
        assert any(getattr(rollout, name).any() for rollout in rollouts), name
    assert any(not rollout.active.all() for rollout in rollouts)
    assert any((rollout.terminated & rollout.truncated).any() for rollout in rollouts)
    assert any(rollout.started[c].any() for rollout in rollouts for c in (4, 8))
    assert any(not rollout.started[c].all() for rollout in rollouts for c in (0, 4, 8))


def test_log_probabilities_and_values_are_those_of_the_policy_that_acted(
    followed: Followed,
) -> None:
    rollout, oracle = followed
    age = oracle.tensor("age")
    own = ~rollout.forced
    assert torch.equal(rollout.log_prob[own], log_probability(age, VERSION)[own])
    assert torch.equal(rollout.value, worth(oracle.tensor("page"), age, VERSION))


def test_a_forced_action_is_marked_and_was_certain(followed: Followed) -> None:
    """Row 24 of the checklist; that it teaches nothing is a promise of the learners."""
    rollout, _ = followed
    assert rollout.forced.any()
    assert not rollout.trainable[rollout.forced].any()
    assert (rollout.log_prob[rollout.forced] == 0).all()


def test_memory_is_kept_at_the_beginning_of_every_chunk(followed: Followed) -> None:
    rollout, oracle = followed
    assert rollout.chunk == CHUNK
    assert torch.equal(rollout.memory["age"], oracle.tensor("age")[::CHUNK])


def test_truncated_rows_keep_their_last_observation_and_its_value(followed: Followed) -> None:
    rollout, oracle = followed
    # What is over by itself has no value to go on with, whatever the clock says of it.
    cut = oracle.tensor("truncated") & ~oracle.tensor("terminated")
    step, row = cut.nonzero(as_tuple=True)
    cuts = rollout.truncations
    assert cuts.step.tolist() == step.tolist()
    assert cuts.row.tolist() == row.tolist()
    page = oracle.tensor("final")[step, row]
    age = oracle.tensor("age")[step, row] + 1
    assert torch.equal(cuts.obs["page"], page)
    assert torch.equal(cuts.memory["age"], age)
    assert torch.equal(cuts.value, worth(page, age, VERSION))


def test_the_rollout_ends_with_the_value_of_what_is_seen_then(followed: Followed) -> None:
    rollout, oracle = followed
    seen = [env.before() for env in oracle.envs]
    page = torch.from_numpy(np.concatenate([part["page"] for part in seen]))
    age = torch.from_numpy(np.concatenate([part["age"] for part in seen]))
    assert rollout.last.step.tolist() == [STEPS - 1] * COUNT * ROWS
    assert rollout.last.row.tolist() == list(range(COUNT * ROWS))
    assert torch.equal(rollout.last.obs["page"], page)
    assert torch.equal(rollout.last.memory["age"], age)
    assert torch.equal(rollout.last.value, worth(page, age, VERSION))


def test_finished_episodes_come_in_order(followed: Followed) -> None:
    rollout, oracle = followed
    assert rollout.episodes == tuple(oracle.episodes)
    assert rollout.episodes


def test_reward_terms_are_summed_over_active_rows(followed: Followed) -> None:
    rollout, oracle = followed
    active = oracle.tensor("active")
    assert rollout.terms["bonus"] == pytest.approx(float(rollout.action[active].sum()))
    assert rollout.terms["cost"] == pytest.approx(-0.5 * int(active.sum()))
    assert sum(rollout.terms.values()) == pytest.approx(float(rollout.reward.sum()))


def test_only_active_rows_count_as_steps(collector: RolloutCollector) -> None:
    rollouts = [collector.collect(SETTINGS) for _ in range(3)]
    for rollout in rollouts:
        assert rollout.env_steps == int(rollout.active.sum())
    assert sum(rollout.env_steps for rollout in rollouts) < 3 * STEPS * COUNT * ROWS


def test_a_rollout_stays_as_it_is_when_the_next_is_collected(collector: RolloutCollector) -> None:
    first = collector.collect(SETTINGS)
    kept = [first.obs["page"].clone(), first.last.obs["page"].clone(), first.memory["age"].clone()]
    collector.collect(SETTINGS)
    assert_equal([first.obs["page"], first.last.obs["page"], first.memory["age"]], kept)


def test_a_learner_may_differentiate_through_what_it_gets(collector: RolloutCollector) -> None:
    rollout = collector.collect(SETTINGS)
    weight = torch.ones((), requires_grad=True)
    parts = [
        rollout.obs["page"], rollout.log_prob, rollout.value, rollout.reward,
        rollout.memory["age"], rollout.last.memory["age"], rollout.last.value,
        rollout.truncations.memory["age"], rollout.truncations.value,
    ]  # fmt: skip
    torch.stack([(part * weight).sum() for part in parts]).sum().backward()
    assert weight.grad is not None


def test_without_a_chunk_length_the_whole_rollout_is_one(policy: DiaryPolicy) -> None:
    collector = RolloutCollector(diaries(COUNT), policy, Seeds(1), steps=6, chunk=0)
    rollout = collector.collect(SETTINGS)
    assert rollout.chunk == 6
    assert rollout.memory["age"].shape == (1, COUNT * ROWS)


def test_every_rollout_draws_its_own_noise(
    collector: RolloutCollector, policy: DiaryPolicy
) -> None:
    seeds = [collector.collect(SETTINGS).noise_seed for _ in range(3)]
    assert policy.noise_seeds == seeds
    assert len(set(seeds)) == 3
    assert min(seeds) >= 0


def test_settings_reach_envs_at_their_next_reset(collector: RolloutCollector) -> None:
    collector.collect(SETTINGS)
    rollout = collector.collect(Settings([TILT], {TILT.name: 0.25}))
    tilted = rollout.obs["page"][:, :, 0] % 1 == 0.25
    # What begins at step 0 was already reset at the end of the rollout before.
    reset_since = rollout.started[1:].cumsum(0) > 0
    assert not tilted[0].any()
    assert torch.equal(tilted[1:], reset_since & rollout.active[1:])


def test_equal_seeds_bring_equal_rollouts_and_others_do_not() -> None:
    def second(seed: int) -> Rollout:
        collector = RolloutCollector(
            diaries(COUNT), DiaryPolicy(), Seeds(seed), steps=STEPS, chunk=CHUNK
        )
        collector.collect(SETTINGS)
        return collector.collect(SETTINGS)

    assert_equal(second(1), second(1))
    assert not torch.equal(second(1).action, second(2).action)


@pytest.mark.parametrize("cut", [0, 1, 3])
def test_a_restored_collector_continues_exactly(cut: int) -> None:
    def make(seed: int) -> RolloutCollector:
        return RolloutCollector(
            diaries(COUNT), DiaryPolicy(), Seeds(seed), steps=STEPS, chunk=CHUNK
        )

    whole, resumed = make(1), make(77)
    for _ in range(cut):
        whole.collect(SETTINGS)
    resumed.load_state_dict(through_checkpoint(whole.state_dict()))
    for _ in range(3):
        assert_equal(resumed.collect(SETTINGS), whole.collect(SETTINGS))
    assert_equal(through_checkpoint(resumed.state_dict()), through_checkpoint(whole.state_dict()))


def test_a_saved_state_is_not_changed_by_collecting_on(collector: RolloutCollector) -> None:
    collector.collect(SETTINGS)
    state = collector.state_dict()
    before = through_checkpoint(state)
    collector.collect(SETTINGS)
    assert_equal(through_checkpoint(state), before)


def test_closing_ends_the_environments(collector: RolloutCollector) -> None:
    closed: list[str] = []
    collector.env.close = lambda: closed.append("env")  # type: ignore[method-assign]  # a spy
    collector.close()
    assert closed == ["env"]


def test_ages_grow_within_episodes_over_rollout_borders(collector: RolloutCollector) -> None:
    """The memory handed from one rollout to the next is the one its rows ended with."""
    rollouts = [collector.collect(SETTINGS) for _ in range(4)]
    for before, after in pairwise(rollouts):
        assert torch.equal(before.last.memory["age"], after.memory["age"][0])

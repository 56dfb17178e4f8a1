"""What both learners promise."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from longhaul.core.errors import CheckpointError
from longhaul.core.metrics import Metrics
from longhaul.core.policy import Policy
from longhaul.core.rollout import Rollout
from longhaul.core.settings import Setting, Settings
from longhaul.core.state import State, Stateful
from longhaul.learn.config import (
    ENT_COEF,
    LEARNING_RATE,
    METRICS,
    OnPolicyConfig,
    PPOConfig,
    learn_settings,
)
from longhaul.learn.ppo import PPO
from longhaul.learn.vtrace import VTrace
from tests.learn.fakes import (
    FakePolicy,
    FakeWorld,
    collect,
    generator,
    make_policy,
    random_rollout,
    settings_for,
)

AnyLearner = PPO | VTrace
Make = Callable[[Policy, OnPolicyConfig, np.random.Generator], AnyLearner]
LEARNERS: dict[str, Make] = {"ppo": PPO, "vtrace": VTrace}


@pytest.fixture(params=LEARNERS)
def make_learner(request: pytest.FixtureRequest) -> Make:
    return LEARNERS[request.param]


@pytest.fixture(params=[False, True], ids=["plain", "recurrent"])
def memory(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture(autouse=True)
def deterministic() -> Iterator[None]:
    torch.use_deterministic_algorithms(mode=True)
    yield
    torch.use_deterministic_algorithms(mode=False)


def weights(policy: Policy) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in policy.state_dict().items()}


def assert_bit_equal(left: object, right: object) -> None:
    if isinstance(left, dict) and isinstance(right, dict):
        assert left.keys() == right.keys()
        for name in left:
            assert_bit_equal(left[name], right[name])
    elif isinstance(left, Tensor) and isinstance(right, Tensor):
        assert left.dtype == right.dtype
        assert torch.equal(left, right)
    else:
        assert left == right


def rollout_for(policy: FakePolicy, seed: int) -> Rollout:
    return random_rollout(seed, hidden=16 if policy.recurrent else 0)


CONFIG = PPOConfig(
    learning_rate=1e-2,
    n_epochs=2,
    minibatch_size=16,
    ent_coef=0.01,
    normalize_reward=True,
    weight_decay=0.01,
    accumulate=2,
)


def test_a_saved_learner_continues_bit_for_bit(make_learner: Make, *, memory: bool) -> None:
    settings = settings_for(CONFIG)
    first = make_learner(make_policy(memory=memory), CONFIG, generator(3))
    for seed in range(3):
        first.update(random_rollout(seed, hidden=16 * memory), settings)
    saved = first.state_dict()
    second = make_learner(make_policy(seed=9, memory=memory), CONFIG, generator(8))
    second.load_state_dict(saved)
    for seed in range(3, 6):
        rollout = random_rollout(seed, hidden=16 * memory)
        assert first.update(rollout, settings) == second.update(rollout, settings)
    assert_bit_equal(first.state_dict(), second.state_dict())


def test_learning_on_does_not_change_what_was_saved(make_learner: Make) -> None:
    learner = make_learner(make_policy(), CONFIG, generator())
    learner.update(random_rollout(0), settings_for(CONFIG))
    saved = learner.state_dict()
    before = saved["policy"]["first.weight"].clone()
    moments = saved["optimizer"]["exp_avg"]["first.weight"].clone()
    learner.update(random_rollout(1), settings_for(CONFIG))
    assert torch.equal(saved["policy"]["first.weight"], before)
    assert torch.equal(saved["optimizer"]["exp_avg"]["first.weight"], moments)


def test_the_state_holds_only_what_a_checkpoint_can_keep(make_learner: Make) -> None:
    def check(state: object) -> None:
        if isinstance(state, dict):
            assert all(isinstance(name, str) for name in state)
            for part in state.values():
                check(part)
        else:
            assert isinstance(state, (Tensor, np.ndarray, bool, int, float, str, bytes))

    learner = make_learner(make_policy(), CONFIG, generator())
    assert isinstance(learner, Stateful)
    state: State = learner.state_dict()
    check(state)


def test_a_foreign_state_is_refused(make_learner: Make) -> None:
    saved = make_learner(make_policy(inputs=5), CONFIG, generator()).state_dict()
    with pytest.raises(CheckpointError, match="different policy"):
        make_learner(make_policy(), CONFIG, generator()).load_state_dict(saved)


def test_the_same_seeds_give_the_same_weights(make_learner: Make, *, memory: bool) -> None:
    results = []
    for _ in range(2):
        policy = make_policy(memory=memory)
        learner = make_learner(policy, CONFIG, generator(5))
        learner.update(rollout_for(policy, 0), settings_for(CONFIG))
        results.append(weights(policy))
    assert_bit_equal(*results)


def test_untrainable_steps_teach_nothing(make_learner: Make, *, memory: bool) -> None:
    """Their actions, recorded log-probabilities and rewards of absent rows may be anything."""
    rollout = random_rollout(2, hidden=16 * memory)
    forced = rollout.forced & rollout.active
    absent = ~rollout.active
    garbled = replace(
        rollout,
        action=torch.where(forced | absent, 1 - rollout.action, rollout.action),
        log_prob=rollout.log_prob.masked_fill(forced | absent, -torch.inf),
        reward=rollout.reward.masked_fill(absent, torch.nan),
        value=rollout.value.masked_fill(absent, torch.nan),
    )
    results = []
    for version in (rollout, garbled):
        policy = make_policy(memory=memory)
        learner = make_learner(policy, CONFIG, generator(5))
        metrics = learner.update(version, settings_for(CONFIG))
        assert metrics["fault/skipped_updates"] == 0
        results.append(weights(policy))
    assert_bit_equal(*results)


def test_a_rollout_with_nothing_to_learn_from_changes_no_weight(make_learner: Make) -> None:
    policy = make_policy()
    before = policy.first.weight.detach().clone()
    rollout = random_rollout(0)
    rollout = replace(rollout, forced=torch.ones_like(rollout.forced))
    metrics = make_learner(policy, CONFIG, generator()).update(rollout, settings_for(CONFIG))
    assert torch.equal(policy.first.weight, before)
    assert metrics["train/n_updates"] == 0


def test_accumulated_minibatches_make_the_step_of_one_large_one(
    make_learner: Make, *, memory: bool
) -> None:
    results = []
    for minibatch, accumulate in ((64, 1), (16, 4)):
        config = PPOConfig(
            n_epochs=1,
            minibatch_size=minibatch,
            accumulate=accumulate,
            normalize_advantage=False,
            ent_coef=0.1,
        )
        policy = make_policy(memory=memory)
        learner = make_learner(policy, config, generator(5))
        metrics = learner.update(random_rollout(1, hidden=16 * memory), settings_for(config))
        assert metrics["train/n_updates"] == 1
        results.append(weights(policy))
    for name, tensor in results[0].items():
        torch.testing.assert_close(tensor, results[1][name], rtol=1e-4, atol=1e-6)


def test_the_learning_rate_is_read_from_the_settings(make_learner: Make) -> None:
    policy = make_policy()
    before = policy.first.weight.detach().clone()
    settings = settings_for(CONFIG).with_([LEARNING_RATE.to(0.0)])
    metrics = make_learner(policy, CONFIG, generator()).update(random_rollout(0), settings)
    assert metrics["train/learning_rate"] == 0.0
    assert torch.equal(policy.first.weight, before)


def test_a_policys_own_loss_is_weighted_by_its_setting(make_learner: Make) -> None:
    weight = Setting("loss.tidy", 0.0, "weight of tidiness")
    updated = {}
    for value in (None, 0.0, 1.0):
        declared = (*learn_settings(CONFIG), *(() if value is None else (weight,)))
        values = {} if value is None else {"loss.tidy": value}
        policy = make_policy()
        policy.aux = True
        learner = make_learner(policy, CONFIG, generator())
        metrics = learner.update(random_rollout(0), Settings(declared, values))
        assert metrics["train/aux_tidy"] > 0
        updated[value] = policy.first.weight.detach().clone()
    assert torch.equal(updated[None], updated[1.0])
    assert not torch.equal(updated[0.0], updated[1.0])


def test_every_metric_is_declared_and_finite(make_learner: Make) -> None:
    metrics = make_learner(make_policy(), CONFIG, generator()).update(
        random_rollout(0), settings_for(CONFIG)
    )
    declared = {metric.name for metric in METRICS}
    assert {name for name in metrics if not name.startswith("policy/")} <= declared
    assert all(np.isfinite(value) for value in metrics.values())
    assert {"train/approx_kl", "train/value_loss", "train/explained_variance"} <= metrics.keys()
    assert metrics["policy/hidden"] > 0


def test_input_statistics_see_every_rollout_once(make_learner: Make) -> None:
    policy = make_policy()
    rollout = random_rollout(0)
    make_learner(policy, CONFIG, generator()).update(rollout, settings_for(CONFIG))
    assert policy.seen.item() == rollout.active.sum().item()


def one_hot(state: Tensor) -> Tensor:
    return torch.nn.functional.one_hot(state, 3).float()


def train(
    make_learner: Make, world: FakeWorld, policy: FakePolicy, *, rollouts: int, **changes: float
) -> tuple[Policy, Settings, Metrics]:
    values = {"learning_rate": 0.02, "ent_coef": 0.01, "gamma": 0.9, **changes}
    config = PPOConfig(n_epochs=2, minibatch_size=128, **values)  # type: ignore[arg-type]  # all floats
    settings = settings_for(config)
    learner = make_learner(policy, config, generator(1))
    draws = torch.Generator().manual_seed(4)
    metrics: Metrics = {}
    for _ in range(rollouts):
        rollout = collect(world, policy, settings, draws, steps=16, chunk=8)
        metrics = learner.update(rollout, settings)
    return policy, settings, metrics


def test_a_bandit_is_solved(make_learner: Make) -> None:
    def react(state: Tensor, action: Tensor, age: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return (action == 1).float(), torch.ones_like(action, dtype=torch.bool), state

    policy = make_policy()
    train(make_learner, FakeWorld(16, react, one_hot), policy, rollouts=40)
    obs = one_hot(torch.zeros(1, dtype=torch.int64))
    hidden = policy._hidden({"x": obs}, {})
    assert policy.logits(hidden).softmax(-1)[0, 1] > 0.9
    assert policy.worth(hidden).item() == pytest.approx(1.0, abs=0.2)


def test_a_reward_two_steps_later_is_found(make_learner: Make) -> None:
    """Only choosing 1 twice pays, in the second step."""

    def react(state: Tensor, action: Tensor, age: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        reward = ((state == 1) & (action == 1)).float()
        return reward, state > 0, torch.where(action == 1, 1, 2)

    policy = make_policy()
    train(make_learner, FakeWorld(16, react, one_hot), policy, rollouts=60)
    obs = one_hot(torch.tensor([0, 1]))
    hidden = policy._hidden({"x": obs}, {})
    assert policy.logits(hidden).softmax(-1)[:, 1].min() > 0.8
    assert policy.worth(hidden).flatten().tolist() == pytest.approx([0.9, 1.0], abs=0.25)


def test_values_look_past_a_time_limit(make_learner: Make) -> None:
    """One reward per step for ever is worth 1 / (1 - 0.8), however short the episodes are cut."""

    def react(state: Tensor, action: Tensor, age: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return torch.ones(len(state)), torch.zeros_like(state, dtype=torch.bool), state

    policy = make_policy()
    world = FakeWorld(4, react, one_hot, time_limit=3)
    _, settings, _ = train(make_learner, world, policy, rollouts=120, gamma=0.8)
    obs = {"x": one_hot(torch.zeros(1, dtype=torch.int64))}
    assert policy.value(obs, {}, settings).item() == pytest.approx(5.0, abs=0.5)


def test_a_memory_learns_to_repeat_what_it_saw(make_learner: Make) -> None:
    """The first observation says which action pays in the third step, when it is out of sight."""
    flips = torch.Generator().manual_seed(7)

    def observe(state: Tensor) -> Tensor:
        # state = 3 * age + cue, shown only at age 0
        cue = torch.where(state < 3, state % 3, torch.zeros_like(state))
        return torch.stack([cue == 1, cue == 2, state >= 6], dim=-1).float()

    class CueWorld(FakeWorld):
        def __setattr__(self, name: str, value: object) -> None:
            if name == "state" and isinstance(value, Tensor):
                cue = torch.randint(1, 3, value.shape, generator=flips)
                value = torch.where(value == 0, cue, value)
            super().__setattr__(name, value)

    def react(state: Tensor, action: Tensor, age: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        at_end = state >= 6
        paid = at_end & (action == state % 3 - 1)
        return paid.float(), at_end, state + 3

    policy = make_policy(memory=True)
    world = CueWorld(16, react, observe)
    _, settings, _ = train(make_learner, world, policy, rollouts=50, ent_coef=0.003)
    rollout = collect(world, policy, settings, torch.Generator().manual_seed(1), steps=48, chunk=8)
    assert rollout.reward[rollout.terminated].mean() > 0.9


def test_entropy_grows_when_it_is_paid_for(make_learner: Make) -> None:
    config = replace(CONFIG, learning_rate=0.02, accumulate=1)
    policy = make_policy()
    with torch.no_grad():
        policy.logits.bias.copy_(torch.tensor([2.0, -2.0]))
    settings = settings_for(config).with_([ENT_COEF.to(5.0)])
    learner = make_learner(policy, config, generator())
    losses = [learner.update(random_rollout(s), settings)["train/entropy_loss"] for s in range(8)]
    assert losses[-1] < losses[0]

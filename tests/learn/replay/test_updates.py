"""Both learners with a replay beside them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from longhaul.core.metrics import Metrics
from longhaul.core.policy import Policy
from longhaul.core.rollout import Rollout
from longhaul.core.settings import Settings
from longhaul.learn.config import (
    LEARNING_RATE,
    METRICS,
    REPLAY_POLICY_WEIGHT,
    REPLAY_WEIGHT,
    VF_COEF,
    OnPolicyConfig,
    PPOConfig,
    ReplayConfig,
)
from longhaul.learn.ppo import PPO
from longhaul.learn.replay.buffer import PrioritizedReplay, ReplaySample
from longhaul.learn.replay.sum_tree import Indices, Weights
from longhaul.learn.returns import Trajectory, vtrace
from longhaul.learn.vtrace import VTrace
from tests.learn.fakes import (
    FakeWorld,
    collect,
    generator,
    make_policy,
    random_rollout,
    settings_for,
)

AnyLearner = PPO | VTrace
Make = Callable[[Policy, OnPolicyConfig, np.random.Generator, PrioritizedReplay | None], AnyLearner]
LEARNERS: dict[str, Make] = {"ppo": PPO, "vtrace": VTrace}
REPLAY = ReplayConfig(enabled=True, capacity=512, length=8, batch=32)
CONFIG = PPOConfig(learning_rate=1e-2, n_epochs=2, minibatch_size=16, replay=REPLAY)


@pytest.fixture(params=LEARNERS)
def make_learner(request: pytest.FixtureRequest) -> Make:
    return LEARNERS[request.param]


@pytest.fixture(params=[False, True], ids=["plain", "recurrent"])
def memory(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


class SetReplay(PrioritizedReplay):
    """Gives one sample and takes notes."""

    def __init__(self, drawn: ReplaySample) -> None:
        super().__init__(REPLAY, generator())
        self.drawn = drawn
        self.revalued: Weights | None = None

    def push(self, pieces: Rollout, priorities: Weights) -> None:
        pass

    def due(self) -> int:
        return 1

    def draw(self, *, alpha: float, beta: float, noise_seed: int) -> ReplaySample:
        return self.drawn

    def revalue(self, places: Indices, priorities: Weights) -> None:
        self.revalued = priorities


def weights(policy: Policy) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in policy.state_dict().items()}


def updated(
    make_learner: Make, config: OnPolicyConfig, settings: Settings, replay: PrioritizedReplay | None
) -> Policy:
    policy = make_policy()
    learner = make_learner(policy, config, generator(5), replay)
    for seed in range(4):
        learner.update(random_rollout(seed), settings)
    return policy


def drawn_sample(seed: int, *, memory: bool) -> ReplaySample:
    rollout = random_rollout(seed, steps=8, rows=6, chunk=8, hidden=16 * memory)
    weight = torch.rand(6, generator=torch.Generator().manual_seed(seed))
    return ReplaySample(rollout, np.arange(6), weight)


@pytest.mark.parametrize("normalize", [False, True])
def test_the_replay_loss_is_that_of_the_plain_formula(*, memory: bool, normalize: bool) -> None:
    """With nothing to learn in the rollout itself but a step without weight, only it counts."""
    config = replace(
        CONFIG, n_epochs=1, minibatch_size=64, normalize_advantage=normalize, max_grad_norm=0
    )
    settings = settings_for(config).with_([REPLAY_WEIGHT.to(0.7), REPLAY_POLICY_WEIGHT.to(0.3)])
    drawn = drawn_sample(4, memory=memory)
    assert len(drawn.rollout.truncations.row) > 0
    fresh = random_rollout(1, hidden=16 * memory)
    gradients = []
    for replay in (SetReplay(drawn), None):
        policy = make_policy(memory=memory)
        learner = VTrace(policy, config, generator(), replay)
        learner.update(fresh, settings)
        # The first step's mean gradient is a tenth of the gradient itself.
        moments = learner.state_dict()["optimizer"]["exp_avg"]
        gradients.append({name: 10 * moment for name, moment in moments.items()})

    theirs = make_policy(memory=memory)
    rollout = drawn.rollout
    evaluated = theirs.evaluate_actions(rollout.sequences(), settings)
    chosen = rollout.trainable
    with torch.no_grad():
        cuts, last = rollout.truncations, rollout.last
        trajectory = Trajectory.of(
            rollout,
            rollout.reward,
            truncation_value=theirs.value(cuts.obs, cuts.memory, settings),
            last_value=theirs.value(last.obs, last.memory, settings),
        )
        log_ratio = torch.where(chosen, evaluated.log_prob - rollout.log_prob, 0.0)
        traced = vtrace(trajectory, evaluated.value, log_ratio, gamma=0.99, vtrace_lambda=1.0)
    advantage = traced.advantage[chosen]
    if normalize:
        advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
    weight = drawn.weight.expand(8, 6)[chosen]
    loss = 0.7 * (
        -0.3 * (weight * traced.rho[chosen] * advantage * evaluated.log_prob[chosen]).mean()
        + 0.5 * (weight * (evaluated.value - traced.target)[chosen].square()).mean()
    )
    loss.backward()
    for name, parameter in theirs.named_parameters():
        assert parameter.grad is not None
        added = gradients[0][name] - gradients[1][name]
        torch.testing.assert_close(added, parameter.grad, rtol=1e-4, atol=1e-5)


def slow_priority(errors: list[float], peak: float) -> float:
    return peak * max(errors) + (1 - peak) * sum(errors) / len(errors) + 1e-5 if errors else 0.0


def test_priorities_after_use_are_those_of_the_errors(make_learner: Make) -> None:
    drawn = drawn_sample(4, memory=False)
    replay = SetReplay(drawn)
    policy = make_policy()
    settings = settings_for(CONFIG)
    rollout = drawn.rollout
    with torch.no_grad():
        evaluated = policy.evaluate_actions(rollout.sequences(), settings)
        trajectory = Trajectory.of(
            rollout,
            rollout.reward,
            truncation_value=policy.value(rollout.truncations.obs, {}, settings),
            last_value=policy.value(rollout.last.obs, {}, settings),
        )
        log_ratio = torch.where(rollout.trainable, evaluated.log_prob - rollout.log_prob, 0.0)
        target = vtrace(
            trajectory, evaluated.value, log_ratio, gamma=0.99, vtrace_lambda=1.0
        ).target
    make_learner(policy, CONFIG, generator(), replay).update(random_rollout(0), settings)
    expected = []
    for row in range(6):
        steps = [t for t in range(8) if rollout.trainable[t, row]]
        errors = [abs(float(target[t, row] - evaluated.value[t, row])) for t in steps]
        expected.append(slow_priority(errors, 0.9))
    assert replay.revalued is not None
    np.testing.assert_allclose(replay.revalued, expected, rtol=1e-4)


def endless(state: Tensor, action: Tensor, age: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return (action == 1).float() + state, age + state == 6, (state + action) % 3


def one_hot(state: Tensor) -> Tensor:
    return torch.nn.functional.one_hot(state, 3).float()


def test_a_priority_means_the_same_when_kept_and_after_use(
    make_learner: Make, *, memory: bool
) -> None:
    """While the weights stay, so does every priority, ends and borders of every kind included."""
    config = replace(CONFIG, minibatch_size=512, n_epochs=8, replay=replace(REPLAY, batches=8))
    replay = PrioritizedReplay(config.replay, generator())
    policy = make_policy(memory=memory)
    settings = settings_for(config).with_([LEARNING_RATE.to(0.0)])
    world = FakeWorld(8, endless, one_hot, time_limit=7)
    learner = make_learner(policy, config, generator(), replay)
    rollout = collect(world, policy, settings, torch.Generator().manual_seed(1), steps=16, chunk=8)
    assert rollout.terminated.any()
    assert rollout.truncated.any()
    revalued: list[Weights] = []
    kept: list[Weights] = []
    revalue = replay.revalue

    def note(places: Indices, priorities: Weights) -> None:
        kept.append(replay._priorities[places].copy())
        revalued.append(priorities)
        revalue(places, priorities)

    replay.revalue = note  # type: ignore[method-assign]  # listens in and passes on
    learner.update(rollout, settings)
    assert len(revalued) == 1 + 8
    for before, after in zip(kept[1:], revalued[1:], strict=True):
        np.testing.assert_allclose(after, before, rtol=1e-4, atol=1e-5)


def test_a_replay_without_weight_changes_nothing(make_learner: Make) -> None:
    settings = settings_for(CONFIG).with_([REPLAY_WEIGHT.to(0.0)])
    with_replay = updated(make_learner, CONFIG, settings, PrioritizedReplay(REPLAY, generator()))
    without = updated(make_learner, CONFIG, settings, None)
    for name, tensor in weights(with_replay).items():
        assert torch.equal(tensor, without.state_dict()[name]), name


def test_a_replay_with_weight_changes_the_step(make_learner: Make) -> None:
    settings = settings_for(CONFIG)
    with_replay = updated(make_learner, CONFIG, settings, PrioritizedReplay(REPLAY, generator()))
    without = updated(make_learner, CONFIG, settings, None)
    assert not torch.equal(
        with_replay.state_dict()["first.weight"], without.state_dict()["first.weight"]
    )


def test_replay_for_the_values_only_leaves_the_policys_head_alone() -> None:
    config = replace(CONFIG, n_epochs=1, minibatch_size=64, max_grad_norm=0)
    settings = settings_for(config).with_([REPLAY_POLICY_WEIGHT.to(0.0)])
    moments = []
    for replay in (SetReplay(drawn_sample(4, memory=False)), None):
        learner = VTrace(make_policy(), config, generator(), replay)
        learner.update(random_rollout(1), settings)
        moments.append(learner.state_dict()["optimizer"]["exp_avg"])
    torch.testing.assert_close(moments[0]["logits.weight"], moments[1]["logits.weight"])
    assert not torch.allclose(moments[0]["worth.weight"], moments[1]["worth.weight"])


def garbled(rollout: Rollout) -> Rollout:
    """Return the rollout with nonsense wherever the policy did not choose or was not there."""
    forced, absent = rollout.forced & rollout.active, ~rollout.active
    return replace(
        rollout,
        action=torch.where(forced | absent, 1 - rollout.action, rollout.action),
        log_prob=rollout.log_prob.masked_fill(forced | absent, -torch.inf),
        reward=rollout.reward.masked_fill(absent, torch.nan),
    )


def test_forced_and_absent_steps_teach_nothing_when_replayed(
    make_learner: Make, *, memory: bool
) -> None:
    drawn = drawn_sample(4, memory=memory)
    assert (drawn.rollout.forced & drawn.rollout.active).any()
    results = []
    for rollout in (drawn.rollout, garbled(drawn.rollout)):
        policy = make_policy(memory=memory)
        replay = SetReplay(replace(drawn, rollout=rollout))
        learner = make_learner(policy, CONFIG, generator(), replay)
        metrics = learner.update(random_rollout(1, hidden=16 * memory), settings_for(CONFIG))
        assert metrics["fault/skipped_updates"] == 0
        results.append(weights(policy))
    for name, tensor in results[0].items():
        assert torch.equal(tensor, results[1][name]), name


def test_a_sample_with_nothing_to_learn_is_left_out(make_learner: Make) -> None:
    drawn = drawn_sample(4, memory=False)
    rollout = replace(drawn.rollout, forced=torch.ones_like(drawn.rollout.forced))
    replay = SetReplay(replace(drawn, rollout=rollout))
    metrics = make_learner(make_policy(), CONFIG, generator(), replay).update(
        random_rollout(1), settings_for(CONFIG)
    )
    assert "replay/value_loss" not in metrics
    assert replay.revalued is not None
    assert not replay.revalued.any()


def test_rewards_of_the_past_are_seen_on_the_present_scale(make_learner: Make) -> None:
    config = replace(CONFIG, reward_clip=0.1)
    priorities: list[list[float]] = []
    for scale in (1.0, 1000.0):
        drawn = drawn_sample(4, memory=False)
        reward = drawn.rollout.reward.sign() * scale
        replay = SetReplay(replace(drawn, rollout=replace(drawn.rollout, reward=reward)))
        make_learner(make_policy(), config, generator(), replay).update(
            random_rollout(1), settings_for(config)
        )
        assert replay.revalued is not None
        priorities.append(replay.revalued.tolist())
    assert priorities[0] == priorities[1]


def test_a_saved_learner_and_its_replay_continue_bit_for_bit(
    make_learner: Make, *, memory: bool
) -> None:
    settings = settings_for(CONFIG)

    def made(seed: int) -> tuple[AnyLearner, PrioritizedReplay]:
        replay = PrioritizedReplay(replace(REPLAY, interval=2), generator(seed))
        return make_learner(
            make_policy(seed=seed, memory=memory), CONFIG, generator(seed), replay
        ), replay

    def lesson(seed: int) -> Rollout:
        return random_rollout(seed, hidden=16 * memory)

    first, first_replay = made(1)
    for seed in range(5):
        first.update(lesson(seed), settings)
    second, second_replay = made(2)
    second.load_state_dict(first.state_dict())
    second_replay.load_state_dict(first_replay.state_dict())
    for seed in range(5, 9):
        assert first.update(lesson(seed), settings) == second.update(lesson(seed), settings)
    assert torch.equal(
        first.policy.state_dict()["first.weight"], second.policy.state_dict()["first.weight"]
    )


@pytest.mark.parametrize(("interval", "updates"), [(3, 7), (1, 4)])
def test_a_learner_pushes_every_rollout_and_samples_every_interval(
    make_learner: Make, interval: int, updates: int
) -> None:
    """Row 39 of the checklist: pushes = U T N, samples = ceil(U / interval)."""
    config = replace(CONFIG, replay=replace(REPLAY, interval=interval))
    learner = make_learner(
        make_policy(), config, generator(), PrioritizedReplay(config.replay, generator())
    )
    metrics: Metrics = {}
    sampled = []
    for seed in range(updates):
        metrics = learner.update(random_rollout(seed), settings_for(config))
        sampled.append("replay/value_loss" in metrics)
    assert metrics["replay/pushed_total"] == updates * 16 * 4
    assert metrics["replay/samples_total"] == -(-updates // interval)
    assert sampled == [update % interval == 0 for update in range(updates)]


def test_every_metric_is_declared_and_finite(make_learner: Make) -> None:
    learner = make_learner(
        make_policy(), CONFIG, generator(), PrioritizedReplay(REPLAY, generator())
    )
    metrics = learner.update(random_rollout(0), settings_for(CONFIG))
    declared = {metric.name for metric in METRICS}
    replayed = {name for name in declared if name.startswith("replay/")}
    assert {name for name in metrics if not name.startswith("policy/")} <= declared
    assert replayed <= metrics.keys()
    assert all(np.isfinite(value) for value in metrics.values())


def test_a_bandit_is_solved_with_a_replay(make_learner: Make) -> None:
    def react(state: Tensor, action: Tensor, age: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return (action == 1).float(), torch.ones_like(action, dtype=torch.bool), state

    config = PPOConfig(learning_rate=0.02, n_epochs=2, minibatch_size=128, gamma=0.9, replay=REPLAY)
    settings = settings_for(config).with_([VF_COEF.to(0.5)])
    policy, world = make_policy(), FakeWorld(16, react, one_hot)
    learner = make_learner(policy, config, generator(), PrioritizedReplay(REPLAY, generator()))
    draws = torch.Generator().manual_seed(4)
    for _ in range(40):
        learner.update(collect(world, policy, settings, draws, steps=16, chunk=8), settings)
    hidden = policy._hidden({"x": one_hot(torch.zeros(1, dtype=torch.int64))}, {})
    assert policy.logits(hidden).softmax(-1)[0, 1] > 0.9
    assert policy.worth(hidden).item() == pytest.approx(1.0, abs=0.2)

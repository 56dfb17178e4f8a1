from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch.nn import functional as F

from longhaul.core.rollout import unfold_chunks
from longhaul.learn.config import PPOConfig
from longhaul.learn.ppo import PPO
from longhaul.learn.returns import Trajectory, gae
from tests.learn.fakes import generator, make_policy, random_rollout, settings_for


@pytest.mark.parametrize("clip_range_vf", [0.0, 0.3])
def test_one_step_is_that_of_the_plain_formula_and_torchs_optimizer(clip_range_vf: float) -> None:
    config = PPOConfig(
        n_epochs=1, minibatch_size=64, ent_coef=0.02, clip_range_vf=clip_range_vf, weight_decay=0.1
    )
    rollout = random_rollout(3, chunk=16)
    everywhere = torch.ones_like(rollout.active)
    rollout = replace(rollout, active=everywhere, forced=~everywhere)
    ours, theirs = make_policy(), make_policy()
    metrics = PPO(ours, config, generator()).update(rollout, settings_for(config))

    trajectory = Trajectory.of(rollout, rollout.reward)
    advantages = gae(trajectory, rollout.value, gamma=0.99, gae_lambda=0.95)
    advantage = advantages.advantage
    advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
    evaluated = theirs.evaluate_actions(rollout.sequences(), settings_for(config))
    ratio = torch.exp(evaluated.log_prob - rollout.log_prob)
    policy_loss = -torch.min(advantage * ratio, advantage * torch.clamp(ratio, 0.8, 1.2)).mean()
    value = evaluated.value
    if clip_range_vf:
        value = rollout.value + torch.clamp(value - rollout.value, -clip_range_vf, clip_range_vf)
    loss = (
        policy_loss - 0.02 * evaluated.entropy.mean() + 0.5 * F.mse_loss(advantages.target, value)
    )
    optimizer = torch.optim.AdamW(theirs.parameters(), lr=3e-4, eps=1e-5, weight_decay=0.1)
    loss.backward()
    norm = torch.nn.utils.clip_grad_norm_(theirs.parameters(), 0.5)
    optimizer.step()

    assert metrics["train/loss"] == pytest.approx(loss.item(), abs=1e-5)
    assert metrics["train/grad_norm"] == pytest.approx(norm.item(), abs=1e-4)
    for name, tensor in ours.named_parameters():
        torch.testing.assert_close(tensor, theirs.get_parameter(name), rtol=1e-4, atol=2e-6)


def test_epochs_stop_once_the_policy_has_moved_too_far() -> None:
    config = PPOConfig(n_epochs=50, minibatch_size=16, learning_rate=0.05, target_kl=0.01)
    rollout = random_rollout(0)
    policy = make_policy()
    with torch.no_grad():
        evaluated = policy.evaluate_actions(rollout.sequences(), settings_for(config))
    rollout = replace(rollout, log_prob=unfold_chunks(evaluated.log_prob, 16))
    learner = PPO(policy, config, generator())
    metrics = learner.update(rollout, settings_for(config))
    assert 1 <= metrics["train/epochs_run"] < 50
    assert metrics["train/approx_kl"] > 0.001
    assert metrics["train/n_updates"] >= 1


def test_epochs_run_is_absent_when_nothing_stopped_them() -> None:
    config = PPOConfig()
    metrics = PPO(make_policy(), config, generator()).update(
        random_rollout(0), settings_for(config)
    )
    assert "train/epochs_run" not in metrics
    assert metrics["train/clip_range"] == 0.2


def test_whole_sequences_and_single_steps_give_a_plain_policy_the_same_gradient() -> None:
    results = []
    for chunk in (16, 4):
        config = PPOConfig(n_epochs=1, minibatch_size=64)
        policy = make_policy()
        rollout = replace(random_rollout(1, chunk=8), chunk=chunk)
        PPO(policy, config, generator()).update(rollout, settings_for(config))
        results.append(policy.first.weight.detach())
    torch.testing.assert_close(*results)

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from longhaul.core.rollout import unfold_chunks
from longhaul.learn.config import VTraceConfig
from longhaul.learn.returns import Trajectory, vtrace
from longhaul.learn.vtrace import VTrace
from tests.learn.fakes import generator, make_policy, random_rollout, settings_for


@pytest.mark.parametrize("memory", [False, True])
def test_one_step_is_that_of_the_plain_formula_and_torchs_optimizer(*, memory: bool) -> None:
    config = VTraceConfig(n_epochs=1, minibatch_size=64, normalize_advantage=False, ent_coef=0.02)
    settings = settings_for(config)
    rollout = random_rollout(4, hidden=16 * memory)
    assert len(rollout.truncations.row) > 0
    ours, theirs = make_policy(memory=memory), make_policy(memory=memory)
    metrics = VTrace(ours, config, generator()).update(rollout, settings)

    evaluated = theirs.evaluate_actions(rollout.sequences(), settings)
    log_prob, value, entropy = (
        unfold_chunks(x, 16) for x in (evaluated.log_prob, evaluated.value, evaluated.entropy)
    )
    chosen = rollout.trainable
    with torch.no_grad():
        cuts, last = rollout.truncations, rollout.last
        trajectory = Trajectory.of(
            rollout,
            rollout.reward,
            truncation_value=theirs.value(cuts.obs, cuts.memory, settings),
            last_value=theirs.value(last.obs, last.memory, settings),
        )
        log_ratio = torch.where(chosen, log_prob - rollout.log_prob, 0.0)
        traced = vtrace(trajectory, value, log_ratio, gamma=0.99, vtrace_lambda=1.0)
    loss = (
        -(traced.rho * traced.advantage * log_prob)[chosen].mean()
        - 0.02 * entropy[chosen].mean()
        + 0.5 * (value - traced.target)[chosen].square().mean()
    )
    optimizer = torch.optim.AdamW(theirs.parameters(), lr=3e-4, eps=1e-5, weight_decay=0.0)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(theirs.parameters(), 0.5)
    optimizer.step()

    assert metrics["train/loss"] == pytest.approx(loss.item(), abs=1e-5)
    for name, tensor in ours.named_parameters():
        torch.testing.assert_close(tensor, theirs.get_parameter(name), rtol=1e-4, atol=2e-6)


def test_on_policy_importance_weights_are_one() -> None:
    config = VTraceConfig(n_epochs=1, minibatch_size=64)
    policy = make_policy()
    rollout = random_rollout(0)
    with torch.no_grad():
        evaluated = policy.evaluate_actions(rollout.sequences(), settings_for(config))
    rollout = replace(rollout, log_prob=unfold_chunks(evaluated.log_prob, 16))
    metrics = VTrace(policy, config, generator()).update(rollout, settings_for(config))
    assert metrics["train/vtrace_rho_mean"] == pytest.approx(1.0, abs=1e-5)
    assert metrics["train/approx_kl"] == pytest.approx(0.0, abs=1e-6)


def test_off_policy_importance_weights_are_reported() -> None:
    config = VTraceConfig(n_epochs=1, minibatch_size=64)
    rollout = random_rollout(0)
    rollout = replace(rollout, log_prob=torch.full_like(rollout.log_prob, -5.0))
    metrics = VTrace(make_policy(), config, generator()).update(rollout, settings_for(config))
    assert metrics["train/vtrace_rho_clip_fraction"] == 1.0
    assert metrics["train/vtrace_rho_mean"] == 1.0

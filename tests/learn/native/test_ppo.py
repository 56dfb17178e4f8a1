"""Native updates are torch's, up to rounding."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from longhaul.core.rollout import Rollout
from longhaul.core.settings import Settings
from longhaul.learn.config import PPOConfig
from longhaul.learn.native.network import KINDS, NativeNetwork
from longhaul.learn.native.ppo import NativePPO
from longhaul.learn.ppo import PPO
from tests.learn.fakes import settings_for
from tests.learn.native.cases import CASES, Case
from tests.learn.test_learners import assert_bit_equal

CONFIG = PPOConfig(
    learning_rate=1e-3, n_epochs=2, minibatch_size=50, ent_coef=0.01, weight_decay=0.01
)
OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "value-clip": {"clip_range_vf": 0.2},
    "target-kl": {"target_kl": 0.05, "learning_rate": 1e-2},
    "accumulate": {"accumulate": 3},
    "no-clipping": {"max_grad_norm": 0.0},
}
SEPARATE = CASES["separate"]


def make(kind: type[PPO], case: Case, config: PPOConfig, *, weights: int = 0) -> PPO:
    return kind(case.build(weights), config, np.random.default_rng(5))


def network_of(learner: PPO) -> NativeNetwork:
    assert isinstance(learner, NativePPO)
    return learner.network


def both(case: Case, config: PPOConfig) -> tuple[PPO, PPO, Settings]:
    """Return torch's learner and the native one, with the same weights and generator."""
    return make(PPO, case, config), make(NativePPO, case, config), settings_for(config)


def largest_difference(torchs: PPO, native: PPO) -> float:
    """Return the largest difference of a weight, as a share of its tensor's largest weight."""
    found, expected = native.policy.state_dict(), torchs.policy.state_dict()
    return max(
        float((found[name] - tensor).abs().max() / tensor.abs().max().clamp(min=1e-3))
        for name, tensor in expected.items()
    )


@pytest.mark.parametrize("option", OPTIONS)
@pytest.mark.parametrize("name", CASES)
def test_updates_are_torchs_up_to_rounding(name: str, option: str) -> None:
    case, config = CASES[name], replace(CONFIG, **OPTIONS[option])
    torchs, native, settings = both(case, config)
    for seed in range(2):
        rollout = case.rollout(torchs.policy, settings, seed=seed)
        expected, found = torchs.update(rollout, settings), native.update(rollout, settings)
        assert found.keys() == expected.keys()
        for metric, value in expected.items():
            assert found[metric] == pytest.approx(value, rel=2e-3, abs=2e-5), metric
    # More than 16 steps; each rounds, and AdamW's first ones follow the signs of tiny gradients.
    assert torchs.state_dict()["updates"] == native.state_dict()["updates"]
    assert largest_difference(torchs, native) < 3e-4


@pytest.mark.parametrize("name", CASES)
def test_a_gradient_is_torchs(name: str) -> None:
    case = CASES[name]
    config = replace(CONFIG, n_epochs=1, minibatch_size=10_000, learning_rate=1e-9)
    torchs, native, settings = both(case, config)
    rollout = case.rollout(torchs.policy, settings, seed=3)
    grads = _gradients(torchs, rollout, settings)
    expected = torchs.update(rollout, settings)
    found = native.update(rollout, settings)
    network = network_of(native)
    gradient = {parameter: torch.zeros_like(truth) for parameter, truth in grads.items()}
    network.write("gradient", gradient)
    for parameter, truth in grads.items():
        error = (gradient[parameter] - truth).abs().max()
        assert error <= 1e-5 * truth.abs().max().clamp(min=1e-4), parameter
    # The norm would show what has no parameter: the padding.
    assert found["train/grad_norm"] == pytest.approx(expected["train/grad_norm"], rel=1e-6)
    for kind in KINDS:
        assert not network.flat[KINDS.index(kind)][network.padding()].any(), kind


def _gradients(learner: PPO, rollout: Rollout, settings: Settings) -> dict[str, torch.Tensor]:
    """Return torch's gradient of the whole rollout's loss."""
    batches = learner.prepare(rollout, rollout.reward, settings)
    items = np.flatnonzero(batches.counts)
    learner.learn_minibatch(batches.take(items), settings, share=1.0)
    named = learner.policy.named_parameters()
    grads = {name: p.grad.clone() for name, p in named if p.grad is not None}
    learner.optimizer.begin(1e-9)
    learner.fits = []
    return grads


def test_a_saved_learner_continues_bit_for_bit() -> None:
    config = replace(CONFIG, n_epochs=3)
    settings = settings_for(config)
    first = make(NativePPO, SEPARATE, config)
    rollouts = [SEPARATE.rollout(first.policy, settings, seed=seed) for seed in range(4)]
    for rollout in rollouts[:2]:
        first.update(rollout, settings)
    second = make(NativePPO, SEPARATE, config, weights=9)
    second.load_state_dict(first.state_dict())
    for rollout in rollouts[2:]:
        assert first.update(rollout, settings) == second.update(rollout, settings)
    assert_bit_equal(first.state_dict(), second.state_dict())


def test_an_update_that_overflows_leaves_nothing_behind() -> None:
    config = replace(CONFIG, max_bad_updates=1, max_bad_rollouts=100)
    learner, fresh = make(NativePPO, SEPARATE, config), make(NativePPO, SEPARATE, config)
    settings = settings_for(config)
    rollout = SEPARATE.rollout(learner.policy, settings, seed=0)
    overflowing = settings_for(replace(config, learning_rate=1e38))
    assert learner.update(rollout, overflowing)["fault/rollbacks"] == 1.0
    fresh.load_state_dict(learner.state_dict())
    assert learner.update(rollout, settings) == fresh.update(rollout, settings)
    assert_bit_equal(learner.state_dict(), fresh.state_dict())


def test_a_step_that_is_not_finite_is_skipped_and_named_as_in_torch() -> None:
    config = replace(CONFIG, normalize_advantage=False, max_bad_updates=50)
    torchs, native, settings = both(SEPARATE, config)
    rollout = SEPARATE.rollout(torchs.policy, settings, seed=1)
    rollout.log_prob[3, 2] = -200.0  # a ratio beyond float32, in one minibatch of each epoch
    rollout.forced[3, 2], rollout.active[3, 2] = False, True
    expected, found = torchs.update(rollout, settings), native.update(rollout, settings)
    assert expected["fault/skipped_updates"] == 2.0
    assert found["fault/skipped_updates"] == 2.0
    assert native.state_dict()["guard"] == torchs.state_dict()["guard"]
    assert found["train/n_updates"] == expected["train/n_updates"]
    assert found["train/value_loss"] == pytest.approx(expected["train/value_loss"], rel=1e-3)
    assert largest_difference(torchs, native) < 3e-4


def test_samples_that_do_not_fit_are_refused_before_anything_is_computed() -> None:
    settings = settings_for(CONFIG)
    native = make(NativePPO, SEPARATE, CONFIG)
    good = SEPARATE.rollout(native.policy, settings, seed=0)
    foreign = Case(SEPARATE.action, SEPARATE.policy, inputs=6)
    wide = foreign.rollout(foreign.build(), settings, seed=0)
    bad_action = good.action.clone()
    bad_action[0, 0] = 3
    for rollout, match in (
        (wide, "observations are"),
        (replace(good, action=bad_action), "not among the choices"),
        (replace(good, mask=torch.ones(37, 11, 5, dtype=torch.bool)), "mask are"),
    ):
        before = native.state_dict()
        with pytest.raises(ValueError, match=match):
            native.update(rollout, settings)
        assert_bit_equal(native.state_dict()["policy"], before["policy"])

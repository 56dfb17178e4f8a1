"""Image networks that compute in bfloat16 are those of float32, but for rounding."""

from __future__ import annotations

import dataclasses

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from longhaul.core.policy import ActionEvaluation
from longhaul.core.spaces import EnvSpec
from longhaul.nets.actor_critic import ActorCritic, build_policy
from longhaul.nets.cnn import ImageNetwork
from longhaul.nets.config import ImagePrecision, PolicyConfig, TrunkKind
from longhaul.nets.encoder import processor_has_halves
from tests.nets.rolling import ACTIONS, MIXED, SETTINGS, Rolled, roll

TRUNKS: tuple[TrunkKind, ...] = ("nature", "impala", "lean")
SMALL = PolicyConfig(hidden=(16,), image_features=24, activation="relu")
SPEC = EnvSpec("fake", MIXED, ACTIONS["categorical"], has_masks=True)
ROUNDING = 0.02
"""Three digits are left of a product, and a few of them are added up."""


def make(trunk: TrunkKind, precision: ImagePrecision) -> ActorCritic:
    """Return a policy with the same weights for every precision."""
    torch.manual_seed(3)
    config = dataclasses.replace(SMALL, trunk=trunk, image_precision=precision)
    policy = build_policy(SPEC, config)
    with torch.no_grad():
        # Small heads would hide any difference.
        policy.policy_head.layer.weight.mul_(30.0)
    return policy


def assert_alike(evaluated: ActionEvaluation, rolled: Rolled) -> None:
    """Hold what was judged to what was recorded, but for rounding."""
    torch.testing.assert_close(evaluated.log_prob, rolled.log_prob, atol=ROUNDING, rtol=ROUNDING)
    torch.testing.assert_close(evaluated.value, rolled.value, atol=ROUNDING, rtol=ROUNDING)


def gradients(policy: ActorCritic, rolled: Rolled) -> dict[str, Tensor]:
    policy.zero_grad()
    evaluated = policy.evaluate_actions(rolled.sequences, SETTINGS)
    (evaluated.log_prob.sum() + evaluated.value.square().sum()).backward()
    return {
        name: parameter.grad
        for name, parameter in policy.named_parameters()
        if parameter.grad is not None
    }


@pytest.mark.parametrize("trunk", TRUNKS)
def test_halves_see_what_floats_see(trunk: TrunkKind) -> None:
    rolled = roll(make(trunk, "float32"), SPEC, steps=5, rows=4, seed=1)
    evaluated = make(trunk, "bfloat16").evaluate_actions(rolled.sequences, SETTINGS)
    assert evaluated.log_prob.dtype == evaluated.value.dtype == torch.float32
    assert not torch.equal(evaluated.value, rolled.value), "nothing was rounded"
    assert_alike(evaluated, rolled)


@pytest.mark.parametrize("trunk", TRUNKS)
def test_halves_learn_in_the_direction_of_floats(trunk: TrunkKind) -> None:
    exact = make(trunk, "float32")
    rolled = roll(exact, SPEC, steps=5, rows=4, seed=1)
    expected = gradients(exact, rolled)
    found = gradients(make(trunk, "bfloat16"), rolled)
    assert found.keys() == expected.keys()
    for name, gradient in found.items():
        assert gradient.dtype == torch.float32
        likeness = F.cosine_similarity(gradient.flatten(), expected[name].flatten(), dim=0)
        assert likeness > 0.99, name


@pytest.mark.parametrize("trunk", TRUNKS)
def test_judging_repeats_acting_in_halves(trunk: TrunkKind) -> None:
    policy = make(trunk, "bfloat16")
    rolled = roll(policy, SPEC, steps=5, rows=4, seed=2)
    evaluated = policy.evaluate_actions(rolled.sequences, SETTINGS)
    assert_alike(evaluated, rolled)


@pytest.mark.parametrize("trunk", TRUNKS)
def test_learning_in_halves_is_repeatable_bit_by_bit(trunk: TrunkKind) -> None:
    policy = make(trunk, "bfloat16")
    rolled = roll(policy, SPEC, steps=5, rows=4, seed=2)
    first = {name: gradient.clone() for name, gradient in gradients(policy, rolled).items()}
    again = gradients(policy, rolled)
    assert all(torch.equal(first[name], again[name]) for name in first)


def test_weights_are_saved_alike_whatever_computes_with_them() -> None:
    halves, floats = make("lean", "bfloat16"), make("lean", "float32")
    assert {part.dtype for part in halves.state_dict().values()} == {torch.float32}
    floats.load_state_dict(halves.state_dict())
    halves.load_state_dict(floats.state_dict())


def test_auto_leaves_the_precision_to_the_processor() -> None:
    rolled = roll(make("lean", "float32"), SPEC, steps=2, rows=4, seed=1)
    chosen: ImagePrecision = "bfloat16" if processor_has_halves() else "float32"
    expected = make("lean", chosen).evaluate_actions(rolled.sequences, SETTINGS)
    found = make("lean", "auto").evaluate_actions(rolled.sequences, SETTINGS)
    assert torch.equal(found.value, expected.value)


@pytest.mark.parametrize("trunk", TRUNKS)
def test_what_other_threads_do_to_the_cache_of_halves_changes_no_gradient(
    trunk: TrunkKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The threads of a process share one cache of weights in halves, and each empties it when it
    # has acted: a collector that overlaps with learning does so between two pieces of a minibatch.
    policy = make(trunk, "bfloat16")
    rolled = roll(policy, SPEC, steps=9, rows=4, seed=1)
    for network in policy.modules():
        if isinstance(network, ImageNetwork):
            monkeypatch.setattr(network, "rows_at_once", 8)
    alone = gradients(policy, rolled)
    convolutions = [module for module in policy.modules() if isinstance(module, nn.Conv2d)]
    for module in convolutions:
        module.register_forward_pre_hook(lambda *_: torch.clear_autocast_cache())
    beside = gradients(policy, rolled)
    assert all(torch.equal(alone[name], beside[name]) for name in alone)

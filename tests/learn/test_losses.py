from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from longhaul.learn.losses import (
    Loss,
    LossTerm,
    approximate_kl,
    clipped_surrogate,
    clipped_value_error,
    entropy_loss,
    explained_variance,
    normalized,
    value_error,
    vtrace_policy_gradient,
)


def numbers(seed: int, count: int = 64) -> Tensor:
    return torch.randn(count, generator=torch.Generator().manual_seed(seed))


def check(
    variable: Tensor, term: LossTerm, formula: Callable[[Tensor], Tensor], scale: float
) -> None:
    """Compare a term with autograd through the plain formula."""
    free = variable.clone().requires_grad_()
    loss = formula(free)
    (gradient,) = torch.autograd.grad(loss * scale, free)
    torch.testing.assert_close(term.losses.mean(), loss.detach())
    torch.testing.assert_close(term.gradient(scale), gradient)


@pytest.mark.parametrize("clip_range", [0.05, 0.2, 1.0])
def test_the_surrogate_and_its_gradient_are_those_of_stable_baselines(clip_range: float) -> None:
    log_prob, old, advantage = numbers(1) * 0.3, numbers(2) * 0.3, numbers(3)

    def formula(log_prob: Tensor) -> Tensor:
        ratio = torch.exp(log_prob - old)
        clipped = torch.clamp(ratio, 1 - clip_range, 1 + clip_range)
        return -torch.min(advantage * ratio, advantage * clipped).mean()

    ratio = torch.exp(log_prob - old)
    term, is_outside = clipped_surrogate(log_prob, ratio, advantage, clip_range=clip_range)
    check(log_prob, term, formula, 0.7)
    outside = torch.mean((torch.abs(ratio - 1) > clip_range).float())
    torch.testing.assert_close(is_outside.float().mean(), outside)
    divergence = torch.mean((torch.exp(log_prob - old) - 1) - (log_prob - old))
    torch.testing.assert_close(approximate_kl(ratio, log_prob - old).mean(), divergence)


def test_a_surrogate_of_two_steps_is_as_computed_by_hand() -> None:
    ratio = torch.tensor([1.5, 0.5])
    advantage = torch.tensor([2.0, 4.0])
    term, is_outside = clipped_surrogate(ratio.log(), ratio, advantage, clip_range=0.2)
    # min(3, 2.4) and min(2, 3.2); the first is clipped, so only the second pulls.
    assert term.losses.mean().item() == pytest.approx(-(2.4 + 2.0) / 2)
    assert term.gradient(1.0).tolist() == pytest.approx([0.0, -1.0])
    assert is_outside.all()


def test_the_value_error_and_its_gradient_follow_the_formula() -> None:
    target = numbers(2)
    term = value_error(numbers(1), target)
    check(numbers(1), term, lambda value: F.mse_loss(value, target), 0.5)


def test_the_clipped_value_error_and_its_gradient_follow_stable_baselines() -> None:
    target, old = numbers(2), numbers(3)

    def formula(value: Tensor) -> Tensor:
        return F.mse_loss(target, old + torch.clamp(value - old, -0.4, 0.4))

    term = clipped_value_error(numbers(1), target, old, clip_range_vf=0.4)
    check(numbers(1), term, formula, 0.5)


def test_the_entropy_bonus_and_its_gradient_follow_the_formula() -> None:
    check(numbers(1), entropy_loss(numbers(1)), lambda e: -e.mean(), 0.01)


def test_the_vtrace_policy_gradient_treats_its_weights_as_constants() -> None:
    rho, advantage = numbers(2).abs(), numbers(3)
    term = vtrace_policy_gradient(numbers(1), rho, advantage)
    check(numbers(1), term, lambda log_prob: -(rho * advantage * log_prob).mean(), 0.3)


def test_terms_record_nothing_for_autograd() -> None:
    output = numbers(1).requires_grad_()
    ratio = torch.exp(output.detach())
    surrogate, _ = clipped_surrogate(output, ratio, numbers(3), clip_range=0.2)
    for term in (surrogate, value_error(output, numbers(2))):
        assert not term.losses.requires_grad
        assert not term.gradient(1.0).requires_grad


def test_a_loss_has_the_gradient_of_its_weighted_terms() -> None:
    value, target = numbers(1).requires_grad_(), numbers(2)
    entropy = numbers(3).requires_grad_()
    (0.5 * value_error(value, target) + 0.01 * entropy_loss(entropy)).backward(share=0.25)
    free = value.detach().clone().requires_grad_()
    (0.25 * 0.5 * F.mse_loss(free, target)).backward()
    torch.testing.assert_close(value.grad, free.grad)
    torch.testing.assert_close(entropy.grad, torch.full((64,), -0.25 * 0.01 / 64))


def test_a_term_may_leave_its_gradient_to_autograd() -> None:
    value, target = numbers(1).requires_grad_(), numbers(2)
    (2.0 * LossTerm.of("train/own", F.mse_loss(value, target)) + Loss()).backward()
    torch.testing.assert_close(value.grad, value_error(value, target).gradient(2.0))


def test_explained_variance_is_one_for_perfect_and_zero_for_constant_values() -> None:
    target = numbers(1)
    assert explained_variance(target, target) == 1.0
    assert explained_variance(torch.zeros_like(target), target) == pytest.approx(0.0)


def test_explained_variance_of_constant_targets_does_not_exist() -> None:
    assert explained_variance(numbers(1), torch.ones(64)) is None
    assert explained_variance(torch.ones(1), torch.ones(1)) is None


def test_normalized_advantages_have_mean_zero_and_deviation_one() -> None:
    result = normalized(numbers(1) * 5 + 3)
    assert result.mean().item() == pytest.approx(0.0, abs=1e-6)
    assert result.std().item() == pytest.approx(1.0, abs=1e-5)


def test_a_single_advantage_is_left_as_it_is() -> None:
    assert normalized(torch.tensor([3.0])).item() == 3.0

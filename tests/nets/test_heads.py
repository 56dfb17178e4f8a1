"""Heads against torch.distributions."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.distributions import Categorical, Independent, Normal

from longhaul.nets import heads
from longhaul.nets.heads import CategoricalHead, GaussianHead, MultiDiscreteHead


def assert_same_gradients(ours: Tensor, theirs: Tensor, wanted: list[Tensor]) -> None:
    one = torch.autograd.grad(ours, wanted)
    two = torch.autograd.grad(theirs, wanted)
    for found, expected in zip(one, two, strict=True):
        torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)


@settings(max_examples=40)
@given(seed=st.integers(0, 2**31), count=st.integers(1, 9), scale=st.floats(0.01, 30.0))
def test_log_probability_and_entropy_equal_torch(seed: int, count: int, scale: float) -> None:
    source = torch.Generator().manual_seed(seed)
    logits = (torch.randn(6, count, generator=source) * scale).requires_grad_()
    choice = torch.randint(0, count, (6,), generator=source)
    weight = torch.randn(6, generator=source)
    expected = Categorical(logits=logits)
    log_prob, entropy = heads.evaluate_choice(logits, choice)
    torch.testing.assert_close(log_prob, expected.log_prob(choice), atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(entropy, expected.entropy(), atol=1e-5, rtol=1e-5)
    assert_same_gradients(
        (log_prob * weight + entropy).sum(),
        (expected.log_prob(choice) * weight + expected.entropy()).sum(),
        [logits],
    )


@settings(max_examples=40)
@given(seed=st.integers(0, 2**31), count=st.integers(2, 9))
def test_masks_leave_a_distribution_over_the_allowed(seed: int, count: int) -> None:
    source = torch.Generator().manual_seed(seed)
    logits = torch.randn(1, count, generator=source).requires_grad_()
    mask = torch.rand(1, count, generator=source) < 0.5
    mask[0, seed % count] = True
    masked = heads.masked_logits(logits, mask)
    choice, log_prob = heads.choose(masked, heads.uniform_like(masked, source))
    assert mask[0, choice]
    allowed = Categorical(logits=logits[mask])
    torch.testing.assert_close(log_prob[0], allowed.log_prob(mask[0, :choice].sum()))
    evaluated, entropy = heads.evaluate_choice(masked, choice)
    torch.testing.assert_close(evaluated, log_prob)
    torch.testing.assert_close(entropy[0], allowed.entropy())
    (grad,) = torch.autograd.grad(evaluated.sum() + entropy.sum(), logits)
    assert torch.isfinite(grad).all()
    assert not grad[~mask].any()


def test_a_forbidden_choice_never_wins_whatever_is_drawn() -> None:
    logits = torch.tensor([[50.0, -200.0, 80.0]])
    masked = heads.masked_logits(logits, torch.tensor([[False, True, False]]))
    for low in (1e-30, 0.5, 1.0 - 2.0**-24):
        for high in (1e-30, 0.5, 1.0 - 2.0**-24):
            choice, log_prob = heads.choose(masked, torch.tensor([[high, low, high]]))
            assert choice.item() == 1
            assert log_prob.item() == 0.0


def test_a_row_that_allows_nothing_is_uniform_and_teaches_nothing() -> None:
    logits = torch.randn(2, 4).requires_grad_()
    masked = heads.masked_logits(logits, torch.zeros(2, 4, dtype=torch.bool))
    log_prob, entropy = heads.evaluate_choice(masked, torch.tensor([1, 3]))
    torch.testing.assert_close(log_prob.exp(), torch.full((2,), 0.25))
    torch.testing.assert_close(entropy.exp(), torch.full((2,), 4.0))
    (grad,) = torch.autograd.grad(log_prob.sum() + entropy.sum(), logits)
    assert not grad.any()


def test_choices_come_as_often_as_their_probability() -> None:
    source = torch.Generator().manual_seed(12)
    logits = torch.tensor([0.0, 1.0, -1.0, 2.0])
    rows = logits.expand(40_000, 4)
    choice, _ = heads.choose(rows, heads.uniform_like(rows, source))
    share = torch.bincount(choice, minlength=4) / 40_000
    torch.testing.assert_close(share, torch.softmax(logits, 0), atol=0.01, rtol=0.0)


@pytest.mark.parametrize("masked", [False, True])
def test_several_choices_equal_several_distributions(masked: bool) -> None:  # noqa: FBT001
    torch.manual_seed(1)
    head = MultiDiscreteHead(6, (3, 2, 4))
    with torch.no_grad():
        head.layer.weight.normal_()
    outputs = head.layer(torch.randn(20, 6)).detach().requires_grad_()
    mask = torch.rand(20, 9) < 0.6 if masked else None
    if mask is not None:
        # torch's own distribution is wrong by log(n) where nothing is allowed.
        mask[:, [0, 3, 5]] = True
    action, log_prob, _ = head.act(outputs, mask, torch.Generator().manual_seed(3))
    assert action.shape == (20, 3)
    parts = heads.masked_logits(outputs, mask).split((3, 2, 4), 1)
    expected = [Categorical(logits=part) for part in parts]
    total = sum(one.log_prob(action[:, index]) for index, one in enumerate(expected))
    torch.testing.assert_close(log_prob, total)
    evaluated, entropy, _ = head.evaluate_actions(outputs, action, mask)
    torch.testing.assert_close(evaluated, log_prob)
    torch.testing.assert_close(entropy, sum(one.entropy() for one in expected))


def test_continuous_actions_equal_a_normal_distribution() -> None:
    torch.manual_seed(2)
    head = GaussianHead(6, 3, initial_log_std=-0.5)
    with torch.no_grad():
        head.layer.weight.normal_()
        head.log_std.add_(torch.tensor([0.1, -0.3, 0.2]))
    outputs = head.layer(torch.randn(20, 6)).detach().requires_grad_()
    action, log_prob, _ = head.act(outputs, None, torch.Generator().manual_seed(3))
    expected = Independent(Normal(outputs, head.log_std.exp()), 1)
    torch.testing.assert_close(log_prob, expected.log_prob(action.detach()))
    evaluated, entropy, _ = head.evaluate_actions(outputs, action.detach(), None)
    torch.testing.assert_close(evaluated, log_prob, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(entropy, expected.entropy())
    assert_same_gradients(
        (evaluated + entropy).sum(),
        (expected.log_prob(action.detach()) + expected.entropy()).sum(),
        [outputs, head.log_std],
    )
    greedy, density, _ = head.act(outputs, None, None)
    torch.testing.assert_close(greedy, expected.mean)
    torch.testing.assert_close(density, expected.log_prob(expected.mean))


def test_a_fresh_policy_finds_all_choices_about_equally_likely() -> None:
    torch.manual_seed(3)
    logits = CategoricalHead(64, 6).layer(torch.randn(50, 64))
    assert torch.softmax(logits, 1).sub(1 / 6).abs().max() < 0.02

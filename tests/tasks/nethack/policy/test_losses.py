from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from longhaul.tasks.nethack.policy import health as losses
from longhaul.tasks.nethack.policy.layers import sparsemax

ROWS, EXPERTS, ACTIONS = 5, 4, 7
seeds = st.integers(0, 2**16)


def drawn(seed: int) -> tuple[Tensor, Tensor]:
    """Return weights [N, K], some of them zero, and logits of experts [N, K, A]."""
    generator = torch.Generator().manual_seed(seed)
    alpha = sparsemax(torch.randn(ROWS, EXPERTS, generator=generator, dtype=torch.float64))
    logits = torch.randn(ROWS, EXPERTS, ACTIONS, generator=generator, dtype=torch.float64)
    return alpha, logits


def cosine(logits: Tensor, row: int, one: int, other: int) -> float:
    a, b = logits[row, one].tolist(), logits[row, other].tolist()
    product = math.fsum(x * y for x, y in zip(a, b, strict=True))
    return product / (math.hypot(*a) * math.hypot(*b))


@settings(max_examples=25)
@given(seeds)
def test_the_losses_are_what_their_formulas_say(seed: int) -> None:
    alpha, logits = drawn(seed)
    weights = alpha.tolist()
    pairs = [(i, j) for i in range(EXPERTS) for j in range(EXPERTS) if i != j]
    entropy = [-sum(a * math.log(a + 1e-8) for a in row) for row in weights]
    use = [sum(row[k] for row in weights) / ROWS for k in range(EXPERTS)]
    similar = {(row, i, j): cosine(logits, row, i, j) for row in range(ROWS) for i, j in pairs}
    before_pairs = [(i, j) for i, j in pairs if i < j]
    expected = {
        "alpha entropy": sum(entropy) / ROWS,
        "load balance": sum((one - 1 / EXPERTS) ** 2 for one in use) / EXPERTS,
        "diversity": sum(
            sum(similar[row, i, j] for row in range(ROWS)) / ROWS for i, j in before_pairs
        )
        / len(before_pairs),
        "semantic": sum(
            sum(abs(similar[row, i, j]) for i, j in pairs) / EXPERTS**2 for row in range(ROWS)
        )
        / ROWS,
        "overlap": sum(
            sum(weights[row][i] * weights[row][j] * similar[row, i, j] for i, j in pairs)
            for row in range(ROWS)
        )
        / ROWS,
    }
    likeness = losses.similarity(logits)
    found = {
        "alpha entropy": losses.alpha_entropy(alpha),
        "load balance": losses.load_balance(alpha),
        "diversity": losses.diversity(likeness),
        "semantic": losses.semantic(likeness),
        "overlap": losses.overlap(alpha, likeness),
    }
    for name, value in expected.items():
        assert float(found[name]) == pytest.approx(value, abs=1e-9), name


@settings(max_examples=25)
@given(seeds)
def test_the_temporal_loss_compares_only_steps_of_one_episode(seed: int) -> None:
    alpha, _ = drawn(seed)
    before, _ = drawn(seed + 1)
    continued = torch.tensor([True, False, True, True, False])
    kept = [0, 2, 3]
    expected = sum(
        (float(alpha[row, k]) - float(before[row, k])) ** 2 for row in kept for k in range(EXPERTS)
    ) / (len(kept) * EXPERTS)
    found = losses.temporal(alpha, before, continued)
    assert float(found) == pytest.approx(expected, abs=1e-12)
    nobody = torch.zeros(ROWS, dtype=torch.bool)
    assert float(losses.temporal(alpha, before, nobody)) == 0.0


def test_equal_weights_are_balanced_and_of_greatest_entropy() -> None:
    even = torch.full((8, 4), 0.25)
    assert float(losses.load_balance(even)) == 0.0
    assert float(losses.alpha_entropy(even)) == pytest.approx(math.log(4), abs=1e-6)


def test_identical_experts_are_as_alike_as_can_be() -> None:
    similar = losses.similarity(torch.randn(8, 1, 23).expand(8, 4, 23))
    assert float(losses.diversity(similar)) == pytest.approx(1.0, abs=1e-6)
    assert float(losses.semantic(similar)) == pytest.approx(3 / 4, abs=1e-6)


def test_one_hot_weights_do_not_overlap() -> None:
    alpha = torch.eye(4)
    assert float(losses.overlap(alpha, torch.ones(4, 4, 4))) == 0.0


def test_alignment_is_zero_at_the_target_and_smaller_near_it() -> None:
    target = torch.tensor([[0.6, 0.2, 0.1, 0.1]])
    near = torch.tensor([[0.5, 0.3, 0.1, 0.1]])
    far = torch.tensor([[0.1, 0.1, 0.2, 0.6]])
    at, close, away = (
        float(losses.alignment(target, losses.floored_log(q))) for q in (target, near, far)
    )
    assert at == pytest.approx(0.0, abs=1e-6)
    assert at < close < away
    by_hand = (
        0.6 * math.log(0.6 / 0.1) + 0.2 * math.log(2) - 0.1 * math.log(2) + 0.1 * math.log(1 / 6)
    )
    assert away == pytest.approx(by_hand, abs=1e-6)


def test_weights_of_zero_count_as_a_hundred_millionth() -> None:
    target = torch.tensor([[0.5, 0.5]])
    found = losses.alignment(target, losses.floored_log(torch.tensor([[1.0, 0.0]])))
    assert float(found) == pytest.approx(0.5 * math.log(0.5) + 0.5 * math.log(0.5e8), rel=1e-6)


def test_scores_can_count_by_how_unusual_they_are() -> None:
    usual = torch.tensor([[0.9, 0.1], [0.9, 0.1], [0.8, 0.1], [0.9, 0.3]])
    relative = losses.unusual(usual)
    assert usual.argmax(1).tolist() == [0, 0, 0, 0]
    assert relative.argmax(1).tolist() == [0, 0, 1, 1]
    torch.testing.assert_close(relative.mean(0), torch.zeros(2), atol=1e-5, rtol=0)
    assert torch.equal(losses.unusual(usual[:1]), usual[:1])


def test_the_target_prefers_the_expert_whose_rules_score_best() -> None:
    scores = torch.tensor([[0.1, 0.3, 0.2, 0.0], [10.0, 30.0, 20.0, 0.0]])
    target = losses.alignment_target(scores, 1.0)
    assert target.argmax(1).tolist() == [1, 1]
    torch.testing.assert_close(target[0], target[1])
    deviation = math.sqrt(sum((one - 0.15) ** 2 for one in (0.1, 0.3, 0.2, 0.0)) / 4)
    odds = [math.exp((one - 0.15) / deviation) for one in (0.1, 0.3, 0.2, 0.0)]
    expected = torch.tensor([one / sum(odds) for one in odds])
    torch.testing.assert_close(target[0], expected, atol=1e-5, rtol=0)
    sharper = losses.alignment_target(scores, 0.3)
    assert float(sharper[0, 1]) > float(target[0, 1])

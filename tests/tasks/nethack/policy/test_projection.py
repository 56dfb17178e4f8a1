from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from longhaul.tasks.nethack.policy.health import alpha_entropy
from longhaul.tasks.nethack.policy.layers import best_few, route, sparsemax
from longhaul.tasks.nethack.policy.options import LEARNED, Learned


def bisected(row: Tensor) -> Tensor:
    """Return the projection on the simplex by looking for the threshold, not for the support."""
    low, high = float(row.min()) - 1.0, float(row.max())
    for _ in range(200):
        middle = (low + high) / 2
        if float((row - middle).clamp(min=0).sum()) > 1:
            low = middle
        else:
            high = middle
    return (row - high).clamp(min=0)


def closed_form(row: list[float]) -> list[float]:
    """Return the projection as the formula has it: k* = max{k: 1 + k z_k > sum of the k first}."""
    ordered = sorted(row, reverse=True)
    support = max(k for k in range(1, len(row) + 1) if 1 + k * ordered[k - 1] > sum(ordered[:k]))
    threshold = (sum(ordered[:support]) - 1) / support
    return [max(one - threshold, 0.0) for one in row]


rows_of_logits = st.integers(2, 6).flatmap(
    lambda size: st.lists(st.floats(-5, 5, width=32), min_size=size, max_size=size)
)


@settings(max_examples=100)
@given(rows_of_logits)
def test_sparsemax_is_the_nearest_point_of_the_simplex(row: list[float]) -> None:
    logits = torch.tensor([row], dtype=torch.float64)
    found = sparsemax(logits)[0]
    torch.testing.assert_close(found, bisected(logits[0]), atol=1e-9, rtol=0)
    torch.testing.assert_close(
        found, torch.tensor(closed_form(row), dtype=torch.float64), atol=1e-9, rtol=0
    )
    assert float(found.sum()) == pytest.approx(1.0, abs=1e-9)


def test_sparsemax_of_a_large_gap_is_one_hot() -> None:
    found = sparsemax(torch.tensor([[3.0, 0.0, 0.5, 1.9]]))
    assert found.tolist() == [[1.0, 0.0, 0.0, 0.0]]


def test_the_gradient_of_sparsemax_is_that_of_differences() -> None:
    torch.manual_seed(4)
    logits = torch.randn(16, 4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(sparsemax, (logits,), eps=1e-7, atol=1e-5)


def test_the_entropy_of_sparsemax_can_be_on_either_side_of_ln_2() -> None:
    near = alpha_entropy(sparsemax(torch.tensor([[0.1, 0.0, 0.05, 0.02]])))
    far = alpha_entropy(sparsemax(torch.tensor([[0.9, 0.0, 0.3, 0.1]])))
    assert float(far) < math.log(2) < float(near)


@pytest.mark.parametrize("kind", LEARNED)
@pytest.mark.parametrize("experts", [2, 4, 6])
def test_every_router_gives_weights_that_are_shares(kind: Learned, experts: int) -> None:
    weights = route(torch.randn(64, experts), kind, 0.7)
    assert float(weights.min()) >= 0
    torch.testing.assert_close(weights.sum(1), torch.ones(64))


@pytest.mark.parametrize("kind", LEARNED)
def test_a_lower_temperature_is_sharper(kind: Learned) -> None:
    logits = torch.tensor([[0.3, 0.1, 0.0, -0.2]])
    entropies = [float(alpha_entropy(route(logits, kind, t))) for t in (1.0, 0.5, 0.1)]
    assert entropies[0] > entropies[1] > entropies[2]


def test_the_best_few_are_the_better_half() -> None:
    found = best_few(torch.tensor([[0.0, 2.0, 1.0, -1.0]]))
    odds = math.exp(1.0)
    expected = torch.tensor([[0.0, odds / (1 + odds), 1 / (1 + odds), 0.0]])
    torch.testing.assert_close(found, expected)

"""Random numbers of rows that have generators of their own."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from longhaul.core.policy import Generators
from longhaul.nets.heads import normal_like, uniform_like


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


Draw = Callable[[Tensor, Generators], Tensor]


@pytest.mark.parametrize("drawn", [uniform_like, normal_like])
def test_a_share_draws_the_same_whoever_is_beside_it(drawn: Draw) -> None:
    together = drawn(torch.zeros(6, 5), [seeded(1), seeded(2), seeded(3)])
    for place, seed in enumerate((1, 2, 3)):
        alone = drawn(torch.zeros(2, 5), seeded(seed))
        assert torch.equal(together[2 * place : 2 * place + 2], alone)


def test_one_generator_serves_all_rows() -> None:
    assert torch.equal(
        uniform_like(torch.zeros(4, 3), seeded(5)), torch.rand(4, 3, generator=seeded(5))
    )

"""Several processes that learn from one rollout, each from its part of every minibatch."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from longhaul.learn.losses import normalized


class LearnerGroup:
    """The learners that share one run's minibatches and take the same steps; by itself, one."""

    @property
    def size(self) -> int:
        """Number of learners."""
        return 1

    def part(self, items: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return this learner's part of a minibatch, possibly empty; the parts add up to it."""
        return items

    def add_up(self, tensors: Sequence[Tensor]) -> None:
        """Replace every tensor by its sum over the group, bit-equal in all learners."""


SINGLE = LearnerGroup()


def normalized_by(group: LearnerGroup, advantage: Tensor) -> Tensor:
    """Return this part's advantages, normalized over the whole group's minibatch."""
    if group.size == 1:
        return normalized(advantage)
    exact = advantage.double()
    sums = torch.stack(
        [torch.tensor(float(advantage.numel()), dtype=torch.float64), exact.sum().cpu()]
    )
    group.add_up([sums])
    count, total = float(sums[0]), float(sums[1])
    if count < 2:
        return advantage
    mean = total / count
    # The second pass keeps the digits that a difference of squares would lose.
    squares = (exact - mean).square().sum().cpu()
    group.add_up([squares])
    deviation = float((squares / (count - 1)).sqrt())
    return (advantage - mean) / (deviation + 1e-8)


def mean_by(group: LearnerGroup, values: Tensor) -> float:
    """Return the mean over the whole group's values."""
    if group.size == 1:
        return float(values.mean())
    sums = torch.tensor([float(values.numel()), float(values.double().sum())], dtype=torch.float64)
    group.add_up([sums])
    return float(sums[1]) / max(float(sums[0]), 1.0)


def add_up_gradients(group: LearnerGroup, parameters: Sequence[nn.Parameter]) -> None:
    """Give every learner the gradient of the whole minibatch.

    A weight without a gradient in any learner keeps none, and the optimizer leaves it as it is.
    """
    if group.size == 1:
        return
    has = torch.tensor([float(p.grad is not None) for p in parameters])
    group.add_up([has])
    felt = [p for p, count in zip(parameters, has.tolist(), strict=True) if count]
    for parameter in felt:
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
    group.add_up([p.grad for p in felt if p.grad is not None])

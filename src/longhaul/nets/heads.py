"""Heads that turn the outputs of their layer into actions.

The layer itself is applied by the body, see `body.Outlets`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn

from longhaul.core.policy import Chance
from longhaul.core.spaces import ActionSpec, Continuous, Discrete, MultiDiscrete
from longhaul.nets import categorical
from longhaul.nets.chance import normal_like
from longhaul.nets.noisy import NoisyLinear, linear_layer

POLICY_GAIN = 0.01
"""Initial gain of a policy's last layer: all actions start about equally likely."""
VALUE_GAIN = 1.0


class Head(nn.Module, ABC):
    """A distribution over actions, given the outputs of its layer."""

    layer: nn.Linear | NoisyLinear

    @abstractmethod
    def act(
        self, outputs: Tensor, mask: Tensor | None, generator: Chance | None
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Return actions [N, ...], the likeliest without generator, and log-probabilities [N].

        The third value are the masked logits [N, choices]; None for continuous actions.
        """

    @abstractmethod
    def judge(self, outputs: Tensor, action: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return the log-probability [N] of recorded actions and the entropy [N]."""

    def metrics(self) -> dict[str, Tensor]:
        """Return scalars worth watching."""
        return {}


class CategoricalHead(Head):
    """One choice; actions are int64 [N]."""

    def __init__(self, inputs: int, count: int, *, noise_scale: float = 0.0) -> None:
        super().__init__()
        self.layer = linear_layer(inputs, count, gain=POLICY_GAIN, noise_scale=noise_scale)

    def logits(self, outputs: Tensor, mask: Tensor | None) -> Tensor:
        """Return [N, count], forbidden choices out of reach."""
        return categorical.apply_mask(outputs.float(), mask)

    def act(
        self, outputs: Tensor, mask: Tensor | None, generator: Chance | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return choices, their log-probability and the logits."""
        logits = self.logits(outputs, mask)
        uniform = None if generator is None else categorical.draw_uniform(logits, generator)
        return *categorical.choose(logits, uniform), logits

    def judge(self, outputs: Tensor, action: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return log-probability and entropy."""
        return categorical.judge(self.logits(outputs, mask), action)


class MultiDiscreteHead(Head):
    """Several independent choices; actions are int64 [N, len(counts)]."""

    def __init__(self, inputs: int, counts: tuple[int, ...], *, noise_scale: float = 0.0) -> None:
        super().__init__()
        self.counts = counts
        self.layer = linear_layer(inputs, sum(counts), gain=POLICY_GAIN, noise_scale=noise_scale)

    def logits(self, outputs: Tensor, mask: Tensor | None) -> Tensor:
        """Return [N, sum(counts)], the choices side by side."""
        return categorical.apply_mask(outputs.float(), mask)

    def act(
        self, outputs: Tensor, mask: Tensor | None, generator: Chance | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return choices, the sum of their log-probabilities and the logits."""
        logits = self.logits(outputs, mask)
        parts = logits.split(self.counts, 1)
        numbers: tuple[Tensor | None, ...] = (None,) * len(parts)
        if generator is not None:
            numbers = categorical.draw_uniform(logits, generator).split(self.counts, 1)
        found = [
            categorical.choose(part, uniform) for part, uniform in zip(parts, numbers, strict=True)
        ]
        action = torch.stack([choice for choice, _ in found], 1)
        return action, torch.stack([log_prob for _, log_prob in found], 1).sum(1), logits

    def judge(self, outputs: Tensor, action: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return the sums of log-probability and entropy."""
        parts = self.logits(outputs, mask).split(self.counts, 1)
        found = [
            categorical.judge(part, choice)
            for part, choice in zip(parts, action.unbind(1), strict=True)
        ]
        log_prob = torch.stack([log_prob for log_prob, _ in found], 1).sum(1)
        return log_prob, torch.stack([entropy for _, entropy in found], 1).sum(1)


class GaussianHead(Head):
    """A diagonal Gaussian around a learned mean; actions are float32 [N, size], not clipped.

    The env clips what it is given; the log-probability is that of the action before clipping.
    """

    def __init__(
        self, inputs: int, size: int, *, initial_log_std: float = 0.0, noise_scale: float = 0.0
    ) -> None:
        super().__init__()
        self.layer = linear_layer(inputs, size, gain=POLICY_GAIN, noise_scale=noise_scale)
        self.log_std = nn.Parameter(torch.full((size,), float(initial_log_std)))
        self.constant = 0.5 * size * math.log(2.0 * math.pi)

    def act(
        self, outputs: Tensor, mask: Tensor | None, generator: Chance | None
    ) -> tuple[Tensor, Tensor, None]:
        """Return actions and their log-density."""
        mean = outputs.float()
        if generator is None:
            return mean, self._log_prob(torch.zeros_like(mean)), None
        normal = normal_like(mean, generator)
        return torch.addcmul(mean, normal, self.log_std.exp()), self._log_prob(normal), None

    def judge(self, outputs: Tensor, action: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return log-density and entropy."""
        mean = outputs.float()
        log_prob = self._log_prob((action - mean) * (-self.log_std).exp())
        entropy = self.log_std.sum() + (0.5 * mean.shape[1] + self.constant)
        return log_prob, entropy.expand(mean.shape[0])

    def metrics(self) -> dict[str, Tensor]:
        """Return the mean standard deviation."""
        return {"policy/std": self.log_std.detach().exp().mean()}

    def _log_prob(self, normal: Tensor) -> Tensor:
        """Return the log-density [N] of actions that lie `normal` deviations off the mean."""
        return normal.square().sum(1).mul(-0.5) - (self.log_std.sum() + self.constant)


class ValueHead(nn.Module):
    """The expected return, given the outputs of its layer."""

    def __init__(self, inputs: int, *, noise_scale: float = 0.0) -> None:
        super().__init__()
        self.layer = linear_layer(inputs, 1, gain=VALUE_GAIN, noise_scale=noise_scale)

    def forward(self, outputs: Tensor) -> Tensor:
        """Return [N] of outputs [N, 1]."""
        return outputs.float().view(-1)


def action_head(
    action: ActionSpec, inputs: int, *, noise_scale: float, initial_log_std: float
) -> Head:
    """Return the head for an action space."""
    match action:
        case Discrete(count):
            return CategoricalHead(inputs, count, noise_scale=noise_scale)
        case MultiDiscrete(counts):
            return MultiDiscreteHead(inputs, counts, noise_scale=noise_scale)
        case Continuous(low):
            return GaussianHead(
                inputs, len(low), initial_log_std=initial_log_std, noise_scale=noise_scale
            )

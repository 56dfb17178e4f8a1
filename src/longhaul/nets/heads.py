"""Heads that turn the outputs of their layer into actions.

The layer itself is applied by the body, see `encoder.Outlets`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from longhaul.core.policy import Generators
from longhaul.core.spaces import ActionSpec, Continuous, Discrete, MultiDiscrete
from longhaul.nets.dense import linear_layer, refuse_second_derivative


def uniform_like(outputs: Tensor, generators: Generators) -> Tensor:
    """Return numbers from [0, 1) of the same shape, on the outputs' device."""
    return _drawn(torch.rand, outputs, generators)


def normal_like(outputs: Tensor, generators: Generators) -> Tensor:
    """Return numbers of the standard normal distribution, of the same shape and device."""
    return _drawn(torch.randn, outputs, generators)


def _drawn(draw: Callable[..., Any], outputs: Tensor, generators: Generators) -> Tensor:
    """Return numbers for all rows, each equal share of them from its generator."""
    generators = (generators,) if isinstance(generators, torch.Generator) else tuple(generators)
    shape = (outputs.shape[0] // len(generators), *outputs.shape[1:])
    drawn = [draw(shape, generator=one, device=one.device) for one in generators]
    return torch.cat(drawn).to(outputs.device) if len(drawn) > 1 else drawn[0].to(outputs.device)


FORBIDDEN = -1e9
"""The logit of a forbidden choice: its probability is exactly zero and nothing is infinite."""


def masked_logits(outputs: Tensor, mask: Tensor | None) -> Tensor:
    """Return float32 logits, `FORBIDDEN` where the mask is false.

    In a row that allows nothing all choices are equally likely. Inactive rows therefore need no
    valid mask; nothing is learned from them.
    """
    logits = outputs.float()
    return logits if mask is None else logits.masked_fill(~mask, FORBIDDEN)


def choose(logits: Tensor, uniform: Tensor | None) -> tuple[Tensor, Tensor]:
    """Return a choice [N] and its log-probability [N]; the most likely one without numbers."""
    probability = torch.softmax(logits, 1)
    if uniform is None:
        choice = probability.argmax(1, keepdim=True)
    else:
        # The Gumbel-max trick without its second logarithm: the shortest of the exponential waiting
        # times -log(u) / p wins. The clamp keeps the logarithm finite: without it, one draw in
        # 2**24 could let a forbidden choice win.
        waiting = torch.div(probability, uniform.clamp_min_(1e-30).log_())
        choice = waiting.argmin(1, keepdim=True)
    return choice.view(-1), probability.gather(1, choice).log_().view(-1)


class _EvaluateChoice(torch.autograd.Function):
    """Log-probability and entropy as one node instead of eight."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, choice: Tensor) -> tuple[Tensor, Tensor]:
        """Return both, [N]."""
        index = choice.unsqueeze(1)
        log_probs = torch.log_softmax(logits, 1)
        probs = log_probs.exp()
        entropy = torch.linalg.vecdot(probs, log_probs).neg_()
        ctx.save_for_backward(log_probs, probs, entropy, index)
        return log_probs.gather(1, index).squeeze(1), entropy

    @staticmethod
    def backward(ctx: Any, of_log_prob: Tensor, of_entropy: Tensor) -> tuple[Tensor, None]:
        """Return the gradient of the logits."""
        refuse_second_derivative()
        log_probs, probs, entropy, index = ctx.saved_tensors
        # d entropy / d logit = -p (log p + entropy);  d log p_a / d logit = [a] - p
        of_log_prob = of_log_prob.unsqueeze(1)
        factor = (log_probs + entropy.unsqueeze(1)).mul_(of_entropy.unsqueeze(1)).add_(of_log_prob)
        grad = factor.mul_(probs).neg_()
        return grad.scatter_add_(1, index, of_log_prob), None


evaluate_choice: Callable[..., tuple[Tensor, Tensor]] = _EvaluateChoice.apply
"""Return the log-probability [N] of a choice [N] and the entropy [N], given logits."""


POLICY_GAIN = 0.01
"""Initial gain of a policy's last layer: all actions start about equally likely."""
VALUE_GAIN = 1.0


class CategoricalHead(nn.Module):
    """One choice; actions are int64 [N]."""

    def __init__(self, inputs: int, count: int, *, noise_scale: float = 0.0) -> None:
        super().__init__()
        self.layer = linear_layer(inputs, count, gain=POLICY_GAIN, noise_scale=noise_scale)
        self.choices = (count,)

    def act(
        self, outputs: Tensor, mask: Tensor | None, generator: Generators | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return actions [N, ...], the likeliest without generator, and log-probabilities [N].

        The third value are the masked logits [N, choices]; None for continuous actions.
        """
        logits = masked_logits(outputs, mask)
        uniform = None if generator is None else uniform_like(logits, generator)
        return *choose(logits, uniform), logits

    def evaluate_actions(
        self, outputs: Tensor, action: Tensor, mask: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return the log-probability [N] of recorded actions, the entropy [N] and the logits."""
        logits = masked_logits(outputs, mask)
        return *evaluate_choice(logits, action), logits


class MultiDiscreteHead(nn.Module):
    """Several independent choices; actions are int64 [N, len(counts)]."""

    def __init__(self, inputs: int, counts: tuple[int, ...], *, noise_scale: float = 0.0) -> None:
        super().__init__()
        self.choices = counts
        self.layer = linear_layer(inputs, sum(counts), gain=POLICY_GAIN, noise_scale=noise_scale)

    def act(
        self, outputs: Tensor, mask: Tensor | None, generator: Generators | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return choices, the sum of their log-probabilities and the logits."""
        logits = masked_logits(outputs, mask)
        parts = logits.split(self.choices, 1)
        numbers: tuple[Tensor | None, ...] = (None,) * len(parts)
        if generator is not None:
            numbers = uniform_like(logits, generator).split(self.choices, 1)
        found = [choose(part, uniform) for part, uniform in zip(parts, numbers, strict=True)]
        action = torch.stack([choice for choice, _ in found], 1)
        return action, torch.stack([log_prob for _, log_prob in found], 1).sum(1), logits

    def evaluate_actions(
        self, outputs: Tensor, action: Tensor, mask: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return the sums of log-probability and entropy, and the logits."""
        logits = masked_logits(outputs, mask)
        parts = logits.split(self.choices, 1)
        found = [
            evaluate_choice(part, choice)
            for part, choice in zip(parts, action.unbind(1), strict=True)
        ]
        log_prob = torch.stack([log_prob for log_prob, _ in found], 1).sum(1)
        return log_prob, torch.stack([entropy for _, entropy in found], 1).sum(1), logits


class GaussianHead(nn.Module):
    """A diagonal Gaussian around a learned mean; actions are float32 [N, size], not clipped.

    The env clips what it is given; the log-probability is that of the action before clipping.
    """

    def __init__(
        self, inputs: int, size: int, *, initial_log_std: float = 0.0, noise_scale: float = 0.0
    ) -> None:
        super().__init__()
        self.layer = linear_layer(inputs, size, gain=POLICY_GAIN, noise_scale=noise_scale)
        self.log_std = nn.Parameter(torch.full((size,), float(initial_log_std)))
        self.choices: tuple[int, ...] = ()
        self.constant = 0.5 * size * math.log(2.0 * math.pi)

    def act(
        self, outputs: Tensor, mask: Tensor | None, generator: Generators | None
    ) -> tuple[Tensor, Tensor, None]:
        """Return actions and their log-density."""
        mean = outputs.float()
        if generator is None:
            return mean, self._log_prob(torch.zeros_like(mean)), None
        normal = normal_like(mean, generator)
        return torch.addcmul(mean, normal, self.log_std.exp()), self._log_prob(normal), None

    def evaluate_actions(
        self, outputs: Tensor, action: Tensor, mask: Tensor | None
    ) -> tuple[Tensor, Tensor, None]:
        """Return log-density and entropy; there are no logits."""
        mean = outputs.float()
        log_prob = self._log_prob((action - mean) * (-self.log_std).exp())
        entropy = self.log_std.sum() + (0.5 * mean.shape[1] + self.constant)
        return log_prob, entropy.expand(mean.shape[0]), None

    def _log_prob(self, normal: Tensor) -> Tensor:
        """Return the log-density [N] of actions that lie `normal` deviations off the mean."""
        return normal.square().sum(1).mul(-0.5) - (self.log_std.sum() + self.constant)


Head = CategoricalHead | MultiDiscreteHead | GaussianHead
"""A distribution over actions, given the outputs of its layer."""


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

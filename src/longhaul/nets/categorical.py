"""Sampling and judging one choice out of several, from logits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from longhaul.core.policy import Chance
from longhaul.nets.chance import uniform_like
from longhaul.nets.dense import refuse_second_derivative

FORBIDDEN = -1e9
"""The logit of a forbidden choice: its probability is exactly zero and nothing is infinite."""


def apply_mask(logits: Tensor, mask: Tensor | None) -> Tensor:
    """Return the logits with forbidden choices pushed out of reach.

    A row that allows nothing counts as one whose choices are all equally likely, so that rows
    that are not there to act need no valid mask; nothing is learned from it.
    """
    return logits if mask is None else logits.masked_fill(~mask, FORBIDDEN)


def draw_uniform(logits: Tensor, generator: Chance) -> Tensor:
    """Return numbers in (0, 1) of the same shape, on the logits' device."""
    uniform = uniform_like(logits, generator)
    # The clamp keeps the logarithm finite: without it, one draw in 2**24 could let a forbidden
    # choice win.
    return uniform.clamp_min_(1e-30)


def choose(logits: Tensor, uniform: Tensor | None) -> tuple[Tensor, Tensor]:
    """Return a choice [N] and its log-probability [N]; the most likely one without numbers."""
    probability = torch.softmax(logits, 1)
    if uniform is None:
        choice = probability.argmax(1, keepdim=True)
    else:
        # The Gumbel-max trick without its second logarithm: exponential waiting times -log(u) / p,
        # of which the shortest wins.
        choice = torch.div(probability, uniform.log_()).argmin(1, keepdim=True)
    return choice.view(-1), probability.gather(1, choice).log_().view(-1)


def judge(logits: Tensor, choice: Tensor) -> tuple[Tensor, Tensor]:
    """Return the log-probability [N] of a choice and the distribution's entropy [N]."""
    return _judge(logits, choice)


class _Judge(torch.autograd.Function):
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


_judge: Callable[..., tuple[Tensor, Tensor]] = _Judge.apply

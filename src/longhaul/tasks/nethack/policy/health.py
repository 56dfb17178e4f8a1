"""What tells whether experts and graph are well, and from where on they are not."""

from __future__ import annotations

import torch
from torch import Tensor

from longhaul.core.metrics import Metric
from longhaul.tasks.nethack.policy.losses import FLOOR
from longhaul.tasks.nethack.policy.situations import joint_counts
from longhaul.tasks.nethack.policy.thought import Thought

STEP_ENTROPY = "policy/alpha_entropy"
MEAN_ENTROPY = "policy/mean_alpha_entropy"
SWITCHES = "policy/expert_switches"
FOCUS = "policy/attention_variance"
INFORMATION = "policy/expert_information"
ALIGNED = "policy/alignment_degree"
MASKED = "policy/masked_share"
SPREAD = "policy/operator_score_spread"

LOWEST_ENTROPY = 0.3
"""Nats; below it the experts have collapsed into one. Above 0.5 is usual."""
HIGHEST_ENTROPY = 1.2
"""Nats; above it the experts are not told apart, which is meant only in the first phase."""
LARGEST_GRADIENT = 10.0
HEALTHY_GRADIENT = 5.0
LOWEST_FOCUS = 0.05
"""Variation of attention below which the intent listens to all rules alike; healthy is 0.1."""
LARGEST_SHARE = 0.8
"""Share of one expert above which the others hardly act."""
SMALLEST_SHARE = 0.02
"""Share of an expert below which it is dead."""
ALIGNMENT_FALL = 0.2
"""Share by which the alignment loss should have fallen over the window."""
ENTROPY_WINDOW, GRADIENT_WINDOW, SHARE_WINDOW = 50, 10, 100
"""Iterations over which the checks look."""

METRICS = (
    Metric(STEP_ENTROPY, "mean entropy of the experts' weights of a step", "nats"),
    Metric(MEAN_ENTROPY, "entropy of the experts' mean weights", "nats"),
    Metric("policy/expert_weight/<expert>", "mean weight of an expert"),
    Metric("policy/expert_share/<expert>", "share of steps in which an expert weighs most"),
    Metric(SWITCHES, "changes of the leading expert per 100 steps"),
    Metric(
        FOCUS,
        "how unevenly the intent listens to the rules: squared coefficient of variation of its "
        "attention, mean over steps",
    ),
    Metric(
        INFORMATION,
        "mutual information of leading expert and situation, over each minibatch",
        "nats",
    ),
    Metric(ALIGNED, "mean cosine of the experts' weights and the rules' recommendation"),
    Metric(MASKED, "share of steps in which the rules forbid an action"),
    Metric(SPREAD, "mean deviation over the rules of their scores"),
)


@torch.no_grad()
def measures(
    thought: Thought,
    target: Tensor,
    situation: Tensor,
    before: Tensor,
    started: Tensor,
    mask: Tensor | None,
) -> dict[str, Tensor]:
    """Return a minibatch's measurements; `before` [L, B, K] are the weights a step earlier."""
    alpha = thought.alpha
    mean = alpha.mean(0)
    leading = alpha.argmax(1)
    continued = ~started.flatten()
    moved = (leading != before.flatten(0, 1).argmax(1)) & continued
    found = {
        STEP_ENTROPY: _entropy(alpha).mean(),
        MEAN_ENTROPY: _entropy(mean.unsqueeze(0)).squeeze(0),
        SWITCHES: 100.0 * moved.sum() / continued.sum().clamp(min=1),
        FOCUS: thought.spoken.spread.mean(),
        INFORMATION: _information(joint_counts(leading, situation, alpha.shape[1])),
        ALIGNED: torch.cosine_similarity(alpha, target, 1).mean(),
        SPREAD: thought.spoken.score.std(1).mean(),
    }
    if mask is not None:
        found[MASKED] = (~mask).any(1).float().mean()
    return found


def _entropy(alpha: Tensor) -> Tensor:
    return -(alpha * (alpha + FLOOR).log()).sum(1)


def _information(counts: Tensor) -> Tensor:
    """Return the mutual information of joint counts [K, S], corrected for their smallness."""
    table = counts.float()
    total = table.sum()
    share = table / total
    rows, columns = share.sum(1, keepdim=True), share.sum(0, keepdim=True)
    seen = share > 0
    plain = torch.where(seen, share * (share / (rows * columns)).clamp(min=FLOOR).log(), 0.0).sum()
    surplus = (rows > 0).sum() + (columns > 0).sum() - seen.sum() - 1
    return (plain + surplus / (2 * total)).clamp(min=0.0)

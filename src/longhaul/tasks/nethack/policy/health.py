"""Measures of the health of experts and graph, and the situation of a step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from longhaul.core.metrics import Metric
from longhaul.tasks.nethack.policy.graph import Thought
from longhaul.tasks.nethack.vocabulary import ATOM_COUNT, ATOM_INDEX

FLOOR = 1e-8
LEAST_DEVIATION = 1e-3
"""Differences of scores below this are noise."""


def alpha_entropy(alpha: Tensor) -> Tensor:
    """Return the mean entropy of the weights [N, K] of each step, in nats."""
    return -(alpha * (alpha + FLOOR).log()).sum(1).mean()


def load_balance(alpha: Tensor) -> Tensor:
    """Return how far the experts' mean weights are from equal shares, squared."""
    return (alpha.mean(0) - 1.0 / alpha.shape[1]).square().mean()


def similarity(expert_logits: Tensor) -> Tensor:
    """Return the cosine [N, K, K] between the logits [N, K, A] of every two experts."""
    direction = F.normalize(expert_logits, dim=2)
    return direction @ direction.transpose(1, 2)


def diversity(similar: Tensor) -> Tensor:
    """Return the mean cosine over pairs of different experts; it can be negative. 0 for one."""
    experts = similar.shape[1]
    trace = similar.diagonal(dim1=1, dim2=2).sum(1)
    return (similar.sum((1, 2)) - trace).mean() / max(experts * (experts - 1), 1)


def semantic(similar: Tensor) -> Tensor:
    """Return the mean of |cosine| over different experts, times (K - 1) / K."""
    experts = similar.shape[1]
    size = similar.abs()
    trace = size.diagonal(dim1=1, dim2=2).sum(1)
    return (size.sum((1, 2)) - trace).mean() / experts**2


def overlap(alpha: Tensor, similar: Tensor) -> Tensor:
    """Return how much experts that act together are alike."""
    together = alpha.unsqueeze(2) * alpha.unsqueeze(1)
    shared = together * similar
    return (shared.sum((1, 2)) - shared.diagonal(dim1=1, dim2=2).sum(1)).mean()


def temporal(alpha: Tensor, before: Tensor, continued: Tensor) -> Tensor:
    """Return the mean squared change of the weights since the step before, where there was one.

    `continued` [N] is False on the first step of an episode.
    """
    change = (alpha - before).square().mean(1)
    counted = continued.to(change.dtype)
    return (change * counted).sum() / counted.sum().clamp(min=1)


def alignment(target: Tensor, log_weights: Tensor) -> Tensor:
    """Return KL(target || weights), the mean over rows, given the logarithms of the weights."""
    return (target * (target.clamp(min=FLOOR).log() - log_weights)).sum(1).mean()


def floored_log(alpha: Tensor) -> Tensor:
    """Return the logarithm of weights, of which the smallest count as 1e-8."""
    return alpha.clamp(min=FLOOR).log()


def unusual(scores: Tensor) -> Tensor:
    """Return scores [N, K] in deviations from each expert's own mean over the rows."""
    if scores.shape[0] < 2:
        return scores
    deviation, mean = torch.std_mean(scores, 0)
    return (scores - mean) / (deviation + LEAST_DEVIATION)


def alignment_target(expert_scores: Tensor, temperature: float) -> Tensor:
    """Return what the rules recommend [N, K]: a softmax over standardized expert scores [N, K].

    Standardized: a temperature means the same at any scale of the scores.
    """
    centered = expert_scores - expert_scores.mean(1, keepdim=True)
    deviation = centered.square().mean(1, keepdim=True).sqrt()
    return torch.softmax(centered / (deviation + FLOOR) / temperature, 1)


@dataclass(frozen=True, slots=True)
class Situation:
    """A kind of moment, there as soon as one of its atoms holds."""

    name: str
    atoms: tuple[str, ...]


SITUATIONS = (
    Situation("prompt", ("prompt_direction", "prompt_item", "prompt_confirm", "stuck")),
    Situation("danger", ("hp_low", "hp_critical", "dying", "touch_danger_adjacent")),
    Situation("impaired", ("blind", "confused", "stunned", "hallucinating", "hunger_weak")),
    Situation("fight", ("hostile_adjacent", "hostiles_around", "unseen_adjacent")),
    Situation("threat", ("hostile_in_view", "hostiles_many", "exploder_near")),
    Situation("stairs", ("on_stairs_down", "stairs_down_reachable")),
    Situation("treasure", ("on_object", "object_adjacent", "object_reachable", "gold_reachable")),
    Situation("frontier", ("frontier_reachable",)),
    Situation("blocked", ("dead_end", "door_closed_adjacent", "door_locked", "searched_here")),
)
"""In the order of their urgency: of several that are there, the first counts."""
QUIET = "quiet"
"""The name of a moment that is none of them."""
SITUATION_NAMES = (*(situation.name for situation in SITUATIONS), QUIET)


class Situations(nn.Module):
    """Finds the situation of atom sets."""

    member: Tensor

    def __init__(self) -> None:
        super().__init__()
        member = torch.zeros(ATOM_COUNT, len(SITUATION_NAMES))
        for column, situation in enumerate(SITUATIONS):
            member[[ATOM_INDEX[name] for name in situation.atoms], column] = 1
        self.register_buffer("member", member, persistent=False)

    def forward(self, atoms: Tensor) -> Tensor:
        """Return the number [N] of the situation of atoms [N, C]."""
        there = atoms[:, :ATOM_COUNT].float() @ self.member > 0
        there[:, -1] = True
        return there.int().argmax(1)


def joint_counts(expert: Tensor, situation: Tensor, experts: int) -> Tensor:
    """Return how often each expert [N] had the say in each situation [N], [K, S]."""
    kinds = len(SITUATION_NAMES)
    flat = torch.bincount(expert * kinds + situation, minlength=experts * kinds)
    return flat.view(experts, kinds)


def mutual_information(counts: NDArray[np.float64] | Sequence[Sequence[float]]) -> float:
    """Return the mutual information of two variables, in nats, from their joint counts.

    Corrected for the small numbers that make any two things look related (Miller and Madow).
    """
    table = np.asarray(counts, np.float64)
    total = table.sum()
    if total <= 0:
        return 0.0
    share = table / total
    apart = share.sum(1, keepdims=True) * share.sum(0, keepdims=True)
    seen = share > 0
    plain = float((share[seen] * np.log(share[seen] / apart[seen])).sum())
    cells, rows, columns = seen.sum(), (table.sum(1) > 0).sum(), (table.sum(0) > 0).sum()
    return max(0.0, plain + float(rows + columns - cells - 1) / (2 * float(total)))


def purity(counts: NDArray[np.float64] | Sequence[Sequence[float]]) -> list[float]:
    """Return of each expert [K, S] the share of its moments that are of its most frequent kind."""
    table = np.asarray(counts, np.float64)
    return [float(row.max() / row.sum()) if row.sum() else 0.0 for row in table]


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
"""Nats; above it the experts do not differ, which is intended only in the first phase."""
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

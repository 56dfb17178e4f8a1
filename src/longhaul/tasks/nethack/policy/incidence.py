"""The rule hypergraph as tensors: who is joined to whom, and which rules hold."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from longhaul.tasks.nethack.rules import RuleGraph

NEEDS, SUPPORTS, FORBIDS = 0, 1, 2
"""How a condition is joined to a rule."""
RELATIONS = 3
SUPPORTED = 0.5
"""What a rule that holds is worth without any of the atoms that support it."""


@dataclass(frozen=True, slots=True)
class Edges:
    """Joined pairs of nodes, in one order."""

    rule: Tensor  # [E] int64
    other: Tensor  # [E] int64
    relation: Tensor  # [E] int64


def condition_edges(graph: RuleGraph) -> Edges:
    """Return which conditions are joined to which rules."""
    parts = []
    for relation, bits in ((NEEDS, graph.pre), (SUPPORTS, graph.context), (FORBIDS, graph.forbids)):
        rule, atom = np.nonzero(bits)
        parts.append(np.stack([rule, atom, np.full_like(rule, relation)]))
    return _edges(np.concatenate(parts, 1))


def effect_edges(graph: RuleGraph) -> Edges:
    """Return which effects are joined to which rules, wanted ones and risks."""
    parts = []
    for relation, bits in ((0, graph.effect_bits), (1, graph.risk_bits)):
        rule, effect = np.nonzero(bits)
        parts.append(np.stack([rule, effect, np.full_like(rule, relation)]))
    return _edges(np.concatenate(parts, 1))


def _edges(rows: np.ndarray[tuple[int, int], np.dtype[np.int64]]) -> Edges:
    rule, other, relation = torch.from_numpy(rows.astype(np.int64))
    return Edges(rule.clone(), other.clone(), relation.clone())


class RuleMatch(nn.Module):
    """Tells how well each rule fits a set of atoms; nothing in it is learned."""

    pre: Tensor
    needed: Tensor
    context: Tensor
    forbids: Tensor
    prior: Tensor

    def __init__(self, graph: RuleGraph) -> None:
        super().__init__()

        def keep(name: str, values: np.ndarray[tuple[int, ...], np.dtype[np.float32]]) -> None:
            self.register_buffer(name, torch.from_numpy(values), persistent=False)

        keep("pre", graph.pre.T.astype(np.float32))
        keep("needed", graph.pre.sum(1).astype(np.float32))
        share = graph.context / np.maximum(graph.context.sum(1, keepdims=True), 1)
        keep("context", share.T.astype(np.float32).copy())
        keep("forbids", graph.forbids.T.astype(np.float32))
        keep("prior", graph.prior.astype(np.float32))

    def forward(self, atoms: Tensor) -> Tensor:
        """Return [U, R] from 0 to 1 for atoms [U, C]: 0 where a rule does not hold, else its prior,
        halved where nothing supports it."""
        holds = (atoms @ self.pre >= self.needed) & (atoms @ self.forbids < 1)
        worth = self.prior * (SUPPORTED + (1 - SUPPORTED) * (atoms @ self.context))
        return torch.where(holds, worth, 0.0)

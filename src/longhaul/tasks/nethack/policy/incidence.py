"""The rule hypergraph as tensors: its edges, which rules hold, and the patterns of conditions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from longhaul.core.errors import ConfigError
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
    """Measures how well each rule fits a set of atoms; nothing in it is learned."""

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


MOST_PATTERNS = 2**14
"""Of all rules together: what is kept for each of them is computed again for every update."""


class Patterns(nn.Module):
    """Numbers the P patterns of all rules: each condition of a rule is a binary digit.

    A rule depends on its conditions only. What it has to say is one of as many things
    as they have patterns, whatever else is the case.
    """

    rule: Tensor  # [P] int64
    on: Tensor  # [P, E] bool: the edge is the rule's and its condition is on
    worth: Tensor  # [P] float: how well the rule fits
    digit: Tensor  # [C, R] float: what a condition that is on adds to the number
    first: Tensor  # [R] float: the number of the pattern in which all conditions are off

    def __init__(self, graph: RuleGraph, edges: Edges) -> None:
        super().__init__()
        rules, conditions = graph.pre.shape
        place = torch.zeros_like(edges.rule)
        seen = [0] * rules
        for edge, rule in enumerate(edges.rule.tolist()):
            place[edge] = seen[rule]
            seen[rule] += 1
        count = sum(2**named for named in seen)
        if count > MOST_PATTERNS:
            raise ConfigError(
                f"the conditions of the rules have {count:,} patterns of on and off, and "
                f"{MOST_PATTERNS:,} is the most; a rule that names n atoms has 2^n of them, "
                f"and one names {max(seen)}"
            )
        size = 2 ** torch.tensor(seen)
        first = size.cumsum(0) - size
        number = torch.arange(count)
        rule = torch.searchsorted(first, number, right=True) - 1
        bits = ((number - first[rule]).unsqueeze(1) >> place) & 1
        on = (rule.unsqueeze(1) == edges.rule) & bits.bool()
        atoms = torch.zeros(count, conditions).index_add_(1, edges.other, on.float())
        worth = RuleMatch(graph).forward(atoms).gather(1, rule.unsqueeze(1)).squeeze(1)
        # All of them stay below 2^24, up to which floats are exact.
        digit = torch.zeros(conditions, rules)
        digit[edges.other, edges.rule] = (2**place).float()
        constants = {"rule": rule, "on": on, "worth": worth, "digit": digit, "first": first.float()}
        for name, tensor in constants.items():
            self.register_buffer(name, tensor, persistent=False)

    @torch.no_grad()
    def forward(self, atoms: Tensor) -> Tensor:
        """Return the number of each rule's pattern, [U, R], in sets of atoms [U, C], 0 or 1."""
        return torch.addmm(self.first, atoms, self.digit).long()

    def match(self, atoms: Tensor) -> Tensor:
        """Return how well each rule fits sets of atoms [U, C]: [U, R], 0 where it does not hold."""
        return self.worth[self.forward(atoms)]

"""Every pattern of on and off that the conditions of a rule can show."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from longhaul.core.errors import ConfigError
from longhaul.tasks.nethack.policy.incidence import Edges, RuleMatch
from longhaul.tasks.nethack.rules import RuleGraph

MOST_PATTERNS = 2**14
"""Of all rules together: what is kept for each of them is worked out anew for every update."""


class Patterns(nn.Module):
    """Numbers the P patterns of all rules: each condition of a rule is a binary digit.

    A rule hears of its own conditions only, so that what it has to say is one of as many things
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

"""Graph attention over the rules: which of them speak up, and what they want together.

Nodes are conditions, rules and effects; a rule is one operator in one variant. First every rule
listens to its effects, then to its conditions, each of which is on or off, then the intent listens
to all rules. Both of the first two are softmax attention over the edges of the graph and a
self-loop. A condition has only two states, so that numerator and denominator of a rule's attention
are sums over conditions of one of two constants: the whole layer is two matrix products, exactly.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from longhaul.core.errors import ConfigError
from longhaul.tasks.nethack.policy.incidence import (
    RELATIONS,
    Edges,
    RuleMatch,
    condition_edges,
    effect_edges,
)
from longhaul.tasks.nethack.rules import RuleGraph

MOST_EDGES = 40
"""Atoms a rule may name: as many digits of a number that stays exact as a float."""
SLOPE = 0.2
"""Of the leaky rectifier that attention logits go through."""


@dataclass(frozen=True, slots=True)
class Spoken:
    """What the graph says about U sets of atoms."""

    intent: Tensor  # [U, G]
    score: Tensor  # [U, R], of each rule
    spread: Tensor  # [U], squared coefficient of variation of the intent's attention to rules


@dataclass(frozen=True, slots=True)
class Terms:
    """What the weights make of the graph before any atom is known.

    Attention over a rule's edges is a fraction; each edge adds to numerator and denominator, more
    or less according to whether its condition is on.
    """

    identity: Tensor  # [R, D], what a rule is before it has heard of the conditions
    base_norm: Tensor  # [R, H], denominators when all conditions are off
    norm: Tensor  # [E, H], what the condition of an edge that is on changes of them
    base_message: Tensor  # [R, D], numerators
    message: Tensor  # [E, D]


@dataclass(frozen=True, slots=True)
class Prepared:
    """The same laid out for sets of atoms, so that all rules are one matrix product."""

    terms: Terms
    norm: Tensor  # [C, R * H]
    message: Tensor  # [C, R * D]


@dataclass(frozen=True, slots=True)
class Patterns:
    """The P different things rules hear in U sets of atoms."""

    rule: Tensor  # [P] int64
    on: Tensor  # [P, E] float, 1 where the edge is the rule's and its condition is on
    index: Tensor  # [U, R] int64, the pattern of each rule in each set


class _Listening(nn.Module):
    """The weights of one attention layer: projection, source and target vectors, edge biases."""

    def __init__(self, size: int, heads: int, relations: int) -> None:
        super().__init__()
        self.heads = heads
        self.project = nn.Linear(size, size, bias=False)
        bound = math.sqrt(6.0 / (size // heads + 1))
        self.source = nn.Parameter(torch.empty(heads, size // heads).uniform_(-bound, bound))
        self.target = nn.Parameter(torch.empty(heads, size // heads).uniform_(-bound, bound))
        # One more for the self-loop.
        self.relation = nn.Parameter(torch.zeros(relations + 1, heads))
        self.bias = nn.Parameter(torch.zeros(size))
        self.norm = nn.LayerNorm(size)

    def split(self, x: Tensor) -> Tensor:
        """Return the projection of [..., D] by heads, [..., H, D / H]."""
        projected: Tensor = self.project(x)
        return projected.view(*x.shape[:-1], self.heads, -1)

    def updated(self, x: Tensor, heard: Tensor) -> Tensor:
        """Return what nodes are after they have heard something [..., D]."""
        normed: Tensor = self.norm(heard + self.bias)
        return x + normed.relu()


class GraphStream(nn.Module):
    """Turns sets of atoms into an intent vector and a score of every rule."""

    condition_rule: Tensor
    condition_atom: Tensor
    condition_relation: Tensor
    effect_rule: Tensor
    effect_other: Tensor
    effect_relation: Tensor
    rule_operator: Tensor
    edge_place: Tensor
    place_value: Tensor
    first_code: Tensor

    def __init__(self, graph: RuleGraph, *, size: int, heads: int, rule_boost: float) -> None:
        super().__init__()
        self.outputs = size
        self.heads = heads
        self.rule_boost = rule_boost
        self.rules = len(graph.rules)
        self.conditions = graph.pre.shape[1]
        self._keep_edges(graph)
        scale = 1.0
        self.condition = nn.Parameter(torch.randn(self.conditions, size) * scale)
        self.state = nn.Parameter(torch.randn(2, size) * scale)
        self.operator = nn.Parameter(torch.randn(len(graph.operators), size) * scale)
        self.variant = nn.Parameter(torch.randn(self.rules, size) * 0.5)
        self.effect = nn.Parameter(torch.randn(len(graph.effects), size) * scale)
        self.hear_effects = _Listening(size, heads, 2)
        self.hear_conditions = _Listening(size, heads, RELATIONS)
        self.ask = nn.Linear(size, heads)
        self.readout = nn.Sequential(
            nn.Linear(size, size), nn.ReLU(), nn.Linear(size, size), nn.LayerNorm(size)
        )
        self.match = RuleMatch(graph)

    def _keep_edges(self, graph: RuleGraph) -> None:
        conditions, effects = condition_edges(graph), effect_edges(graph)
        constants = {
            "condition_rule": conditions.rule,
            "condition_atom": conditions.other,
            "condition_relation": conditions.relation,
            "effect_rule": effects.rule,
            "effect_other": effects.other,
            "effect_relation": effects.relation,
            "rule_operator": torch.from_numpy(graph.rule_operator.copy()),
            **_codes(conditions, self.rules, self.conditions),
        }
        for name, tensor in constants.items():
            self.register_buffer(name, tensor, persistent=False)

    def terms(self) -> Terms:
        """Return what has to be worked out once for these weights."""
        layer = self.hear_conditions
        rules = self._informed_rules()
        own = layer.split(rules)  # [R, H, d]
        states = self.condition + self.state.unsqueeze(1)  # [2, C, D]
        values = layer.split(states)  # [2, C, H, d]
        asked = (own * layer.target).sum(-1)  # [R, H]
        offered = (values * layer.source).sum(-1)  # [2, C, H]
        bias = layer.relation[self.condition_relation]  # [E, H]
        logits = F.leaky_relu(
            offered[:, self.condition_atom] + asked[self.condition_rule] + bias, SLOPE
        )  # [2, E, H]
        loop = F.leaky_relu((own * layer.source).sum(-1) + asked + layer.relation[-1], SLOPE)
        # A softmax is the same whatever is taken off its logits; off comes the highest of each
        # rule, so that no exponential overflows.
        highest = _highest(logits, loop, self.condition_rule).detach()
        off, on = (logits - highest[self.condition_rule]).exp()
        at_loop = (loop - highest).exp()
        heard = values[:, self.condition_atom]  # [2, E, H, d]
        off_message, on_message = off.unsqueeze(-1) * heard[0], on.unsqueeze(-1) * heard[1]
        rule = self.condition_rule
        base_message = (at_loop.unsqueeze(-1) * own).index_add(0, rule, off_message)
        return Terms(
            identity=rules,
            base_norm=at_loop.index_add(0, rule, off),
            norm=on - off,
            base_message=base_message.flatten(1),
            message=(on_message - off_message).flatten(1),
        )

    def prepare(self) -> Prepared:
        """Return the terms laid out for `speak`."""
        terms = self.terms()
        return Prepared(terms, self._spread(terms.norm), self._spread(terms.message))

    def _informed_rules(self) -> Tensor:
        """Return [R, D], rules that know their operator and have heard of their effects."""
        rules = self.operator[self.rule_operator] + self.variant
        layer = self.hear_effects
        own, values = layer.split(rules), layer.split(self.effect)
        asked = (own * layer.target).sum(-1)
        offered = (values * layer.source).sum(-1)[self.effect_other]
        bias = layer.relation[self.effect_relation]
        logits = F.leaky_relu(offered + asked[self.effect_rule] + bias, SLOPE)
        loop = F.leaky_relu((own * layer.source).sum(-1) + asked + layer.relation[-1], SLOPE)
        highest = _highest(logits.unsqueeze(0), loop, self.effect_rule).detach()
        weight = (logits - highest[self.effect_rule]).exp()
        at_loop = (loop - highest).exp()
        total = at_loop.index_add(0, self.effect_rule, weight)
        message = (at_loop.unsqueeze(-1) * own).index_add(
            0, self.effect_rule, weight.unsqueeze(-1) * values[self.effect_other]
        )
        return layer.updated(rules, (message / total.unsqueeze(-1)).flatten(1))

    def _spread(self, of_edges: Tensor) -> Tensor:
        """Return [C, R * width] of values [E, width], each in the place of its edge."""
        place = self.condition_atom * self.rules + self.condition_rule
        empty = of_edges.new_zeros(self.conditions * self.rules, of_edges.shape[1])
        return empty.index_add(0, place, of_edges).view(self.conditions, -1)

    def speak(self, atoms: Tensor, prepared: Prepared) -> Spoken:
        """Return what the graph says about a few sets of atoms [U, C], 0 or 1 as floats."""
        rows, terms = atoms.shape[0], prepared.terms
        total = torch.addmm(terms.base_norm.flatten(), atoms, prepared.norm)
        message = torch.addmm(terms.base_message.flatten(), atoms, prepared.message)
        heard = self._heard(
            message.view(rows, self.rules, -1), total.view(rows, self.rules, self.heads)
        )
        rules = self.hear_conditions.updated(terms.identity, heard)  # [U, R, D]
        asked = self._boosted(self.ask(rules), atoms)  # [U, R, H]
        attention = torch.softmax(asked, 1)
        by_head = rules.unflatten(2, (self.heads, -1)).transpose(1, 2)  # [U, H, R, d]
        gathered = (attention.transpose(1, 2).unsqueeze(2) @ by_head).flatten(1)
        return self._spoken(gathered, asked, attention)

    def forward(self, atoms: Tensor) -> Spoken:
        """Return what the graph says about many sets of atoms [U, C].

        A rule hears of its own conditions only, so that it is worked out once for each pattern of
        them that occurs; in play that is a tenth of all rules of all sets.
        """
        rows, terms = atoms.shape[0], self.terms()
        pattern = self.patterns(atoms)
        total = terms.base_norm[pattern.rule] + pattern.on @ terms.norm
        message = terms.base_message[pattern.rule] + pattern.on @ terms.message
        rules = self.hear_conditions.updated(
            terms.identity[pattern.rule], self._heard(message, total)
        )  # [P, D]
        each = self.ask(rules).index_select(0, pattern.index.flatten())
        asked = self._boosted(each.view(rows, self.rules, -1), atoms)
        attention = torch.softmax(asked, 1)
        # Every rule of a set is another pattern, so that no two weights meet in one place.
        weight = attention.new_zeros(rows, rules.shape[0], self.heads)
        place = pattern.index.unsqueeze(2).expand_as(attention)
        weight = weight.scatter(1, place, attention).permute(2, 0, 1)  # [H, U, P]
        by_head = rules.unflatten(1, (self.heads, -1)).transpose(0, 1)  # [H, P, d]
        gathered = (weight @ by_head).transpose(0, 1).flatten(1)
        return self._spoken(gathered, asked, attention)

    @torch.no_grad()
    def patterns(self, atoms: Tensor) -> Patterns:
        """Return the different patterns of rules' conditions in sets of atoms [U, C]."""
        code = (atoms.double() @ self.place_value).long() + self.first_code
        codes, index = torch.unique(code, return_inverse=True)
        rule = torch.searchsorted(self.first_code, codes, right=True) - 1
        bits = (codes - self.first_code[rule]).unsqueeze(1) >> self.edge_place
        own = rule.unsqueeze(1) == self.condition_rule
        return Patterns(rule, (own & (bits & 1).bool()).to(atoms.dtype), index)

    def _heard(self, message: Tensor, total: Tensor) -> Tensor:
        """Return numerators [..., D] over denominators [..., H]."""
        by_head = message.view(*total.shape, -1)
        return (by_head / total.unsqueeze(-1)).flatten(-2)

    def _boosted(self, asked: Tensor, atoms: Tensor) -> Tensor:
        """Return the logits [U, R, H] of the intent's attention; rules that hold have more."""
        boost = self.rule_boost * self.match.forward(atoms)
        return asked / math.sqrt(self.heads) + boost.unsqueeze(-1)

    def _spoken(self, gathered: Tensor, asked: Tensor, attention: Tensor) -> Spoken:
        intent: Tensor = self.readout(gathered)
        with torch.no_grad():
            spread = attention.mean(2).square().sum(1) * self.rules - 1
        return Spoken(intent, asked.mean(2), spread)


def _highest(logits: Tensor, loop: Tensor, rule: Tensor) -> Tensor:
    """Return the highest logit [R, H] among a rule's edges [S, E, H] and its self-loop [R, H]."""
    highest = loop
    for state in logits:
        index = rule.unsqueeze(1).expand_as(state)
        highest = highest.scatter_reduce(0, index, state, "amax")
    return highest


def _codes(edges: Edges, rules: int, conditions: int) -> dict[str, Tensor]:
    """Return how the conditions of a rule that are on are written as one number.

    Each of its edges is a binary digit, and rules take up different ranges of numbers.
    """
    place = torch.zeros_like(edges.rule)
    seen = [0] * rules
    for edge, rule in enumerate(edges.rule.tolist()):
        place[edge] = seen[rule]
        seen[rule] += 1
    if max(seen) > MOST_EDGES:
        raise ConfigError(f"a rule names {max(seen)} atoms; {MOST_EDGES} is the most")
    value = torch.zeros(conditions, rules, dtype=torch.float64)
    value[edges.other, edges.rule] = (2.0**place).double()
    size = 2 ** torch.tensor(seen)
    return {"edge_place": place, "place_value": value, "first_code": size.cumsum(0) - size}

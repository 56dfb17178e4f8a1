"""Graph attention over the rules: which of them speak up, and what they want together.

Nodes are conditions, rules and effects; a rule is one operator in one variant. First every rule
listens to its effects, then to its conditions, each of which is on or off, then the intent listens
to all rules. All three are softmax attention, the first two over the edges of the graph and a
self-loop. A condition has only two states: a rule has one of as many things to say as its
own conditions have patterns of on and off, a few thousand for all rules together. What a rule adds
to numerator and denominator of the intent's attention is worked out once for each pattern; the
intent of a set of atoms is then a sum over its rules' patterns.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from longhaul.tasks.nethack.policy.incidence import (
    RELATIONS,
    Patterns,
    condition_edges,
    effect_edges,
)
from longhaul.tasks.nethack.rules import RuleGraph

SLOPE = 0.2
"""Of the leaky rectifier that attention logits go through."""
FAINTEST = -40.0
"""No logit of the intent's attention counts as further below the highest one of all patterns:
the exponential of less might vanish for all rules of a set."""


@dataclass(frozen=True, slots=True)
class Spoken:
    """What the graph says about U sets of atoms."""

    intent: Tensor  # [U, G]
    score: Tensor  # [U, R], of each rule
    spread: Tensor  # [U], squared coefficient of variation of the intent's attention to rules


@dataclass(frozen=True, slots=True)
class GraphTerms:
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
class Voices:
    """What rules have to say in P of their patterns."""

    asked: Tensor  # [P], the mean logit of the intent's attention over heads
    adds: Tensor  # [P, D + H + H * H], to numerators, denominators and, of heads, products


@dataclass(frozen=True, slots=True)
class Attention:
    """Where attention goes for one set of atoms, as means over heads."""

    conditions: Tensor  # [E], of each edge's rule to its condition, 0 if that is off
    rules: Tensor  # [R], of the intent
    score: Tensor  # [R], of each rule


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
        }
        self.patterns = Patterns(graph, conditions)
        for name, tensor in constants.items():
            self.register_buffer(name, tensor, persistent=False)

    def terms(self) -> GraphTerms:
        """Return what has to be worked out once for these weights."""
        rules, own, heard, off, on, at_loop = self._listened()
        rule = self.condition_rule
        off_message, on_message = off.unsqueeze(-1) * heard[0], on.unsqueeze(-1) * heard[1]
        base_message = (at_loop.unsqueeze(-1) * own).index_add(0, rule, off_message)
        return GraphTerms(
            identity=rules,
            base_norm=at_loop.index_add(0, rule, off),
            norm=on - off,
            base_message=base_message.flatten(1),
            message=(on_message - off_message).flatten(1),
        )

    def _listened(self) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
        """Return the rules [R, D], what they and their edges offer [R, H, d], [2, E, H, d], and the
        weights of edges that are off and on [E, H] and of self-loops [R, H], as exponentials."""
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
        # rule; no exponential overflows.
        highest = _highest(logits, loop, self.condition_rule).detach()
        off, on = (logits - highest[self.condition_rule]).exp()
        at_loop = (loop - highest).exp()
        return rules, own, values[:, self.condition_atom], off, on, at_loop

    @torch.no_grad()
    def attention(self, atoms: Tensor) -> Attention:
        """Return where attention goes for one set of atoms [C], 0 or 1 as floats."""
        *_, off, on, at_loop = self._listened()
        there = atoms[self.condition_atom].unsqueeze(1)  # [E, 1]
        weight = torch.where(there > 0, on, off)
        total = at_loop.index_add(0, self.condition_rule, weight)
        to_conditions = (weight / total[self.condition_rule]).mean(1) * there.squeeze(1)
        voices = self.voices(self.patterns.forward(atoms.unsqueeze(0))[0])
        voice = voices.adds[:, self.outputs : self.outputs + self.heads]  # [R, H]
        return Attention(to_conditions, (voice / voice.sum(0)).mean(1), voices.asked)

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

    def voices(self, chosen: Tensor | None = None) -> Voices:
        """Return what the rules of all patterns, or of the chosen ones, have to say."""
        terms, patterns = self.terms(), self.patterns
        rule, on, worth = patterns.rule, patterns.on, patterns.worth
        if chosen is not None:
            rule, on, worth = rule[chosen], on[chosen], worth[chosen]
        on = on.to(terms.norm.dtype)
        total = terms.base_norm[rule] + on @ terms.norm
        message = terms.base_message[rule] + on @ terms.message
        heard = message.unflatten(1, (self.heads, -1)) / total.unsqueeze(2)
        rules = self.hear_conditions.updated(terms.identity[rule], heard.flatten(1))  # [P, D]
        boost = self.rule_boost * worth
        asked = self.ask(rules) / math.sqrt(self.heads) + boost.unsqueeze(1)
        # As in every softmax; one for all sets: weights belong to patterns.
        weight = (asked - asked.detach().amax(0)).clamp(min=FAINTEST).exp()
        heads = rules.unflatten(1, (self.heads, -1)) * weight.unsqueeze(2)
        pairs = (weight.unsqueeze(2) * weight.unsqueeze(1)).detach()
        return Voices(asked.mean(1), torch.cat([heads.flatten(1), weight, pairs.flatten(1)], 1))

    def speak(self, atoms: Tensor, voices: Voices) -> Spoken:
        """Return what the graph says about a few sets of atoms [U, C], 0 or 1 as floats."""
        pattern = self.patterns.forward(atoms)
        said = F.embedding_bag(pattern, voices.adds, mode="sum")
        return self._spoken(said, voices.asked[pattern])

    def forward(self, atoms: Tensor) -> Spoken:
        """Return what the graph says about many sets of atoms [U, C], with gradients.

        Worked out for the patterns that occur only; in play that is a fifth of them.
        """
        pattern = self.patterns.forward(atoms)
        occurs = torch.zeros_like(self.patterns.rule).index_fill_(0, pattern.flatten(), 1)
        index = (occurs.cumsum(0) - 1)[pattern]
        voices = self.voices(occurs.nonzero().squeeze(1))
        # As a product, because the gradient of one is a product again, not a walk through rows.
        present = voices.adds.new_zeros(len(atoms), len(voices.asked)).scatter_(1, index, 1.0)
        score = voices.asked.index_select(0, index.flatten()).view_as(index)
        return self._spoken(present @ voices.adds, score)

    def _spoken(self, said: Tensor, score: Tensor) -> Spoken:
        """Return what the sums over rules of their voices' parts mean."""
        heard, total, pairs = said.split((self.outputs, self.heads, self.heads**2), 1)
        mean = heard.unflatten(1, (self.heads, -1)) / total.unsqueeze(2)
        intent: Tensor = self.readout(mean.flatten(1))
        with torch.no_grad():
            # The sum over rules of the squared mean over heads of their attention.
            of_pairs = (total.unsqueeze(2) * total.unsqueeze(1)).flatten(1)
            spread = (pairs / of_pairs).mean(1) * self.rules - 1
        return Spoken(intent, score, spread)


def _highest(logits: Tensor, loop: Tensor, rule: Tensor) -> Tensor:
    """Return the highest logit [R, H] among a rule's edges [S, E, H] and its self-loop [R, H]."""
    highest = loop
    for state in logits:
        index = rule.unsqueeze(1).expand_as(state)
        highest = highest.scatter_reduce(0, index, state, "amax")
    return highest


@dataclass(frozen=True, slots=True)
class Thought:
    """What the network makes of N observations."""

    logits: Tensor  # [N, A], before the mask, of the actions
    value: Tensor  # [N]
    alpha: Tensor  # [N, K]
    router_logits: Tensor  # [N, K], divided by the temperature
    expert_logits: Tensor  # [N, K, A]
    spoken: Spoken  # of each row


BATCH = 16
"""Sets that are worked out together. Always so many: in batches of one shape the answer for a set
does not depend, to the last bit, on the others: no history shows in the numbers."""
FIRST_ROOM = 512
"""Sets there is room for at first."""


@dataclass(frozen=True, slots=True)
class Distinct:
    """The different rows of a batch of atom sets, and which of them each row is."""

    atoms: Tensor  # [U, C] float
    index: Tensor  # [N] int64


def keys_of(atoms: Tensor) -> list[bytes]:
    """Return a name for the set in each row of atoms [N, C]; equal sets have equal names."""
    bits = np.packbits(atoms.cpu().numpy() != 0, axis=1)
    width, flat = bits.shape[1], bits.tobytes()
    return [flat[begin : begin + width] for begin in range(0, len(flat), width)]


def distinct(atoms: Tensor) -> Distinct:
    """Return the different rows of atoms [N, C], in the order of their first appearance."""
    places: dict[bytes, int] = {}
    first: list[int] = []
    index: list[int] = []
    for row, key in enumerate(keys_of(atoms)):
        if key not in places:
            places[key] = len(first)
            first.append(row)
        index.append(places[key])
    chosen = torch.tensor(first, device=atoms.device)
    return Distinct(atoms[chosen].float(), torch.tensor(index, device=atoms.device))


class Memo:
    """Remembers what a graph said while its weights stay the same."""

    def __init__(self) -> None:
        self._weights: tuple[int, ...] = ()
        self._voices: Voices | None = None
        self._places: dict[bytes, int] = {}
        self._said = torch.empty(0, 0)  # [room, G + R + 1], what was said about each set
        self.asked = 0
        self.missed = 0

    def forget(self) -> None:
        """Drop everything that was said."""
        self._voices = None
        self._places = {}

    def spoken(self, stream: GraphStream, atoms: Tensor) -> Spoken:
        """Return what the graph says about each row of atoms [N, C], without a gradient."""
        weights = tuple(parameter._version for parameter in stream.parameters())
        if weights != self._weights:
            self.forget()
            self._weights = weights
        keys = keys_of(atoms)
        places = self._places
        unknown = {key: row for row, key in enumerate(keys) if key not in places}
        self.asked += len(keys)
        self.missed += len(unknown)
        if unknown:
            self._learn(stream, atoms, unknown)
        index = torch.tensor([places[key] for key in keys], device=self._said.device)
        said = self._said.index_select(0, index)
        intent, score, spread = said.split((stream.outputs, stream.rules, 1), 1)
        return Spoken(intent, score, spread.squeeze(1))

    def _learn(self, stream: GraphStream, atoms: Tensor, unknown: dict[bytes, int]) -> None:
        if self._voices is None:
            self._voices = stream.voices()
        self._make_room(len(self._places) + len(unknown) + BATCH, stream)
        names = list(unknown)
        for begin in range(0, len(names), BATCH):
            chosen = names[begin : begin + BATCH]
            rows = torch.tensor([unknown[key] for key in chosen], device=atoms.device)
            sets = atoms.new_zeros(BATCH, atoms.shape[1], dtype=torch.float32)
            sets[: len(chosen)] = atoms[rows].float()
            said = stream.speak(sets, self._voices)
            parts = (said.intent, said.score, said.spread.unsqueeze(1))
            known = len(self._places)
            self._said[known : known + BATCH] = torch.cat(parts, 1)
            self._places.update((key, known + place) for place, key in enumerate(chosen))

    def _make_room(self, needed: int, stream: GraphStream) -> None:
        width = stream.outputs + stream.rules + 1
        if self._said.shape[1] == width and needed <= self._said.shape[0]:
            return
        room = max(FIRST_ROOM, 2 * needed)
        # An ordinary tensor: one made in inference mode could not be written to outside of it.
        with torch.inference_mode(mode=False):
            larger = torch.empty(room, width, device=stream.condition.device)
        if self._places:
            larger[: len(self._places)] = self._said[: len(self._places)]
        self._said = larger

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from longhaul.tasks.nethack.policy.graph import BATCH, SLOPE, GraphStream, Memo, distinct
from longhaul.tasks.nethack.policy.incidence import SUPPORTED, RuleMatch
from longhaul.tasks.nethack.rules import RuleGraph
from longhaul.tasks.nethack.vocabulary import ATOM_NAMES
from tests.tasks.nethack.policy.players import atom_sets, rules

SIZE, HEADS = 16, 4


@pytest.fixture(scope="module")
def graph() -> RuleGraph:
    return rules()


@pytest.fixture(scope="module")
def stream(graph: RuleGraph) -> GraphStream:
    torch.manual_seed(11)
    return GraphStream(graph, size=SIZE, heads=HEADS, rule_boost=2.0).double()


def attended(logits: list[Tensor], values: list[Tensor]) -> Tensor:
    """Return values weighted by the softmax of their logits, both lists over edges."""
    weight = torch.softmax(torch.stack(logits), 0)
    return (weight.unsqueeze(-1) * torch.stack(values)).sum(0)


def slow_rule(
    stream: GraphStream, graph: RuleGraph, number: int, atoms: Tensor
) -> tuple[Tensor, dict[str, float]]:
    """Return one rule's embedding, edge by edge as in the definition of graph attention, and its
    attention to those of its conditions that are on, as means over heads."""
    rule = graph.rules[number]
    own = stream.operator[graph.rule_operator[number]] + stream.variant[number]
    layer = stream.hear_effects

    def heads(x: Tensor) -> Tensor:
        projected: Tensor = layer.project(x)
        return projected.view(HEADS, -1)

    def logit(source: Tensor, relation: int) -> Tensor:
        pull = (heads(source) * layer.source).sum(1) + (heads(own) * layer.target).sum(1)
        return F.leaky_relu(pull + layer.relation[relation], SLOPE)

    joined = [(graph.effects.index(name), 0) for name in rule.effects]
    joined += [(graph.effects.index(name), 1) for name in rule.risks]
    logits = [logit(own, 2)] + [logit(stream.effect[e], relation) for e, relation in joined]
    values = [heads(own)] + [heads(stream.effect[e]) for e, _ in joined]
    own = layer.updated(own, attended(logits, values).flatten())
    layer = stream.hear_conditions
    named = ((rule.pre, 0), (rule.context, 1), (rule.forbids, 2))
    places = [(ATOM_NAMES.index(name), relation) for names, relation in named for name in names]
    seen = [
        (stream.condition[place] + stream.state[int(atoms[place])], relation)
        for place, relation in places
    ]
    logits = [logit(own, 3)] + [logit(source, relation) for source, relation in seen]
    values = [heads(own)] + [heads(source) for source, _ in seen]
    shares = torch.softmax(torch.stack(logits), 0).mean(1)[1:].tolist()
    on = {
        ATOM_NAMES[place]: share
        for (place, _), share in zip(places, shares, strict=True)
        if atoms[place]
    }
    return layer.updated(own, attended(logits, values).flatten()), on


def test_the_stream_is_the_attention_it_claims_to_be(graph: RuleGraph, stream: GraphStream) -> None:
    atoms = atom_sets(3).double()
    with torch.no_grad():
        fast, other = stream.forward(atoms), stream.speak(atoms, stream.voices())
        torch.testing.assert_close(other.score, fast.score)
        torch.testing.assert_close(other.intent, fast.intent)
        torch.testing.assert_close(other.spread, fast.spread)
        for row, chosen in enumerate(atoms):
            slow = [slow_rule(stream, graph, number, chosen) for number in range(len(graph.rules))]
            found = torch.stack([rule for rule, _ in slow])
            match = RuleMatch(graph).double().forward(chosen.unsqueeze(0)).squeeze(0)
            asked = stream.ask(found) / math.sqrt(HEADS) + 2.0 * match.unsqueeze(1)
            heard = [
                (torch.softmax(asked[:, head], 0).unsqueeze(1) * part).sum(0)
                for head, part in enumerate(found.view(-1, HEADS, SIZE // HEADS).unbind(1))
            ]
            torch.testing.assert_close(fast.score[row], asked.mean(1))
            torch.testing.assert_close(fast.intent[row], stream.readout(torch.cat(heard)))
            shown = stream.attention(chosen)
            torch.testing.assert_close(shown.score, asked.mean(1))
            torch.testing.assert_close(shown.rules, torch.softmax(asked, 0).mean(1))
            expected = {
                (n, name): one for n, (_, on) in enumerate(slow) for name, one in on.items()
            }
            edges = zip(
                stream.condition_rule.tolist(),
                stream.condition_atom.tolist(),
                shown.conditions.tolist(),
                strict=True,
            )
            drawn = {(rule, ATOM_NAMES[atom]): one for rule, atom, one in edges if one}
            assert drawn == pytest.approx(expected)


def test_different_atoms_make_different_intents_and_rules_score_differently(
    graph: RuleGraph,
) -> None:
    torch.manual_seed(2)
    plain = GraphStream(graph, size=64, heads=4, rule_boost=0.0)
    with torch.no_grad():
        said = plain.forward(atom_sets(20).float())
    apart = torch.cdist(said.intent, said.intent) + torch.eye(20)
    assert float(apart.min()) > 1e-3
    spread = said.score.std(1) / said.score.abs().mean(1)
    assert float(spread.min()) > 0.05


def test_both_ways_of_working_it_out_have_the_same_gradients(stream: GraphStream) -> None:
    atoms = atom_sets(12).double()
    found = []
    for said in (stream.forward(atoms), stream.speak(atoms, stream.voices())):
        loss = said.intent.square().sum() + said.score.sin().sum()
        found.append(torch.autograd.grad(loss, list(stream.parameters())))
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other)


def test_rules_match_as_they_are_read(graph: RuleGraph) -> None:
    atoms = atom_sets(40, share=0.35)
    found = RuleMatch(graph).forward(atoms.float())
    held = 0
    for row, chosen in enumerate(atoms):
        there = {name for name, bit in zip(ATOM_NAMES, chosen.tolist(), strict=True) if bit}
        for number, rule in enumerate(graph.rules):
            holds = there.issuperset(rule.pre) and there.isdisjoint(rule.forbids)
            share = len(there.intersection(rule.context)) / max(len(rule.context), 1)
            worth = rule.prior * (SUPPORTED + (1 - SUPPORTED) * share) if holds else 0.0
            assert float(found[row, number]) == pytest.approx(worth, abs=1e-6)
            held += holds
    assert held > 0


def test_a_rule_that_holds_raises_the_score_of_its_operator(graph: RuleGraph) -> None:
    torch.manual_seed(2)
    stream = GraphStream(graph, size=64, heads=4, rule_boost=2.0)
    with torch.no_grad():
        said = stream.forward(atom_sets(30, share=0.35).float())
    match = RuleMatch(graph).forward(atom_sets(30, share=0.35).float())
    holding, idle = said.score[match > 0.3], said.score[match == 0]
    assert float(holding.mean()) > float(idle.mean()) + 0.3


def test_equal_sets_are_found_once() -> None:
    sets = atom_sets(6)
    atoms = sets[torch.tensor([0, 1, 0, 2, 5, 5, 1, 3, 4])]
    found = distinct(atoms)
    assert found.atoms.shape[0] == 6
    assert torch.equal(found.atoms[found.index], atoms.float())


def test_the_memo_says_what_the_graph_says_and_asks_it_once(graph: RuleGraph) -> None:
    torch.manual_seed(2)
    stream, memo = GraphStream(graph, size=64, heads=4, rule_boost=2.0), Memo()
    atoms = atom_sets(20)[torch.arange(60) % 20]
    with torch.no_grad():
        straight, kept = stream.forward(atoms.float()), memo.spoken(stream, atoms)
        again = memo.spoken(stream, atoms)
    torch.testing.assert_close(kept.intent, straight.intent, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(kept.score, straight.score, atol=1e-5, rtol=1e-5)
    assert torch.equal(kept.intent, again.intent)
    assert (memo.asked, memo.missed) == (120, 20)


def test_a_rule_that_drowns_all_others_out_leaves_the_rest_of_the_sets_audible(
    graph: RuleGraph,
) -> None:
    torch.manual_seed(2)
    stream = GraphStream(graph, size=16, heads=4, rule_boost=2.0)
    atoms = atom_sets(20).float()
    with torch.no_grad():
        stream.ask.weight.mul_(1000.0)
        for said in (stream.forward(atoms), stream.speak(atoms, stream.voices())):
            assert all(torch.isfinite(part).all() for part in (said.intent, said.spread))


def test_the_memo_forgets_when_the_weights_move(graph: RuleGraph) -> None:
    torch.manual_seed(2)
    stream, memo = GraphStream(graph, size=64, heads=4, rule_boost=2.0), Memo()
    atoms = atom_sets(4)
    with torch.no_grad():
        before = memo.spoken(stream, atoms)
        stream.condition.add_(0.1)
        after = memo.spoken(stream, atoms)
        straight = stream.forward(atoms.float())
    assert not torch.allclose(before.intent, after.intent)
    torch.testing.assert_close(after.intent, straight.intent, atol=1e-5, rtol=1e-5)


def test_what_the_memo_says_does_not_depend_on_what_was_asked_before(graph: RuleGraph) -> None:
    torch.manual_seed(2)
    stream = GraphStream(graph, size=64, heads=4, rule_boost=2.0)
    sets = atom_sets(5 * BATCH)
    with torch.no_grad():
        together = Memo().spoken(stream, sets)
        one_by_one = Memo()
        for shift, row in enumerate(torch.randperm(len(sets)).tolist()):
            alone = one_by_one.spoken(stream, sets[row : row + 1 + shift % 3])
            assert torch.equal(alone.intent, together.intent[row : row + 1 + shift % 3])
            assert torch.equal(alone.score, together.score[row : row + 1 + shift % 3])

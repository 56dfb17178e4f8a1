from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from longhaul.core.errors import ConfigError
from longhaul.tasks.nethack.policy.incidence import Patterns, RuleMatch, condition_edges
from longhaul.tasks.nethack.vocabulary import ATOM_NAMES
from tests.tasks.nethack.policy.players import atom_sets, rules


def test_a_pattern_is_which_of_a_rules_own_conditions_are_on() -> None:
    graph = rules()
    edges = condition_edges(graph)
    patterns = Patterns(graph, edges)
    atoms = atom_sets(30, share=0.35)
    number = patterns.forward(atoms.float())
    for row, chosen in enumerate(atoms):
        there = {name for name, bit in zip(ATOM_NAMES, chosen.tolist(), strict=True) if bit}
        for place, rule in enumerate(graph.rules):
            found = int(number[row, place])
            assert int(patterns.rule[found]) == place
            on = {ATOM_NAMES[atom] for atom in edges.other[patterns.on[found]].tolist()}
            assert on == there & {*rule.pre, *rule.context, *rule.forbids}
            assert set(edges.rule[patterns.on[found]].tolist()) <= {place}


def test_a_pattern_is_worth_what_its_rule_is_in_every_set_that_shows_it() -> None:
    graph = rules()
    patterns = Patterns(graph, condition_edges(graph))
    atoms = atom_sets(40, share=0.35).float()
    torch.testing.assert_close(patterns.match(atoms), RuleMatch(graph).forward(atoms))


def test_every_pattern_of_every_rule_has_a_number_of_its_own() -> None:
    graph = rules()
    patterns = Patterns(graph, condition_edges(graph))
    named = [len({*rule.pre, *rule.context, *rule.forbids}) for rule in graph.rules]
    assert len(patterns.rule) == sum(2**count for count in named)
    together = torch.cat([patterns.rule.unsqueeze(1), patterns.on.long()], 1)
    assert len(torch.unique(together, dim=0)) == len(together)


def test_rules_that_name_too_many_atoms_are_refused() -> None:
    graph = rules()
    wordy = replace(graph.rules[0], pre=(), forbids=(), context=ATOM_NAMES[:20])
    greedy = replace(graph, rules=(wordy, *graph.rules[1:]))
    with pytest.raises(ConfigError, match="16,384 is the most"):
        Patterns(greedy, condition_edges(greedy))

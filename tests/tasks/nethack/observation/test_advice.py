from __future__ import annotations

import numpy as np
import pytest

from longhaul.core.env import Array
from longhaul.tasks.nethack.observation.numbers import RULES
from longhaul.tasks.nethack.rules import read_rules
from longhaul.tasks.nethack.vocabulary import (
    ACTIONS,
    ATOM_BITS,
    ATOM_INDEX,
    ATOMS,
    EXPERTS,
    PLAYER_ATOMS,
    STATE,
)
from tests.tasks.nethack.games import drawn_actions, opened
from tests.tasks.nethack.matching import Matcher, Query

GRAPH = read_rules()


def test_atoms_of_the_player_come_first() -> None:
    kinds = [atom.kind for atom in ATOMS]
    assert kinds == ["player"] * PLAYER_ATOMS + ["scene"] * (len(ATOMS) - PLAYER_ATOMS)
    assert max(PLAYER_ATOMS, len(ATOMS) - PLAYER_ATOMS) <= 64


def strengths(atoms: Array) -> Array:
    """Return how much the best rule of each expert is wanted, rule by rule."""
    found = np.zeros(len(EXPERTS))
    for number, rule in enumerate(GRAPH.rules):
        there = [bool(atoms[ATOM_INDEX[name]]) for name in rule.pre]
        against = [bool(atoms[ATOM_INDEX[name]]) for name in rule.forbids]
        if not all(there) or any(against):
            continue
        context = [atoms[ATOM_INDEX[name]] for name in rule.context]
        support = sum(context) / len(context) if context else 1.0
        expert = GRAPH.rule_expert[number]
        found[expert] = max(found[expert], rule.prior * (0.5 + 0.5 * support))
    return found


@pytest.mark.nethack
def test_native_advice_is_that_of_the_rules() -> None:
    game = opened()
    matcher = Matcher(GRAPH)
    for _ in game.play(41, drawn_actions(150, 41)):
        atoms = game.slots.obs[ATOM_BITS]
        figures = game.slots.obs[STATE][0, RULES:]
        assert figures[:4] == pytest.approx(strengths(atoms[0]), abs=1e-6)
        match = matcher.match(Query.of_atoms(atoms, GRAPH))
        assert figures[4] == pytest.approx(match.confidence[0], abs=1e-6)
    game.env.close()


@pytest.mark.nethack
def test_actions_without_aim_are_open_exactly_where_a_rule_speaks_for_them() -> None:
    game = opened()
    matcher = Matcher(GRAPH)
    aimless = [ACTIONS.index(name) for name in ("up", "down", "wait", "kick", "eat", "search")]
    bound = 0
    for _ in game.play(42, drawn_actions(200, 42)):
        atoms, mask = game.slots.obs[ATOM_BITS], game.slots.mask
        assert mask is not None
        assert mask[0, 0]
        asked = any(
            atoms[0, ATOM_INDEX[f"prompt_{kind}"]] for kind in ("direction", "item", "confirm")
        )
        operators = GRAPH.rule_operator[matcher.holding(atoms)[0]]
        allowed = GRAPH.operator_actions[operators].any(0)
        if asked or not allowed.any():
            assert mask.all()
            continue
        assert mask[0, aimless].tolist() == allowed[aimless].tolist()
        bound += not mask.all()
    assert bound > 100
    game.env.close()

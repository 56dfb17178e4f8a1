from __future__ import annotations

import math
import time

import numpy as np
import pytest

from longhaul.tasks.nethack.rules import read_rules
from longhaul.tasks.nethack.vocabulary import ATOM_COUNT, ATOM_NAMES, ATOMS
from tests.tasks.nethack.matching import BEST, CHANNELS, WEIGHTS, Matcher, Query

GRAPH = read_rules()
MATCHER = Matcher(GRAPH)
PLAYER = {atom.name for atom in ATOMS if atom.kind == "player"}
SPOKEN = [(rule, set(rule.pre) | set(rule.context)) for rule in GRAPH.rules]


def random_query(count: int, seed: int) -> Query:
    generator = np.random.default_rng(seed)

    def bits(width: int, share: float) -> np.ndarray:
        return (generator.random((count, width)) < share).astype(np.uint8)

    effects = len(GRAPH.effects)
    return Query(bits(ATOM_COUNT, 0.2), bits(effects, 0.05), bits(effects, 0.02))


def by_sets(query: Query, row: int, age: float = 0.0) -> list[tuple[float, tuple[float, ...]]]:
    """Return score and coverages of each rule, as the formula says it."""
    atoms = {name for name, bit in zip(ATOM_NAMES, query.atoms[row], strict=True) if bit}
    wanted = {name for name, bit in zip(GRAPH.effects, query.effects[row], strict=True) if bit}
    risked = {name for name, bit in zip(GRAPH.effects, query.risks[row], strict=True) if bit}
    found = []
    for rule, spoken in SPOKEN:
        pairs = (
            (atoms & PLAYER, spoken & PLAYER),
            (atoms - PLAYER, spoken - PLAYER),
            (wanted, set(rule.effects)),
            (risked, set(rule.risks)),
        )
        shares = tuple(len(asked & known) / len(asked) if asked else 0.0 for asked, known in pairs)
        score = sum(w * share for w, share in zip(WEIGHTS, shares, strict=True))
        found.append((math.exp(-age / 200) * score, shares))
    return found


def test_the_matrices_match_as_sets_do() -> None:
    query = random_query(1000, 7)
    match = MATCHER.match(query)
    expected = [by_sets(query, row) for row in range(1000)]
    scores = np.array([[score for score, _ in one] for one in expected])
    np.testing.assert_allclose(match.score, scores)
    shares = np.array([[shares for _, shares in one] for one in expected])
    np.testing.assert_allclose(match.coverage, shares)
    np.testing.assert_allclose(match.confidence, np.sort(scores, axis=1)[:, -BEST:].mean(axis=1))


def test_a_rule_not_met_for_long_counts_less() -> None:
    query = random_query(1, 3)
    ages = np.full((1, len(GRAPH.rules)), 200.0)
    faded = MATCHER.match(query, ages)
    assert faded.score[0] == pytest.approx([score for score, _ in by_sets(query, 0, 200.0)])


def test_nothing_asked_matches_nothing() -> None:
    nothing = np.zeros((2, ATOM_COUNT), np.uint8)
    match = MATCHER.match(Query.of_atoms(nothing, GRAPH))
    assert not match.score.any()
    assert match.best.tolist() == [list(range(BEST))] * 2


def test_without_wishes_the_best_score_is_seven_tenths() -> None:
    match = MATCHER.match(Query.of_atoms(GRAPH.pre | GRAPH.context, GRAPH))
    own = match.score[np.arange(len(GRAPH.rules)), np.arange(len(GRAPH.rules))]
    assert own.max() == pytest.approx(0.7)
    assert match.champions.shape == (len(GRAPH.rules), len(CHANNELS))
    assert match.channel.max() < 2


def test_rules_hold_where_all_they_need_is_there_and_nothing_they_forbid() -> None:
    query = random_query(300, 11)
    query.atoms[:142] |= GRAPH.pre
    holds = MATCHER.holding(query.atoms)
    for row, bits in enumerate(query.atoms):
        atoms = {name for name, bit in zip(ATOM_NAMES, bits, strict=True) if bit}
        expected = [
            set(rule.pre) <= atoms and not set(rule.forbids) & atoms for rule in GRAPH.rules
        ]
        assert holds[row].tolist() == expected
    assert holds.any()


def test_a_match_costs_less_than_a_tenth_of_a_millisecond_per_situation() -> None:
    query = random_query(512, 1)
    MATCHER.match(query)
    begin = time.process_time()
    MATCHER.match(query)
    assert (time.process_time() - begin) / 512 < 1e-4

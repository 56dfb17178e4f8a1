"""How well rules match what is the case, for many situations at once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from longhaul.tasks.nethack.rules import RuleGraph
from longhaul.tasks.nethack.vocabulary import ATOMS

CHANNELS = ("pre", "scene", "effect", "rule")
WEIGHTS = (0.35, 0.35, 0.20, 0.10)
"""How much the player's atoms, the scene's, effects and side effects count."""
BEST = 8
FADE_STEPS = 200.0
"""Steps after which a rule that was not met counts a third, where ages are given."""

Bits = NDArray[np.bool_]
Numbers = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Query:
    """What is asked of all rules, one row per situation."""

    atoms: NDArray[np.uint8]  # [N, atoms]
    effects: NDArray[np.uint8]  # [N, effects]: what is wanted
    risks: NDArray[np.uint8]  # [N, effects]: what is put up with

    @staticmethod
    def of_atoms(atoms: NDArray[np.uint8], graph: RuleGraph) -> Query:
        """Return the query for what is the case, whatever is wanted."""
        nothing = np.zeros((len(atoms), len(graph.effects)), np.uint8)
        return Query(atoms, nothing, nothing)


@dataclass(frozen=True, slots=True)
class Match:
    """How well each rule matches each situation."""

    coverage: Numbers  # [N, rules, channels]: the share of a channel's query a rule speaks of
    score: Numbers  # [N, rules]
    best: NDArray[np.int64]  # [N, 8]: the rules of the highest scores, best first

    @property
    def confidence(self) -> Numbers:
        """[N], the mean of the best scores."""
        mean: Numbers = np.take_along_axis(self.score, self.best, 1).mean(1)
        return mean

    @property
    def channel(self) -> NDArray[np.int64]:
        """[N, rules], the channel in which each rule matches best."""
        channel: NDArray[np.int64] = self.coverage.argmax(2)
        return channel

    @property
    def champions(self) -> NDArray[np.int64]:
        """[N, channels], the rule that matches best in each channel."""
        champions: NDArray[np.int64] = self.coverage.argmax(1)
        return champions


@dataclass(frozen=True)
class Matcher:
    """Matches all rules with all situations by one product of matrices per channel."""

    graph: RuleGraph

    @cached_property
    def _spoken(self) -> tuple[Numbers, ...]:
        """[columns, rules] of each channel, 1 where a rule speaks of something."""
        atoms = (self.graph.pre | self.graph.context).astype(np.float64)
        player = np.array([atom.kind == "player" for atom in ATOMS])
        return (
            np.where(player, atoms, 0.0).T,
            np.where(player, 0.0, atoms).T,
            self.graph.effect_bits.astype(np.float64).T,
            self.graph.risk_bits.astype(np.float64).T,
        )

    def match(self, query: Query, ages: Numbers | None = None) -> Match:
        """Return the match of every rule; `ages` [N, rules] are steps since a rule was met."""
        player = np.array([atom.kind == "player" for atom in ATOMS])
        asked = (
            np.where(player, query.atoms, 0),
            np.where(player, 0, query.atoms),
            query.effects,
            query.risks,
        )
        coverage = np.stack(
            [
                (one @ spoken) / np.maximum(one.sum(1, keepdims=True), 1)
                for one, spoken in zip(asked, self._spoken, strict=True)
            ],
            axis=2,
        )
        score: Numbers = coverage @ np.array(WEIGHTS)
        if ages is not None:
            score = score * np.exp(-ages / FADE_STEPS)
        # Stable, so that of equals the one that stands first in the file wins.
        best = np.argsort(-score, axis=1, kind="stable")[:, :BEST]
        return Match(coverage, score, best)

    def holding(self, atoms: NDArray[np.uint8]) -> Bits:
        """Return [N, rules], True where all that a rule needs is there and nothing it forbids."""
        there = atoms.astype(np.float64)
        needs = self.graph.pre.astype(np.float64)
        vetoes = self.graph.forbids.astype(np.float64)
        holds: Bits = (there @ needs.T == needs.sum(1)) & (there @ vetoes.T == 0)
        return holds

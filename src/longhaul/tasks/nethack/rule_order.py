"""What the rules alone would choose: of all skills that apply, the one they call for most."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from longhaul.core.env import Array
from longhaul.core.errors import ConfigError, suggestion
from longhaul.tasks.nethack.rules import RuleGraph

UNWANTED = -1.0
"""The score of a skill none of whose rules holds."""
CLOSED = -2.0
"""The score of a skill that does not apply."""


class RuleOrder:
    """Scores skills by the rules that hold; some skills may be left out."""

    def __init__(self, graph: RuleGraph, *, without: Sequence[str] = ()) -> None:
        for name in without:
            if name not in graph.operator_names:
                raise ConfigError(
                    f"there is no skill {name!r}{suggestion(name, graph.operator_names)}"
                )
        self._pre = graph.pre.T.astype(np.float32)
        self._needed = graph.pre.sum(1).astype(np.float32)
        share = graph.context / np.maximum(graph.context.sum(1, keepdims=True), 1)
        self._context = share.T.astype(np.float32)
        self._bare = graph.context.sum(1) == 0
        self._forbids = graph.forbids.T.astype(np.float32)
        self._prior = graph.prior
        self._rules_of = [
            np.flatnonzero(graph.rule_operator == operator)
            for operator in range(len(graph.operators))
        ]
        self._left_out = [graph.operator_names.index(name) for name in without]

    def scores(self, atoms: Array, mask: Array) -> NDArray[np.float32]:
        """Return [N, skills] for atoms [N, C] and a mask [N, skills] of what applies."""
        held = atoms.astype(np.float32)
        holds = (held @ self._pre >= self._needed) & (held @ self._forbids < 1)
        support = np.where(self._bare, 1.0, held @ self._context)
        worth = np.where(holds, self._prior * (0.5 + 0.5 * support), UNWANTED)  # [N, rules]
        skills = mask.shape[1]
        found = np.stack([worth[:, rules].max(1) for rules in self._rules_of[:skills]], 1)
        found[~mask] = CLOSED
        open_left_out = [skill for skill in self._left_out if skill < skills]
        found[:, open_left_out] = np.minimum(found[:, open_left_out], UNWANTED - 0.5)
        return found.astype(np.float32)

    def choose(self, atoms: Array, mask: Array) -> NDArray[np.int64]:
        """Return the choice [N] of the rules."""
        return np.asarray(self.scores(atoms, mask).argmax(1), np.int64)

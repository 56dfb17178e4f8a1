"""The rule hypergraph: which conditions call for which operator, and what that brings.

A graph is one TOML file with three tables: `effects`, `operators` and `rules`. A rule holds when
all of its `pre` atoms are there and none of its `forbids`; `context` atoms support it.
"""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from longhaul.core.config import convert
from longhaul.core.errors import ConfigError
from longhaul.tasks.nethack.vocabulary import (
    ACTION_COUNT,
    ACTIONS,
    ATOM_COUNT,
    ATOM_INDEX,
    EXPERTS,
    MOVES,
    RUNS,
)

Aim = Literal["any", "open", "hostile", "away", "frontier", "down", "object", "door"]
AIMS: tuple[Aim, ...] = ("any", "open", "hostile", "away", "frontier", "down", "object", "door")
"""Which of its moves an operator means: all, those into free cells, towards a hostile monster,
away from them, the next one on the path to the frontier, to the way down, to an object, or those
towards a closed door."""
GROUPS = {"moves": tuple(MOVES), "runs": tuple(RUNS)}
OWN_RULES = Path(__file__).parent / "rules.toml"

Bits = NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Operator:
    """Something a player can set out to do, and the expert it belongs to."""

    name: str
    expert: str
    summary: str
    actions: tuple[str, ...] = ()
    """Names of actions, or `moves` and `runs`; empty if none of the 23 actions can do it."""
    aim: Aim = "any"

    @property
    def action_ids(self) -> tuple[int, ...]:
        """The numbers of its actions."""
        found: list[int] = []
        for name in self.actions:
            found.extend(GROUPS.get(name) or (ACTIONS.index(name),))
        return tuple(found)


@dataclass(frozen=True, slots=True)
class Rule:
    """One hyperedge: conditions, an operator, and effects."""

    operator: str
    pre: tuple[str, ...]
    """Atoms that must all hold."""
    effects: tuple[str, ...] = ()
    context: tuple[str, ...] = ()
    """Atoms that support it."""
    forbids: tuple[str, ...] = ()
    """Atoms of which none may hold."""
    risks: tuple[str, ...] = ()
    """Effects it may have that nobody wants."""
    prior: float = 0.5
    """How much a player would want it, from 0 to 1, where it holds."""
    safety: float = 0.5
    """How safe it is, from 0 to 1."""

    @property
    def conditions(self) -> tuple[str, ...]:
        """Atoms that speak for it."""
        return (*self.pre, *self.context)


@dataclass(frozen=True, slots=True)
class _File:
    effects: dict[str, str]
    operators: dict[str, dict[str, Any]]
    rules: tuple[Rule, ...]
    version: str = "1"


@dataclass(frozen=True)
class RuleGraph:
    """All rules, by name and as matrices whose rows are the rules in the file's order."""

    operators: tuple[Operator, ...]
    effects: tuple[str, ...]
    rules: tuple[Rule, ...]
    meanings: dict[str, str] = field(default_factory=dict)
    """What each effect means."""

    @cached_property
    def digest(self) -> str:
        """A hash of everything that decides what the graph does; comments and order of keys do
        not."""
        plain = msgspec.to_builtins((self.operators, self.effects, self.rules))
        return hashlib.sha256(msgspec.json.encode(plain, order="deterministic")).hexdigest()

    @cached_property
    def operator_names(self) -> tuple[str, ...]:
        """The operators in the order of their numbers."""
        return tuple(operator.name for operator in self.operators)

    @cached_property
    def pre(self) -> Bits:
        """[rules, atoms], 1 where a rule needs the atom."""
        return self._atoms([rule.pre for rule in self.rules])

    @cached_property
    def context(self) -> Bits:
        """[rules, atoms], 1 where the atom supports a rule."""
        return self._atoms([rule.context for rule in self.rules])

    @cached_property
    def forbids(self) -> Bits:
        """[rules, atoms], 1 where the atom vetoes a rule."""
        return self._atoms([rule.forbids for rule in self.rules])

    @cached_property
    def effect_bits(self) -> Bits:
        """[rules, effects], 1 for what a rule brings."""
        return _incidence([rule.effects for rule in self.rules], self.effects)

    @cached_property
    def risk_bits(self) -> Bits:
        """[rules, effects], 1 for what a rule may bring though nobody wants it."""
        return _incidence([rule.risks for rule in self.rules], self.effects)

    @cached_property
    def rule_operator(self) -> NDArray[np.int64]:
        """[rules], the number of each rule's operator."""
        return np.array([self.operator_names.index(rule.operator) for rule in self.rules], np.int64)

    @cached_property
    def operator_expert(self) -> NDArray[np.int64]:
        """[operators], the number of each operator's expert."""
        return np.array([EXPERTS.index(one.expert) for one in self.operators], np.int64)

    @cached_property
    def rule_expert(self) -> NDArray[np.int64]:
        """[rules], the number of each rule's expert."""
        return self.operator_expert[self.rule_operator]

    @cached_property
    def operator_actions(self) -> NDArray[np.bool_]:
        """[operators, actions], True for the actions an operator may take."""
        allowed = np.zeros((len(self.operators), ACTION_COUNT), np.bool_)
        for row, operator in enumerate(self.operators):
            allowed[row, list(operator.action_ids)] = True
        return allowed

    @cached_property
    def prior(self) -> NDArray[np.float32]:
        """[rules]."""
        return np.array([rule.prior for rule in self.rules], np.float32)

    @cached_property
    def safety(self) -> NDArray[np.float32]:
        """[rules]."""
        return np.array([rule.safety for rule in self.rules], np.float32)

    def _atoms(self, names: Sequence[Sequence[str]]) -> Bits:
        found = np.zeros((len(names), ATOM_COUNT), np.uint8)
        for row, atoms in enumerate(names):
            found[row, [ATOM_INDEX[atom] for atom in atoms]] = 1
        return found


def _incidence(names: Sequence[Sequence[str]], vocabulary: Sequence[str]) -> Bits:
    places = {name: place for place, name in enumerate(vocabulary)}
    found = np.zeros((len(names), len(vocabulary)), np.uint8)
    for row, chosen in enumerate(names):
        found[row, [places[name] for name in chosen]] = 1
    return found


def parse_rules(text: str, *, source: str = "the rules") -> RuleGraph:
    """Return the graph of a TOML text whose shape is right; `lint` tells whether it makes sense."""
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{source}: not a TOML file: {error}") from None
    try:
        file = convert(values, _File)
        operators = tuple(
            convert({"name": name, **table}, Operator, where=f"operators.{name}")
            for name, table in file.operators.items()
        )
    except ConfigError as error:
        raise ConfigError(f"{source}: {error}") from None
    return RuleGraph(operators, tuple(file.effects), file.rules, file.effects)

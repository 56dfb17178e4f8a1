"""The rule hypergraph: which conditions call for which operator, and what that brings.

A graph is one TOML file with three tables: `effects`, `operators` and `rules`. A rule holds when
all of its `pre` atoms are there and none of its `forbids`; `context` atoms support it.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from longhaul.core.config import convert, parse_toml
from longhaul.core.errors import ConfigError, suggestion
from longhaul.core.evaluation import Records
from longhaul.core.metrics import Panel
from longhaul.tasks.nethack.skills import SKILL_NAMES
from longhaul.tasks.nethack.vocabulary import (
    ATOM_INDEX,
    ATOM_NAMES,
    EXPERTS,
    EXTENDED_ACTIONS,
    MOVES,
    RUNS,
    SKILL_ATOM_NAMES,
)

Aim = Literal["any", "open", "hostile", "away", "frontier", "down", "object", "door"]
AIMS: tuple[Aim, ...] = ("any", "open", "hostile", "away", "frontier", "down", "object", "door")
"""Which of its moves an operator means: all, those into free cells, towards a hostile monster,
away from them, the next one on the path to the frontier, to the way down, to an object, or those
towards a closed door."""
Over = Literal["keys", "skills"]  # what operators stand for
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
            found.extend(GROUPS.get(name) or (EXTENDED_ACTIONS.index(name),))
        return tuple(found)


@dataclass(frozen=True, slots=True)
class NetHackRule:
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
    """Unwanted effects it may have."""
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
    rules: tuple[NetHackRule, ...]
    version: str = "1"
    over: Over = "keys"


@dataclass(frozen=True)
class RuleGraph:
    """All rules, by name and as matrices whose rows are the rules in the file's order."""

    operators: tuple[Operator, ...]
    effects: tuple[str, ...]
    rules: tuple[NetHackRule, ...]
    meanings: dict[str, str] = field(default_factory=dict)
    """What each effect means."""
    over: Over = "keys"
    """Whether the operators are skills; they then have the skills' order."""

    @property
    def atom_names(self) -> tuple[str, ...]:
        """The atoms that rules may name, in their order in an observation."""
        return SKILL_ATOM_NAMES if self.over == "skills" else ATOM_NAMES

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
        """[rules, effects], 1 for unwanted effects of a rule."""
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
        allowed = np.zeros((len(self.operators), len(EXTENDED_ACTIONS)), np.bool_)
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

    def shuffled(self, seed: int) -> RuleGraph:
        """Return the graph with wrong content: each operator has another one's rules."""
        names = self.operator_names
        other = dict(zip(names, np.random.default_rng(seed).permutation(names), strict=True))
        rules = tuple(replace(rule, operator=str(other[rule.operator])) for rule in self.rules)
        return replace(self, rules=rules)

    def _atoms(self, names: Sequence[Sequence[str]]) -> Bits:
        found = np.zeros((len(names), len(self.atom_names)), np.uint8)
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
    """Return the graph of a TOML text whose shape is valid; `lint` checks its content."""
    try:
        values = parse_toml(text)
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
    if file.over == "skills":
        order = [*SKILL_NAMES, *(one.name for one in operators)]
        operators = tuple(sorted(operators, key=lambda one: order.index(one.name)))
    return RuleGraph(operators, tuple(file.effects), file.rules, file.effects, file.over)


RULES_FILE = "rules.jsonl"
PANEL = Panel(
    "What the rules say",
    ("conditions", "operator", "effects", "expert"),
    kind="graph",
    name="rules",
    records=f"evaluations/{RULES_FILE}",
    note="what the player may know of a moment, what it then can set out to do, what that brings",
)


def rule_records(graph: RuleGraph) -> Records:
    """Return one line per rule, and the digest of them all in each."""
    lines = (
        json.dumps(
            {
                "rule": number,
                "operator": rule.operator,
                "expert": graph.operators[graph.rule_operator[number]].expert,
                "conditions": list(rule.conditions),
                "forbids": list(rule.forbids),
                "effects": list(rule.effects),
                "risks": list(rule.risks),
                "digest": graph.digest,
            }
        )
        for number, rule in enumerate(graph.rules)
    )
    return {RULES_FILE: "\n".join(lines) + "\n"}


FEWEST_OPERATORS = 5
"""Operators each expert must own: none is idle by design."""

EXCLUSIVE = (
    ("hp_full", "hp_good", "hp_medium", "hp_low", "hp_critical"),
    ("hunger_satiated", "hunger_none", "hunger_hungry", "hunger_weak"),
    ("ac_poor", "ac_good"),
    ("experience_novice", "experience_seasoned", "experience_veteran"),
    ("depth_first", "depth_shallow", "depth_middle", "depth_deep"),
    ("in_mines", "in_sokoban"),
    ("on_stairs_down", "on_stairs_up", "on_trap", "on_doorway"),
    ("prompt_direction", "prompt_item", "prompt_confirm"),
)
"""Atoms of which at most one holds at a time."""


def lint(graph: RuleGraph) -> tuple[str, ...]:
    """Return every fault of a graph, in words; empty if it is fit for use."""
    names = tuple(_unknown_names(graph))
    # The other checks look names up, so they would only repeat what an unknown name breaks.
    checks = (*CHECKS, *(SKILL_CHECKS if graph.over == "skills" else KEY_CHECKS))
    return names or tuple(itertools.chain.from_iterable(check(graph) for check in checks))


def read_rules(path: Path = OWN_RULES) -> RuleGraph:
    """Return the graph of a file; one with faults is refused, with all of them."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"the rules cannot be read from {path}: {error.strerror}") from None
    graph = parse_rules(text, source=path.name)
    faults = lint(graph)
    if faults:
        listed = "\n".join(f"- {fault}" for fault in faults)
        raise ConfigError(f"{path.name} has faults ({len(faults)}):\n{listed}")
    return graph


def _unknown_names(graph: RuleGraph) -> Iterator[str]:
    for operator in graph.operators:
        yield from _missing(f"operator {operator.name}", "expert", [operator.expert], EXPERTS)
        known = (*EXTENDED_ACTIONS, *GROUPS)
        yield from _missing(f"operator {operator.name}", "action", operator.actions, known)
    for number, rule in enumerate(graph.rules):
        where = _where(number, rule)
        yield from _missing(where, "operator", [rule.operator], graph.operator_names)
        yield from _missing(where, "atom", (*rule.conditions, *rule.forbids), graph.atom_names)
        yield from _missing(where, "effect", (*rule.effects, *rule.risks), graph.effects)


def _missing(where: str, kind: str, names: Sequence[str], known: Sequence[str]) -> Iterator[str]:
    for name in names:
        if name not in known:
            yield f"{where}: there is no {kind} {name!r}{suggestion(name, known)}"


def _where(number: int, rule: NetHackRule) -> str:
    return f"rule {number + 1} ({rule.operator})"


def _repeated_rules(graph: RuleGraph) -> Iterator[str]:
    seen: dict[object, int] = {}
    for number, rule in enumerate(graph.rules):
        key = (rule.operator, *map(frozenset, (rule.pre, rule.context, rule.forbids)))
        if key in seen:
            yield f"{_where(number, rule)} says the same as rule {seen[key] + 1}"
        seen.setdefault(key, number)


def _repeated_names(graph: RuleGraph) -> Iterator[str]:
    for number, rule in enumerate(graph.rules):
        named = Counter((*rule.conditions, *rule.forbids))
        for name in (name for name, count in named.items() if count > 1):
            yield f"{_where(number, rule)} names {name!r} more than once"


def _impossible_rules(graph: RuleGraph) -> Iterator[str]:
    for number, rule in enumerate(graph.rules):
        if not rule.pre:
            yield f"{_where(number, rule)} needs at least one atom in pre"
        for group in EXCLUSIVE:
            both = [atom for atom in rule.pre if atom in group]
            if len(both) > 1:
                yield f"{_where(number, rule)} can never hold: {' and '.join(both)} exclude"
        if not (0 <= rule.prior <= 1 and 0 <= rule.safety <= 1):
            yield f"{_where(number, rule)}: prior and safety go from 0 to 1"


def _idle_operators(graph: RuleGraph) -> Iterator[str]:
    used = {rule.operator for rule in graph.rules}
    for name in graph.operator_names:
        if name not in used:
            yield f"operator {name} is reached by no rule"


def _idle_atoms(graph: RuleGraph) -> Iterator[str]:
    used = {atom for rule in graph.rules for atom in rule.conditions}
    for name in graph.atom_names:
        if name not in used:
            yield f"atom {name} leads to no operator"


def _idle_effects(graph: RuleGraph) -> Iterator[str]:
    used = {effect for rule in graph.rules for effect in (*rule.effects, *rule.risks)}
    for name in graph.effects:
        if name not in used:
            yield f"effect {name} is brought by no rule"


def _poor_experts(graph: RuleGraph) -> Iterator[str]:
    owned = Counter(operator.expert for operator in graph.operators)
    for expert in EXPERTS:
        if owned[expert] < FEWEST_OPERATORS:
            yield f"expert {expert} owns {owned[expert]} operators, fewer than {FEWEST_OPERATORS}"


def _idle_actions(graph: RuleGraph) -> Iterator[str]:
    reached = {action for operator in graph.operators for action in operator.action_ids}
    for action in range(len(EXTENDED_ACTIONS)):
        if action not in reached:
            yield f"action {EXTENDED_ACTIONS[action]!r} belongs to no operator"


def _other_skills(graph: RuleGraph) -> Iterator[str]:
    if graph.operator_names != SKILL_NAMES:
        yield f"the operators must be the skills: {', '.join(SKILL_NAMES)}"


CHECKS: tuple[Callable[[RuleGraph], Iterator[str]], ...] = (
    _repeated_rules,
    _repeated_names,
    _impossible_rules,
    _idle_operators,
    _idle_effects,
)
KEY_CHECKS, SKILL_CHECKS = (_idle_atoms, _poor_experts, _idle_actions), (_other_skills,)

"""Faults a rule graph may have, found before it steers anything."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from longhaul.core.errors import ConfigError, suggestion
from longhaul.tasks.nethack.rules import GROUPS, OWN_RULES, Rule, RuleGraph, parse_rules
from longhaul.tasks.nethack.vocabulary import ACTION_COUNT, ACTIONS, ATOM_NAMES, EXPERTS

FEWEST_OPERATORS = 5
"""Operators each expert must own, so that none is idle by design."""

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
    return names or tuple(itertools.chain.from_iterable(check(graph) for check in CHECKS))


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
        raise ConfigError(f"{path.name} is not fit for use ({len(faults)} faults):\n{listed}")
    return graph


def _unknown_names(graph: RuleGraph) -> Iterator[str]:
    for operator in graph.operators:
        yield from _missing(f"operator {operator.name}", "expert", [operator.expert], EXPERTS)
        known = (*ACTIONS, *GROUPS)
        yield from _missing(f"operator {operator.name}", "action", operator.actions, known)
    for number, rule in enumerate(graph.rules):
        where = _where(number, rule)
        yield from _missing(where, "operator", [rule.operator], graph.operator_names)
        yield from _missing(where, "atom", (*rule.conditions, *rule.forbids), ATOM_NAMES)
        yield from _missing(where, "effect", (*rule.effects, *rule.risks), graph.effects)


def _missing(where: str, kind: str, names: Sequence[str], known: Sequence[str]) -> Iterator[str]:
    for name in names:
        if name not in known:
            yield f"{where}: there is no {kind} {name!r}{suggestion(name, known)}"


def _where(number: int, rule: Rule) -> str:
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
    for name in ATOM_NAMES:
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
    for action in range(ACTION_COUNT):
        if action not in reached:
            yield f"action {ACTIONS[action]!r} belongs to no operator"


CHECKS: tuple[Callable[[RuleGraph], Iterator[str]], ...] = (
    _repeated_rules,
    _repeated_names,
    _impossible_rules,
    _idle_operators,
    _idle_atoms,
    _idle_effects,
    _poor_experts,
    _idle_actions,
)

"""The rules as records of a run, for the picture in its report."""

from __future__ import annotations

import json

from longhaul.core.panel import Panel
from longhaul.core.run_log import Records
from longhaul.tasks.nethack.rules import RuleGraph

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

"""Key moments of an episode: the screen, and what the graph attends to."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from longhaul.core.evaluation import StudyFiles
from longhaul.tasks.nethack.policy.health import SITUATION_NAMES
from longhaul.tasks.nethack.policy.network import ExpertPolicy
from longhaul.tasks.nethack.policy.track import Track
from longhaul.tasks.nethack.rules import RuleGraph
from longhaul.tasks.nethack.vocabulary import EXPERTS

MOMENTS_FILE = "moments.jsonl"
MOST_MOMENTS = 4
MOST_OPERATORS, MOST_CONDITIONS = 8, 14
"""Of one moment: those that get most attention."""


def key_moments(track: Track, policy: ExpertPolicy, graph: RuleGraph) -> StudyFiles:
    """Return the moments in which each expert weighed most, and pictures of them."""
    steps = sorted(set(track.alpha.argmax(0)[:MOST_MOMENTS].tolist()))
    pictures = track.played.pictures(steps)
    files: dict[str, str | bytes] = {}
    rows = []
    for number, step in enumerate(steps, start=1):
        name = f"moment-{number}.png"
        if step in pictures:
            files[name] = pictures[step]
        picture = f"evaluations/{name}" if step in pictures else ""
        rows.append({**_moment(track, step, policy, graph), "picture": picture})
    return {**files, MOMENTS_FILE: "".join(json.dumps(row) + "\n" for row in rows)}


def _moment(track: Track, step: int, policy: ExpertPolicy, graph: RuleGraph) -> dict[str, Any]:
    expert = int(track.leading[step])
    name, weight = policy.expert_names[expert], float(track.alpha[step, expert])
    situation = SITUATION_NAMES[int(track.situation[step])]
    action = policy.choice_names[int(track.played.action[step, 0])]
    return {
        "step": step,
        "seed": track.played.seed,
        "groups": list(EXPERTS),
        "title": f"step {step}: {situation}; {name} leads with {weight:.2f}; {action}",
        **attended(track.atoms[step], policy, graph),
    }


def attended(
    atoms: np.ndarray[Any, Any], policy: ExpertPolicy, graph: RuleGraph
) -> dict[str, list[dict[str, Any]]]:
    """Return the operators the intent attends to most, and to which conditions their rules do.

    The weight of a link is the product of both attentions, summed over the operator's rules.
    """
    found = policy.graph.attention(torch.from_numpy(atoms).float())
    score, of_intent = found.score.numpy(), found.rules.numpy()
    shares = np.zeros(len(graph.operators))
    np.add.at(shares, graph.rule_operator, of_intent)
    chosen = np.argsort(-shares, kind="stable")[:MOST_OPERATORS].tolist()
    ends = [
        {
            "name": graph.operators[number].name,
            "group": graph.operators[number].expert,
            "value": float(score[graph.rule_operator == number].max()),
            "share": float(shares[number]),
        }
        for number in chosen
    ]
    weights: dict[tuple[str, str], float] = defaultdict(float)
    edges = (policy.graph.condition_rule, policy.graph.condition_atom, found.conditions)
    for rule, atom, share in zip(*(part.tolist() for part in edges), strict=True):
        number = int(graph.rule_operator[rule])
        if share > 0 and number in chosen:
            pair = (graph.atom_names[atom], graph.operators[number].name)
            weights[pair] += share * float(of_intent[rule])
    kept = _heaviest(weights)
    return {
        "ends": ends,
        "links": [
            {"from": atom, "to": operator, "weight": weight}
            for (atom, operator), weight in weights.items()
            if atom in kept
        ],
    }


def _heaviest(weights: dict[tuple[str, str], float]) -> Sequence[str]:
    """Return the conditions with most weight over all of their links."""
    totals: dict[str, float] = defaultdict(float)
    for (atom, _), weight in weights.items():
        totals[atom] += weight
    return sorted(totals, key=lambda atom: -totals[atom])[:MOST_CONDITIONS]

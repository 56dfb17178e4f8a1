"""What the experts did in episodes that were played again, as files for figures and readers."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from longhaul.core.evaluation import Playback, StudyFiles
from longhaul.core.policy import Policy
from longhaul.core.settings import Settings
from longhaul.tasks.nethack.policy import health as losses
from longhaul.tasks.nethack.policy.health import (
    SITUATION_NAMES,
    SMALLEST_SHARE,
    joint_counts,
    mutual_information,
    purity,
)
from longhaul.tasks.nethack.policy.moments import key_moments
from longhaul.tasks.nethack.policy.network import FARTHEST, ExpertPolicy
from longhaul.tasks.nethack.policy.track import Floats, Integers, Track, follow
from longhaul.tasks.nethack.rules import RuleGraph

FEWEST_STEPS = 10
"""Steps in which an atom or a situation must have held to be reported."""
MOST_OPERATORS = 25
SHARED_STATES = 400
"""States, of all episodes, that the projections show."""

SITUATIONS_FILE = "expert-situations.jsonl"
ATOMS_FILE = "expert-atoms.jsonl"
LIKENESS_FILE = "expert-likeness.jsonl"
ACTIONS_FILE = "expert-actions.jsonl"
OPERATORS_FILE = "operators.jsonl"
OUTPUTS_FILE = "expert-outputs.jsonl"
INTENTS_FILE = "intents.jsonl"
STEPS_FILE = "steps.jsonl"
SUMMARY_FILE = "specialization.json"


@dataclass(frozen=True, slots=True)
class ExpertStudy:
    """Looks into a player; the graph gives operators their names."""

    graph: RuleGraph

    def __call__(
        self, policy: Policy, settings: Settings, played: Sequence[Playback]
    ) -> StudyFiles:
        """Return the files about these episodes."""
        assert isinstance(policy, ExpertPolicy), "the task builds no other"
        names = policy.expert_names
        tracks = [follow(policy, settings, one) for one in played]
        middle = tracks[len(tracks) // 2]
        return {
            SUMMARY_FILE: json.dumps(summary(tracks, names), indent=1) + "\n",
            SITUATIONS_FILE: _lines(by_situation(tracks, names)),
            ATOMS_FILE: _lines(by_atom(tracks, names, self.graph.atom_names)),
            LIKENESS_FILE: _lines(likeness(tracks, names)),
            ACTIONS_FILE: _lines(by_action(tracks, names, policy.choice_names)),
            OPERATORS_FILE: _lines(operators(tracks, self.graph)),
            OUTPUTS_FILE: _lines(projected_outputs(tracks, names)),
            INTENTS_FILE: _lines(projected_intents(tracks)),
            STEPS_FILE: _lines(steps(middle, policy, self.graph.atom_names)),
            **key_moments(middle, policy, self.graph),
        }


def _lines(rows: Iterable[Mapping[str, Any]]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def _joined(tracks: Sequence[Track]) -> tuple[Floats, Integers, Integers]:
    alpha = np.concatenate([track.alpha for track in tracks])
    situation = np.concatenate([track.situation for track in tracks])
    return alpha, alpha.argmax(1), situation


def summary(tracks: Sequence[Track], names: Sequence[str]) -> dict[str, Any]:
    """Return how far experts differ: figures in nats, shares and counts."""
    alpha, leading, situation = _joined(tracks)
    counts = joint_counts(torch.from_numpy(leading), torch.from_numpy(situation), len(names))
    table = counts.double().numpy()
    share = table.sum(1) / table.sum()
    weight = alpha.mean(0)
    switches = sum(int((np.diff(track.leading) != 0).sum()) for track in tracks)
    return {
        "episodes": len(tracks),
        "steps": len(alpha),
        "step_entropy": float(_entropy(alpha).mean()),
        "mean_entropy": float(_entropy(weight[None])[0]),
        "information": mutual_information(table),
        "weight": {name: float(one) for name, one in zip(names, weight, strict=True)},
        "share": {name: float(one) for name, one in zip(names, share, strict=True)},
        "purity": dict(zip(names, purity(table), strict=True)),
        "dead": [name for name, one in zip(names, share, strict=True) if one < SMALLEST_SHARE],
        "switches_per_100": 100.0 * switches / max(len(alpha) - len(tracks), 1),
        "likeness": float(
            np.mean([one["likeness"] for one in likeness(tracks, names) if one["a"] != one["b"]])
        ),
    }


def _entropy(alpha: Floats) -> Floats:
    return np.asarray(-(alpha * np.log(alpha + losses.FLOOR)).sum(1), np.float32)


def by_situation(tracks: Sequence[Track], names: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield each expert's mean weight and share in each situation that came up."""
    alpha, leading, situation = _joined(tracks)
    for number, kind in enumerate(SITUATION_NAMES):
        there = situation == number
        if there.sum() < FEWEST_STEPS:
            continue
        for expert, name in enumerate(names):
            yield {
                "situation": kind,
                "expert": name,
                "weight": float(alpha[there, expert].mean()),
                "share": float((leading[there] == expert).mean()),
                "steps": int(there.sum()),
            }


def by_atom(
    tracks: Sequence[Track], names: Sequence[str], atom_names: Sequence[str]
) -> Iterator[dict[str, Any]]:
    """Yield each expert's mean weight over the steps in which an atom held."""
    alpha, _, _ = _joined(tracks)
    atoms = np.concatenate([track.atoms for track in tracks]) != 0
    for place, atom in enumerate(atom_names):
        there = atoms[:, place]
        if there.sum() >= FEWEST_STEPS:
            for expert, name in enumerate(names):
                weight = float(alpha[there, expert].mean())
                yield {"atom": atom, "expert": name, "weight": weight}


def likeness(tracks: Sequence[Track], names: Sequence[str]) -> list[dict[str, Any]]:
    """Return the mean cosine between the logits of every two experts, on the same states."""
    mean = np.concatenate([track.likeness for track in tracks]).mean(0)
    return [
        {"a": one, "b": other, "likeness": float(mean[i, j])}
        for i, one in enumerate(names)
        for j, other in enumerate(names)
    ]


def by_action(
    tracks: Sequence[Track], names: Sequence[str], choices: Sequence[str]
) -> Iterator[dict[str, Any]]:
    """Yield how likely each expert takes each action, mean over the steps."""
    logits = torch.from_numpy(np.concatenate([track.logits for track in tracks]))
    mean = torch.softmax(logits, 2).mean(0).numpy()
    for expert, name in enumerate(names):
        for action, word in enumerate(choices):
            yield {"action": word, "expert": name, "share": float(mean[expert, action])}


def operators(tracks: Sequence[Track], graph: RuleGraph) -> list[dict[str, Any]]:
    """Return the operators that hold most often, with their scores then and otherwise."""
    score = np.concatenate([track.score for track in tracks])
    match = np.concatenate([track.match for track in tracks])
    found = []
    for number, operator in enumerate(graph.operators):
        own = graph.rule_operator == number
        best, holds = score[:, own].max(1), match[:, own].max(1) > 0
        found.append(
            {
                "operator": operator.name,
                "expert": operator.expert,
                "held": float(holds.mean()),
                "score": float(best.mean()),
                "score_held": float(best[holds].mean()) if holds.any() else None,
            }
        )
    found.sort(key=lambda row: (-float(str(row["held"])), str(row["operator"])))
    return found[:MOST_OPERATORS]


def _shared(tracks: Sequence[Track], parts: Sequence[Floats]) -> tuple[Floats, Integers]:
    """Return the parts of some steps of all episodes, evenly spread, and their situations."""
    every, situation = np.concatenate(parts), np.concatenate([one.situation for one in tracks])
    chosen = np.linspace(0, len(every) - 1, min(SHARED_STATES, len(every))).astype(np.int64)
    return every[chosen], situation[chosen]


def projection(points: Floats) -> Floats:
    """Return points [N, D] on their two principal components, [N, 2]."""
    centered = points - points.mean(0)
    _, _, axes = np.linalg.svd(centered, full_matrices=False)
    # The sign of a component is arbitrary: let its largest part be positive.
    signs = np.sign(axes[np.arange(len(axes)), np.abs(axes).argmax(1)])
    return np.asarray(centered @ (axes * signs[:, None])[:2].T, np.float32)


def projected_outputs(tracks: Sequence[Track], names: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield where each expert's answer to each of the shared states lies, of all their answers."""
    logits, situation = _shared(tracks, [track.logits for track in tracks])
    # A softmax is the same whatever is added to all logits.
    logits = logits.clip(-FARTHEST, FARTHEST)
    answers = (logits - logits.mean(2, keepdims=True)).reshape(-1, logits.shape[2])
    for place, (x, y) in enumerate(projection(answers)):
        state, expert = divmod(place, len(names))
        kind = SITUATION_NAMES[int(situation[state])]
        yield {"x": float(x), "y": float(y), "expert": names[expert], "situation": kind}


def projected_intents(tracks: Sequence[Track]) -> Iterator[dict[str, Any]]:
    """Yield where the intent of each of the shared states lies, and its situation."""
    intents, situation = _shared(tracks, [track.intent for track in tracks])
    for (x, y), kind in zip(projection(intents), situation, strict=True):
        yield {"x": float(x), "y": float(y), "situation": SITUATION_NAMES[int(kind)]}


def _rounded(names: Sequence[str], values: Floats) -> dict[str, float]:
    return {name: round(float(one), 4) for name, one in zip(names, values, strict=True)}


def steps(
    track: Track, policy: ExpertPolicy, atom_names: Sequence[str]
) -> Iterator[dict[str, Any]]:
    """Yield everything about each step of one episode."""
    played, names = track.played, policy.expert_names
    for step in range(len(track.alpha)):
        yield {
            "step": step,
            "seed": played.seed,
            "action": policy.choice_names[int(played.action[step, 0])],
            "value": float(played.value[step, 0]),
            "reward": float(played.reward[step]),
            "situation": SITUATION_NAMES[int(track.situation[step])],
            "expert": names[int(track.leading[step])],
            "weights": _rounded(names, track.alpha[step]),
            "chances": _rounded(policy.choice_names, track.chances[step]),
            "atoms": [name for name, on in zip(atom_names, track.atoms[step], strict=True) if on],
        }

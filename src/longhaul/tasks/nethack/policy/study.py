"""What the experts did in episodes that were played again, as files for figures and readers."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from longhaul.core.evaluation import Playback, Records
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
from longhaul.tasks.nethack.policy.network import ExpertPolicy
from longhaul.tasks.nethack.rules import RuleGraph
from longhaul.tasks.nethack.vocabulary import ATOM_BITS

FEWEST_STEPS = 10
"""Steps in which an atom or a situation must have held to be reported."""
MOST_OPERATORS = 25
STRETCHES = 60
"""Into how many an episode is cut for the map of its routing."""

SITUATIONS_FILE = "expert-situations.jsonl"
ATOMS_FILE = "expert-atoms.jsonl"
LIKENESS_FILE = "expert-likeness.jsonl"
ACTIONS_FILE = "expert-actions.jsonl"
OPERATORS_FILE = "operators.jsonl"
ROUTING_FILE = "routing.jsonl"
STEPS_FILE = "steps.jsonl"
SUMMARY_FILE = "specialization.json"

Floats = NDArray[np.float32]
Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Track:
    """One episode and what the network thought in each of its T steps."""

    played: Playback
    atoms: NDArray[np.uint8]  # [T, C]
    alpha: Floats  # [T, K]
    situation: Integers  # [T]
    score: Floats  # [T, R], of each rule
    match: Floats  # [T, R]
    likeness: Floats  # [T, K, K]
    shares: Floats  # [T, K, A], what each expert would do

    @property
    def leading(self) -> Integers:
        """[T], the expert that weighs most."""
        return np.asarray(self.alpha.argmax(1))


@torch.no_grad()
def follow(policy: ExpertPolicy, settings: Settings, played: Playback) -> Track:
    """Return what the network thought in an episode of an env with one row."""
    obs = {name: torch.from_numpy(part[:, 0]) for name, part in played.obs.items()}
    thought = policy.think(obs, settings)
    return Track(
        played=played,
        atoms=played.obs[ATOM_BITS][:, 0],
        alpha=thought.alpha.numpy(),
        situation=policy.situations.forward(obs[ATOM_BITS]).numpy(),
        score=thought.spoken.score.numpy(),
        match=policy.graph.patterns.match(obs[ATOM_BITS].float()).numpy(),
        likeness=losses.similarity(thought.expert_logits).numpy(),
        shares=torch.softmax(thought.expert_logits, 2).numpy(),
    )


@dataclass(frozen=True, slots=True)
class ExpertStudy:
    """Looks into a player; the graph gives operators their names."""

    graph: RuleGraph

    def __call__(self, policy: Policy, settings: Settings, played: Sequence[Playback]) -> Records:
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
            ROUTING_FILE: _lines(routing(tracks[-1], names)),
            STEPS_FILE: _lines(steps(middle, policy, self.graph.atom_names)),
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
    mean = np.concatenate([track.shares for track in tracks]).mean(0)
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


def routing(track: Track, names: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield the experts' mean weights in the stretches of one episode."""
    for part in np.array_split(np.arange(len(track.alpha)), min(STRETCHES, len(track.alpha))):
        for expert, name in enumerate(names):
            weight = float(track.alpha[part, expert].mean())
            yield {"expert": name, "step": int(part[0]), "weight": weight}


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
            "weights": [round(float(one), 4) for one in track.alpha[step]],
            "atoms": [name for name, on in zip(atom_names, track.atoms[step], strict=True) if on],
        }

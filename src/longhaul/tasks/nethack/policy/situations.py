"""What kind of moment it is, and how much the choice of an expert tells about it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from longhaul.tasks.nethack.vocabulary import ATOM_COUNT, ATOM_INDEX


@dataclass(frozen=True, slots=True)
class Situation:
    """A kind of moment, there as soon as one of its atoms holds."""

    name: str
    atoms: tuple[str, ...]


SITUATIONS = (
    Situation("prompt", ("prompt_direction", "prompt_item", "prompt_confirm", "stuck")),
    Situation("danger", ("hp_low", "hp_critical", "dying", "touch_danger_adjacent")),
    Situation("impaired", ("blind", "confused", "stunned", "hallucinating", "hunger_weak")),
    Situation("fight", ("hostile_adjacent", "hostiles_around", "unseen_adjacent")),
    Situation("threat", ("hostile_in_view", "hostiles_many", "exploder_near")),
    Situation("stairs", ("on_stairs_down", "stairs_down_reachable")),
    Situation("treasure", ("on_object", "object_adjacent", "object_reachable", "gold_reachable")),
    Situation("frontier", ("frontier_reachable",)),
    Situation("blocked", ("dead_end", "door_closed_adjacent", "door_locked", "searched_here")),
)
"""In the order of their urgency: of several that are there, the first counts."""
QUIET = "quiet"
"""The name of a moment that is none of them."""
SITUATION_NAMES = (*(situation.name for situation in SITUATIONS), QUIET)


class Situations(nn.Module):
    """Tells the situation of atom sets."""

    member: Tensor

    def __init__(self) -> None:
        super().__init__()
        member = torch.zeros(ATOM_COUNT, len(SITUATION_NAMES))
        for column, situation in enumerate(SITUATIONS):
            member[[ATOM_INDEX[name] for name in situation.atoms], column] = 1
        self.register_buffer("member", member, persistent=False)

    def forward(self, atoms: Tensor) -> Tensor:
        """Return the number [N] of the situation of atoms [N, C]."""
        there = atoms.float() @ self.member > 0
        there[:, -1] = True
        return there.int().argmax(1)


def joint_counts(expert: Tensor, situation: Tensor, experts: int) -> Tensor:
    """Return how often each expert [N] had the say in each situation [N], [K, S]."""
    kinds = len(SITUATION_NAMES)
    flat = torch.bincount(expert * kinds + situation, minlength=experts * kinds)
    return flat.view(experts, kinds)


def mutual_information(counts: NDArray[np.float64] | Sequence[Sequence[float]]) -> float:
    """Return how much one of two things tells about the other, in nats, from their joint counts.

    Corrected for the small numbers that make any two things look related (Miller and Madow).
    """
    table = np.asarray(counts, np.float64)
    total = table.sum()
    if total <= 0:
        return 0.0
    share = table / total
    apart = share.sum(1, keepdims=True) * share.sum(0, keepdims=True)
    seen = share > 0
    plain = float((share[seen] * np.log(share[seen] / apart[seen])).sum())
    cells, rows, columns = seen.sum(), (table.sum(1) > 0).sum(), (table.sum(0) > 0).sum()
    return max(0.0, plain + float(rows + columns - cells - 1) / (2 * float(total)))


def purity(counts: NDArray[np.float64] | Sequence[Sequence[float]]) -> list[float]:
    """Return of each expert [K, S] the share of its moments that are of its most frequent kind."""
    table = np.asarray(counts, np.float64)
    return [float(row.max() / row.sum()) if row.sum() else 0.0 for row in table]

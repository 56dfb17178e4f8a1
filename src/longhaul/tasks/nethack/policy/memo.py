"""The graph's answers, worked out once for every set of atoms."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from longhaul.tasks.nethack.policy.graph import GraphStream, Spoken, Voices

BATCH = 16
"""Sets that are worked out together. Always so many: in batches of one shape the answer for a set
does not depend, to the last bit, on the others, so that no history shows in the numbers."""
FIRST_ROOM = 512
"""Sets there is room for at first."""


@dataclass(frozen=True, slots=True)
class Distinct:
    """The different rows of a batch of atom sets, and which of them each row is."""

    atoms: Tensor  # [U, C] float
    index: Tensor  # [N] int64


def keys_of(atoms: Tensor) -> list[bytes]:
    """Return a name for the set in each row of atoms [N, C]; equal sets have equal names."""
    bits = np.packbits(atoms.cpu().numpy() != 0, axis=1)
    width, flat = bits.shape[1], bits.tobytes()
    return [flat[begin : begin + width] for begin in range(0, len(flat), width)]


def distinct(atoms: Tensor) -> Distinct:
    """Return the different rows of atoms [N, C], in the order of their first appearance."""
    places: dict[bytes, int] = {}
    first: list[int] = []
    index: list[int] = []
    for row, key in enumerate(keys_of(atoms)):
        if key not in places:
            places[key] = len(first)
            first.append(row)
        index.append(places[key])
    chosen = torch.tensor(first, device=atoms.device)
    return Distinct(atoms[chosen].float(), torch.tensor(index, device=atoms.device))


class Memo:
    """Remembers what a graph said while its weights stay the same."""

    def __init__(self) -> None:
        self._weights: tuple[int, ...] = ()
        self._voices: Voices | None = None
        self._places: dict[bytes, int] = {}
        self._said = torch.empty(0, 0)  # [room, G + R + 1], what was said about each set
        self.asked = 0
        self.missed = 0

    def forget(self) -> None:
        """Drop everything that was said."""
        self._voices = None
        self._places = {}

    def spoken(self, stream: GraphStream, atoms: Tensor) -> Spoken:
        """Return what the graph says about each row of atoms [N, C], without a gradient."""
        weights = tuple(parameter._version for parameter in stream.parameters())
        if weights != self._weights:
            self.forget()
            self._weights = weights
        keys = keys_of(atoms)
        places = self._places
        unknown = {key: row for row, key in enumerate(keys) if key not in places}
        self.asked += len(keys)
        self.missed += len(unknown)
        if unknown:
            self._learn(stream, atoms, unknown)
        index = torch.tensor([places[key] for key in keys], device=self._said.device)
        said = self._said.index_select(0, index)
        intent, score, spread = said.split((stream.outputs, stream.rules, 1), 1)
        return Spoken(intent, score, spread.squeeze(1))

    def _learn(self, stream: GraphStream, atoms: Tensor, unknown: dict[bytes, int]) -> None:
        if self._voices is None:
            self._voices = stream.voices()
        self._make_room(len(self._places) + len(unknown) + BATCH, stream)
        names = list(unknown)
        for begin in range(0, len(names), BATCH):
            chosen = names[begin : begin + BATCH]
            rows = torch.tensor([unknown[key] for key in chosen], device=atoms.device)
            sets = atoms.new_zeros(BATCH, atoms.shape[1], dtype=torch.float32)
            sets[: len(chosen)] = atoms[rows].float()
            said = stream.speak(sets, self._voices)
            parts = (said.intent, said.score, said.spread.unsqueeze(1))
            known = len(self._places)
            self._said[known : known + BATCH] = torch.cat(parts, 1)
            self._places.update((key, known + place) for place, key in enumerate(chosen))

    def _make_room(self, needed: int, stream: GraphStream) -> None:
        width = stream.outputs + stream.rules + 1
        if self._said.shape[1] == width and needed <= self._said.shape[0]:
            return
        room = max(FIRST_ROOM, 2 * needed)
        # An ordinary tensor: one made in inference mode could not be written to outside of it.
        with torch.inference_mode(mode=False):
            larger = torch.empty(room, width, device=stream.condition.device)
        if self._places:
            larger[: len(self._places)] = self._said[: len(self._places)]
        self._said = larger

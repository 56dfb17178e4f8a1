"""The archive of Go-Explore (Ecoffet et al. 2021): one state for every cell that was reached."""

from __future__ import annotations

import hashlib
from itertools import accumulate, pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from longhaul.core.search import Bytes
from longhaul.core.state import State

NOWHERE = -1
"""The parent of the way that begins at the start."""
FIRST_ROOM = 1024


class Way(NamedTuple):
    """How a cell was reached: the way of a parent, then these decisions."""

    cost: float
    """Of the whole way."""
    parent: int
    """A node of the archive, or NOWHERE."""
    decisions: bytes


class Archive:
    """Cells, the cheapest known way into each, and how often each was chosen and seen.

    Ways share their beginnings: a way is a node with the decisions since its parent.
    """

    def __init__(self) -> None:
        self._slots: dict[int, int] = {}
        self._saved: list[Bytes] = []
        self._cost = np.zeros(FIRST_ROOM)
        self._chosen = np.zeros(FIRST_ROOM)
        self._seen = np.zeros(FIRST_ROOM, np.int64)
        self._nodes = np.zeros(FIRST_ROOM, np.int64)
        self._parents: list[int] = []
        self._decisions: list[bytes] = []

    def __len__(self) -> int:
        """Return the number of cells."""
        return len(self._saved)

    def slot(self, cell: int) -> int | None:
        """Return the place of a cell, None if it was never reached."""
        return self._slots.get(cell)

    def saved(self, slot: int) -> Bytes:
        """Return the kept state of a cell."""
        return self._saved[slot]

    def node(self, slot: int) -> int:
        """Return the way into a cell."""
        return int(self._nodes[slot])

    def cost(self, slot: int) -> float:
        """Return what that way took."""
        return float(self._cost[slot])

    def add(self, cell: int, saved: Bytes, way: Way) -> None:
        """Keep a new cell and the way into it."""
        slot = len(self._saved)
        if slot == len(self._cost):
            self._grow()
        self._slots[cell] = slot
        self._saved.append(saved)
        self._keep_way(slot, way)

    def improve(self, slot: int, saved: Bytes, way: Way) -> None:
        """Replace the state and the way of a cell by cheaper ones."""
        self._saved[slot] = saved
        self._keep_way(slot, way)

    def count_seen(self, slot: int) -> None:
        """Count a visit to a known cell."""
        self._seen[slot] += 1

    def credit(self, slot: int, factor: float) -> None:
        """Make a cell from which another was found count as chosen less often."""
        self._chosen[slot] *= factor

    def choose(self, rng: np.random.Generator, count: int, *, newest: float) -> NDArray[np.int64]:
        """Return the places of `count` cells, drawn with repetition, and count them as chosen.

        A cell's weight is (1 + chosen)^-1.5 (1 + seen / 20)^-0.5; a share `newest` of the draws is
        among the newest twelfth of the cells, at least 300.
        """
        known = len(self)
        weights = (1.0 + self._chosen[:known]) ** -1.5 / np.sqrt(1.0 + self._seen[:known] / 20.0)
        sums = np.cumsum(weights)
        draws, is_newest = rng.random(count), rng.random(count) < newest
        # Among the newest the draw covers only the last part of the sums.
        first = max(known - max(300, known // 12), 0)
        floor = np.where(is_newest, sums[first - 1] if first else 0.0, 0.0)
        found = np.searchsorted(sums, floor + draws * (sums[-1] - floor), side="right")
        picks: NDArray[np.int64] = np.minimum(found, known - 1).astype(np.int64)
        np.add.at(self._chosen, picks, 1.0)
        return picks

    def decisions(self, node: int) -> bytes:
        """Return all decisions of a way, from the start on."""
        parts = []
        while node != NOWHERE:
            parts.append(self._decisions[node])
            node = self._parents[node]
        return b"".join(reversed(parts))

    def digest(self) -> str:
        """Return a digest of everything in it."""
        running = hashlib.sha256()
        for name, value in sorted(self.state_dict().items()):
            running.update(f"{name} {value.dtype} {value.shape} ".encode())
            running.update(np.ascontiguousarray(value).data)
        return running.hexdigest()

    def state_dict(self) -> State:
        """Return all of it."""
        known = len(self)
        saved, sizes = _joined(self._saved)
        decisions, lengths = _joined([np.frombuffer(one, np.uint8) for one in self._decisions])
        return {
            "cells": np.fromiter(self._slots, np.int64, known),
            "cost": self._cost[:known].copy(),
            "chosen": self._chosen[:known].copy(),
            "seen": self._seen[:known].copy(),
            "nodes": self._nodes[:known].copy(),
            "saved": saved,
            "saved_sizes": sizes,
            "parents": np.array(self._parents, np.int64),
            "decisions": decisions,
            "decision_sizes": lengths,
        }

    def load_state_dict(self, state: State) -> None:
        """Go on from a saved state."""
        self._slots = {int(cell): slot for slot, cell in enumerate(state["cells"].tolist())}
        self._saved = _split(np.asarray(state["saved"]), state["saved_sizes"])
        while len(self._cost) < len(self._saved):
            self._grow()
        known = len(self._saved)
        self._cost[:known] = state["cost"]
        self._chosen[:known] = state["chosen"]
        self._seen[:known] = state["seen"]
        self._nodes[:known] = state["nodes"]
        self._parents = state["parents"].tolist()
        ways = _split(np.asarray(state["decisions"]), state["decision_sizes"])
        self._decisions = [way.tobytes() for way in ways]

    def _keep_way(self, slot: int, way: Way) -> None:
        self._cost[slot] = way.cost
        self._nodes[slot] = len(self._parents)
        self._parents.append(way.parent)
        self._decisions.append(way.decisions)

    def _grow(self) -> None:
        for name in ("_cost", "_chosen", "_seen", "_nodes"):
            old = getattr(self, name)
            setattr(self, name, np.concatenate([old, np.zeros_like(old)]))


def _joined(parts: list[Bytes]) -> tuple[Bytes, NDArray[np.int64]]:
    """Return byte arrays one after another, and their sizes."""
    sizes = np.array([part.size for part in parts], np.int64)
    return (np.concatenate(parts) if parts else np.zeros(0, np.uint8)), sizes


def _split(joined: Bytes, sizes: NDArray[np.int64]) -> list[Bytes]:
    borders = accumulate(sizes.tolist(), initial=0)
    return [joined[begin:end].copy() for begin, end in pairwise(borders)]

"""Items drawn in proportion to their weights, a batch at a time."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Indices = NDArray[np.int64]
Weights = NDArray[np.float64]


class SumTree:
    """Weights of `capacity` items, zero at first, kept as a binary tree of sums.

    Every inner node is the sum of its two children and nothing else. Rounding errors do not add up,
    and a tree rebuilt from its weights is bit-equal.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self._depth = max(1, (capacity - 1).bit_length())
        self._first_leaf = 1 << self._depth
        self._nodes: Weights = np.zeros(2 * self._first_leaf)

    @property
    def total(self) -> float:
        """The sum of all weights."""
        return float(self._nodes[1])

    @property
    def weights(self) -> Weights:
        """[capacity], a view; change it by `set` alone."""
        return self._nodes[self._first_leaf : self._first_leaf + self.capacity]

    def set(self, items: Indices, weights: Weights) -> None:
        """Give these items these weights; of an item named twice the last one counts."""
        if items.size == 0:
            return
        if not (np.isfinite(weights).all() and (weights >= 0).all()):
            raise ValueError("weights must be finite and not negative")
        nodes = self._nodes
        place = items + self._first_leaf
        nodes[place] = weights
        for _ in range(self._depth):
            # Sorted: duplicate parents are adjacent.
            place = np.sort(place >> 1)
            if place.size > 1:
                place = place[np.flatnonzero(np.diff(place, prepend=-1))]
            nodes[place] = nodes[2 * place] + nodes[2 * place + 1]

    def set_all(self, weights: Weights) -> None:
        """Give the first items these weights and all others none; cheaper than many `set`s."""
        if not (np.isfinite(weights).all() and (weights >= 0).all()):
            raise ValueError("weights must be finite and not negative")
        nodes = self._nodes
        nodes[self._first_leaf :] = 0.0
        nodes[self._first_leaf : self._first_leaf + weights.size] = weights
        for level in range(self._depth - 1, -1, -1):
            begin = 1 << level
            below = nodes[2 * begin : 4 * begin]
            nodes[begin : 2 * begin] = below[0::2] + below[1::2]

    def find(self, points: Weights) -> Indices:
        """Return the item each point in [0, total) falls on; never one whose weight is zero."""
        nodes = self._nodes
        place = np.ones(points.shape, np.int64)
        left_over = points.astype(np.float64)
        for _ in range(self._depth):
            left = 2 * place
            left_sum = nodes[left]
            # Rounding may leave a point at the very end of a sum: it stays where there is weight.
            goes_right = (left_over >= left_sum) & (nodes[left + 1] > 0)
            left_over -= np.where(goes_right, left_sum, 0.0)
            place = left + goes_right
        return place - self._first_leaf

    def draw(self, count: int, generator: np.random.Generator) -> Indices:
        """Return `count` items, one from each of `count` equal parts of the total.

        An item comes as often, on average, as by independent draws, and with less chance.
        """
        part = self.total / count
        points = (np.arange(count) + generator.random(count)) * part
        return self.find(points)

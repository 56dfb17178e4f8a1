"""The seeds of episodes behind Gymnasium's vector API."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from gymnasium.utils import seeding


class VectorSeeds:
    """Keeps a generator for each environment, which draws the seeds that are not given."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._generators: list[np.random.Generator] = []

    def given(self, seed: int | Sequence[int | None] | None) -> list[int]:
        """Return the seeds of a reset: `seed`, `seed + 1` and so on, or those listed."""
        if seed is None:
            seed = [None] * self._count
        listed = [seed + env for env in range(self._count)] if isinstance(seed, int) else seed
        if not self._generators:
            self._generators = [seeding.np_random(one)[0] for one in listed]
        for env, one in zip(range(self._count), listed, strict=True):
            if one is not None:
                self._generators[env] = seeding.np_random(one)[0]
        return [self._draw(env) if one is None else one for env, one in enumerate(listed)]

    def drawn(self, envs: Sequence[int]) -> list[int]:
        """Return the seeds of these environments' next episodes."""
        return [self._draw(env) for env in envs]

    def _draw(self, env: int) -> int:
        return int(self._generators[env].integers(2**31 - 1))

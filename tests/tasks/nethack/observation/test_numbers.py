from __future__ import annotations

import numpy as np
import pytest

from longhaul.core.env import Array
from longhaul.tasks.nethack.options import MaskOptions, NetHackGameOptions
from longhaul.tasks.nethack.vocabulary import BLOCKS, STATE, STATE_SIZE, STATE_VERSION
from tests.tasks.nethack.games import drawn_actions, opened

EXCEPTIONS = {
    "belief": {3, 10, 15, 22, 25},
    "compass": set(range(8, 16)),
}
"""Entries that 5000 steps of random play need not move: a monk who casts nothing keeps his energy,
and his alignment; branches of the dungeon, burdens and bad conditions are rare; and it is chance
from where stairs down are seen."""


def test_length_and_version_of_the_state_are_fixed() -> None:
    assert STATE_SIZE == 115
    assert STATE_VERSION == "longhaul-nethack-1"
    assert [(block.name, block.size) for block in BLOCKS] == [
        ("belief", 30),
        ("history", 12),
        ("near", 32),
        ("compass", 32),
        ("distance", 4),
        ("rules", 5),
    ]


@pytest.mark.nethack
def test_random_play_moves_every_entry_but_the_listed_ones() -> None:
    game = opened(NetHackGameOptions(mask=MaskOptions(enabled=False)))
    seen: list[Array] = []
    seed = 50
    while len(seen) < 5000:
        seed += 1
        seen += [
            game.slots.obs[STATE][0].copy() for _ in game.play(seed, drawn_actions(1000, seed))
        ]
    game.env.close()
    states = np.array(seen)
    assert np.isfinite(states).all()
    assert np.abs(states).max() <= 1.0
    still = states.std(axis=0) == 0
    begin, found = 0, {}
    for block in BLOCKS:
        found[block.name] = set(map(int, np.flatnonzero(still[begin : begin + block.size])))
        begin += block.size
    assert all(found[name] <= EXCEPTIONS.get(name, set()) for name in found), found

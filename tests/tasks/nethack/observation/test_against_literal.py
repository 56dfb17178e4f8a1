from __future__ import annotations

import numpy as np
import pytest

from longhaul.tasks.nethack.options import MaskOptions, NetHackGameOptions
from longhaul.tasks.nethack.vocabulary import ACTION_COUNT, ATOM_BITS, ATOM_NAMES
from tests.tasks.nethack.explorer import Explorer
from tests.tasks.nethack.games import Opened, opened

pytestmark = pytest.mark.nethack


def differences(game: Opened, seed: int, steps: int, *, scripted: float) -> list[str]:
    """Return where the native atoms of a game differ from the literal ones."""
    from tests.tasks.nethack.observation.literal import Oracle
    from tests.tasks.nethack.observation.screens import seen_of

    generator = np.random.default_rng(seed)
    explorer, oracle = Explorer(generator), Oracle()
    game.env.reset(seed, None)
    action: int | None = None
    found = []
    for step in range(steps):
        expected = oracle.read(seen_of(game), action)
        bits = game.slots.obs[ATOM_BITS][0]
        shown = {name for name, bit in zip(ATOM_NAMES, bits, strict=True) if bit}
        if shown != expected:
            found.append(f"step {step}: {sorted(shown ^ expected)}")
        follows = generator.random() < scripted
        action = explorer(game.slots) if follows else int(generator.integers(ACTION_COUNT))
        if game.env.step(np.array([action])) is not None:
            break
    return found


@pytest.mark.parametrize(("seed", "scripted"), [(31, 0.0), (32, 0.9), (33, 0.97)])
def test_native_atoms_are_those_a_person_would_write_down(seed: int, scripted: float) -> None:
    game = opened(NetHackGameOptions(mask=MaskOptions(enabled=False)))
    assert differences(game, seed, 120, scripted=scripted) == []
    game.env.close()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 112))
def test_native_atoms_are_those_a_person_would_write_down_in_long_games(seed: int) -> None:
    game = opened(NetHackGameOptions(mask=MaskOptions(enabled=False)))
    assert differences(game, seed, 2000, scripted=0.95) == []
    game.env.close()

"""Small players and made-up observations for the tests of the network."""

from __future__ import annotations

import torch
from torch import Tensor

from longhaul.core.rollout import Sequences, TensorTree
from longhaul.core.settings import Settings
from longhaul.core.spaces import Part
from longhaul.tasks.nethack.policy.network import ALPHA, ExpertPolicy
from longhaul.tasks.nethack.policy.options import SETTINGS, PolicyOptions
from longhaul.tasks.nethack.rules import RuleGraph, read_rules
from longhaul.tasks.nethack.vocabulary import (
    ACTION_COUNT,
    ATOM_BITS,
    ATOM_COUNT,
    CROP,
    GLYPH_CLASS_COUNT,
    MESSAGE,
    MESSAGE_WORDS,
    PACK,
    PACK_CLASSES,
    STATE,
    STATE_SIZE,
)

BLIND = {STATE: Part((STATE_SIZE,)), ATOM_BITS: Part((ATOM_COUNT,), "uint8")}
SEEING = {
    **BLIND,
    CROP: Part((9, 9), "uint8"),
    MESSAGE: Part((MESSAGE_WORDS,)),
    PACK: Part((PACK_CLASSES,)),
}
DECLARED = Settings(SETTINGS)


def rules() -> RuleGraph:
    return read_rules()


def player(
    options: PolicyOptions | None = None, *, seed: int = 1, sees: bool = False
) -> ExpertPolicy:
    torch.manual_seed(seed)
    return ExpertPolicy(SEEING if sees else BLIND, rules(), options or PolicyOptions())


def atom_sets(count: int, *, seed: int = 3, share: float = 0.2) -> Tensor:
    """Return random sets of atoms as bytes [count, C], no two of them equal."""
    generator = torch.Generator().manual_seed(seed)
    sets = (torch.rand(2 * count, ATOM_COUNT, generator=generator) < share).to(torch.uint8)
    different: Tensor = torch.unique(sets, dim=0)
    return different[:count]


def observations(count: int, *, seed: int = 5, sees: bool = False, kinds: int = 20) -> TensorTree:
    generator = torch.Generator().manual_seed(seed)
    sets = atom_sets(kinds, seed=seed)
    chosen = torch.randint(kinds, (count,), generator=generator)
    found = {
        STATE: torch.rand(count, STATE_SIZE, generator=generator),
        ATOM_BITS: sets[chosen],
    }
    if sees:
        cells = torch.randint(GLYPH_CLASS_COUNT, (count, 9, 9), generator=generator)
        found[CROP] = cells.to(torch.uint8)
        found[MESSAGE] = torch.rand(count, MESSAGE_WORDS, generator=generator)
        found[PACK] = torch.rand(count, PACK_CLASSES, generator=generator)
    return found


def sequences(length: int, rows: int, *, seed: int = 7, sees: bool = False) -> Sequences:
    """Return recorded steps that nobody took: every column begins an episode."""
    flat = observations(length * rows, seed=seed, sees=sees)
    generator = torch.Generator().manual_seed(seed)
    started = torch.zeros(length, rows, dtype=torch.bool)
    started[0] = True
    return Sequences(
        obs={name: part.unflatten(0, (length, rows)) for name, part in flat.items()},
        action=torch.randint(ACTION_COUNT, (length, rows), generator=generator),
        started=started,
        mask=None,
        memory={ALPHA: torch.zeros(rows, 4)},
        noise_seed=-1,
    )

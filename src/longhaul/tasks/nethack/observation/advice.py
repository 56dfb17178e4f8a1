"""What the rules make of the atoms: how well they match, and which actions they leave open."""

from __future__ import annotations

import numpy as np

from longhaul.core.env import Array
from longhaul.core.native import integer, kernel
from longhaul.tasks.nethack.observation import arrays as at
from longhaul.tasks.nethack.observation.arrays import Knowledge, Scratch
from longhaul.tasks.nethack.rules import AIMS
from longhaul.tasks.nethack.vocabulary import EXPERTS, MORE, PLAYER_ATOMS

NEEDS, HELPS, VETOES = 0, 2, 4
"""Columns of `Knowledge.bits`: the player's word, after which comes the scene's."""
CHANNEL = 0.35
"""Weight of the player's and of the scene's atoms in the coverage."""
EXPERT_COUNT = len(EXPERTS)
_NO_BIT, _ONE_BIT, _TWO_BITS, _FOUR_BITS, _TOP_BYTE = map(np.uint64, (0, 1, 2, 4, 56))
_EVERY_SECOND = np.uint64(0x5555555555555555)
_PAIRS = np.uint64(0x3333333333333333)
_NIBBLES = np.uint64(0x0F0F0F0F0F0F0F0F)
_BYTES = np.uint64(0x0101010101010101)
ANY = AIMS.index("any")
HOSTILE = AIMS.index("hostile")
AWAY = AIMS.index("away")
TO_FRONTIER = AIMS.index("frontier")
TO_DOWN = AIMS.index("down")
TO_OBJECT = AIMS.index("object")
TO_DOOR = AIMS.index("door")


@kernel
def advise(
    knowledge: Knowledge, scratch: Scratch, atoms: Array, figures: Array, mask: Array
) -> None:
    """Write the best match of each expert's rules, the confidence, and the open actions.

    A prompt leaves all actions open, and so does a situation without advice.
    """
    asked = scratch.found[at.F_PROMPT] != at.NO_PROMPT
    weigh_rules(knowledge, scratch, atoms, figures)
    mask[:] = asked
    if not asked:
        for operator in range(len(knowledge.aims)):
            if scratch.wants[operator] >= 0:
                aim = knowledge.aims[operator]
                _open(knowledge.actions[operator], aim, scratch.around, scratch.ways[at.MOVE], mask)
        _close_dangers(scratch.around, mask)
    mask[MORE] = True
    opened = 0
    for action in range(len(mask)):
        opened += mask[action]
    if opened <= 1:
        mask[:] = True


@kernel
def weigh_rules(knowledge: Knowledge, scratch: Scratch, atoms: Array, figures: Array) -> None:
    """Write how much the rules call for each operator, the best match of each expert's rules, and
    the confidence.

    A rule that holds counts its prior, half of it for its context. An operator none of whose rules
    holds is wanted less than not at all.
    """
    figures[:] = 0.0
    best, bits, wants = scratch.best, knowledge.bits, scratch.wants
    best[:] = 0.0
    wants[:] = -1.0
    player, scene = _packed_atoms(atoms)
    player_share = CHANNEL / max(_ones(player), 1)
    scene_share = CHANNEL / max(_ones(scene), 1)
    for rule in range(len(bits)):
        helping = _ones(bits[rule, HELPS] & player) + _ones(bits[rule, HELPS + 1] & scene)
        spoken = _ones((bits[rule, NEEDS] | bits[rule, HELPS]) & player) * player_share
        spoken += _ones((bits[rule, NEEDS + 1] | bits[rule, HELPS + 1]) & scene) * scene_share
        if spoken > best[-1]:
            _keep_best(best, spoken)
        missing = (bits[rule, NEEDS] & ~player) | (bits[rule, NEEDS + 1] & ~scene)
        if missing | (bits[rule, VETOES] & player) | (bits[rule, VETOES + 1] & scene):
            continue
        helpful = _ones(bits[rule, HELPS]) + _ones(bits[rule, HELPS + 1])
        support = helping / helpful if helpful else 1.0
        expert = knowledge.experts[rule]
        value = knowledge.priors[rule] * (0.5 + 0.5 * support)
        figures[expert] = max(figures[expert], value)
        operator = knowledge.operators[rule]
        wants[operator] = max(wants[operator], value)
    figures[EXPERT_COUNT] = best.mean()


@kernel
def _packed_atoms(atoms: Array) -> tuple[np.uint64, np.uint64]:
    """Return the atoms of the player and those of the scene as one word each."""
    player, scene = _NO_BIT, _NO_BIT
    for atom in range(PLAYER_ATOMS):
        player |= np.uint64(atoms[atom]) << np.uint64(atom)
    for atom in range(PLAYER_ATOMS, len(atoms)):
        scene |= np.uint64(atoms[atom]) << np.uint64(atom - PLAYER_ATOMS)
    return player, scene


@kernel
def _ones(word: np.uint64) -> int:
    """Return how many bits of a word are set, by adding neighbors, then pairs, then nibbles."""
    word = word - ((word >> _ONE_BIT) & _EVERY_SECOND)
    word = (word & _PAIRS) + ((word >> _TWO_BITS) & _PAIRS)
    word = (word + (word >> _FOUR_BITS)) & _NIBBLES
    return integer((word * _BYTES) >> _TOP_BYTE)


@kernel
def _keep_best(best: Array, value: float) -> None:
    """Put a value among the best, which are in falling order, in place of the last."""
    place = len(best) - 1
    while place > 0 and best[place - 1] < value:
        best[place] = best[place - 1]
        place -= 1
    best[place] = value


@kernel
def _open(actions: Array, aim: int, around: Array, moves: Array, mask: Array) -> None:
    """Open the actions of an operator, of its moves those it aims at."""
    for action in range(len(mask)):
        if not actions[action] or mask[action]:
            continue
        if 1 <= action <= 16 and aim != ANY:
            mask[action] = _aims_at(around, moves, aim, (action - 1) % 8)
        else:
            mask[action] = True


@kernel
def _aims_at(around: Array, moves: Array, aim: int, direction: int) -> bool:
    if aim == HOSTILE:
        return bool(around[at.D_HOSTILE, direction] or moves[at.FOE] == direction + 1)
    if aim == TO_FRONTIER:
        return bool(moves[at.FRONTIER] == direction + 1)
    if aim == TO_DOWN:
        return bool(moves[at.DOWNWARD] == direction + 1)
    if aim == TO_OBJECT:
        return bool(moves[at.THING] == direction + 1)
    if aim == TO_DOOR:
        return bool(around[at.D_DOOR, direction])
    if aim == AWAY:
        return bool(around[at.D_AWAY, direction])
    return bool(around[at.D_ENTER, direction] and not around[at.D_HOSTILE, direction])


@kernel
def _close_dangers(around: Array, mask: Array) -> None:
    """Close moves into the peaceful and into what harms its attacker."""
    for direction in range(8):
        if around[at.D_TOUCH, direction] or around[at.D_PEACEFUL, direction]:
            mask[direction + 1] = False
            mask[direction + 9] = False

"""What the rules make of the atoms: how well they match, and which actions they leave open."""

from __future__ import annotations

from longhaul.core.env import Array
from longhaul.envs.nes.native import kernel
from longhaul.tasks.nethack.eyes.arrays import (
    D_AWAY,
    D_DOOR,
    D_ENTER,
    D_HOSTILE,
    D_PEACEFUL,
    D_TOUCH,
    DOWNWARD,
    F_PROMPT,
    FOE,
    FRONTIER,
    MOVE,
    NO_PROMPT,
    THING,
    Knowledge,
    Scratch,
)
from longhaul.tasks.nethack.rules import AIMS
from longhaul.tasks.nethack.vocabulary import ACTION_COUNT, EXPERTS, MORE

CHANNEL = 0.35
"""Weight of the player's and of the scene's atoms in the coverage."""
EXPERT_COUNT = len(EXPERTS)
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

    A rule that holds counts its prior, half of it for its context. A prompt leaves all actions
    open, and so does a situation without advice.
    """
    asked = scratch.found[F_PROMPT] != NO_PROMPT
    mask[:] = asked
    figures[:] = 0.0
    best = scratch.best
    best[:] = 0.0
    share = _shares(knowledge.is_player, atoms)
    needs, supports, vetoes = knowledge.needs, knowledge.supports, knowledge.vetoes
    for rule in range(len(knowledge.experts)):
        player, scene = _covered(needs[rule], supports[rule], atoms, knowledge.is_player)
        _keep_best(best, player * share[0] + scene * share[1])
        if not _holds(needs[rule], vetoes[rule], atoms):
            continue
        strength = knowledge.priors[rule] * (0.5 + 0.5 * _support(supports[rule], atoms))
        expert = knowledge.experts[rule]
        figures[expert] = max(figures[expert], strength)
        if not asked:
            operator = knowledge.operators[rule]
            aim = knowledge.aims[operator]
            _open(knowledge.actions[operator], aim, scratch.around, scratch.ways[MOVE], mask)
    figures[EXPERT_COUNT] = best.mean()
    if not asked:
        _close_dangers(scratch.around, mask)
    mask[MORE] = True
    opened = 0
    for action in range(ACTION_COUNT):
        opened += mask[action]
    if opened <= 1:
        mask[:] = True


@kernel
def _holds(needs: Array, vetoes: Array, atoms: Array) -> bool:
    """Whether all needed atoms are there and no forbidden one."""
    holds = True
    for atom in needs:
        if atom >= 0:
            holds = holds and atoms[atom] != 0
    for atom in vetoes:
        if atom >= 0:
            holds = holds and atoms[atom] == 0
    return holds


@kernel
def _support(supports: Array, atoms: Array) -> float:
    """Return the share of a rule's context that is there, all if it has none."""
    known, there = 0, 0
    for atom in supports:
        if atom >= 0:
            known += 1
            there += atoms[atom]
    return there / known if known else 1.0


@kernel
def _shares(is_player: Array, atoms: Array) -> tuple[float, float]:
    """Return what one present atom of the player and one of the scene add to a coverage."""
    player, scene = 0, 0
    for atom in range(len(atoms)):
        if atoms[atom]:
            player += is_player[atom]
            scene += 1 - is_player[atom]
    return (CHANNEL / player if player else 0.0, CHANNEL / scene if scene else 0.0)


@kernel
def _covered(needs: Array, supports: Array, atoms: Array, is_player: Array) -> tuple[int, int]:
    """Return how many present atoms of the player and of the scene a rule speaks of."""
    player, scene = 0, 0
    for atom in needs:
        if atom >= 0 and atoms[atom]:
            player += is_player[atom]
            scene += 1 - is_player[atom]
    for atom in supports:
        if atom >= 0 and atoms[atom]:
            player += is_player[atom]
            scene += 1 - is_player[atom]
    return player, scene


@kernel
def _keep_best(best: Array, value: float) -> None:
    """Put a value among the best, which are in falling order, if it belongs there."""
    if value <= best[-1]:
        return
    place = len(best) - 1
    while place > 0 and best[place - 1] < value:
        best[place] = best[place - 1]
        place -= 1
    best[place] = value


@kernel
def _open(actions: Array, aim: int, around: Array, moves: Array, mask: Array) -> None:
    """Open the actions of an operator, of its moves those it aims at."""
    for action in range(ACTION_COUNT):
        if not actions[action] or mask[action]:
            continue
        if 1 <= action <= 16 and aim != ANY:
            mask[action] = _aims_at(around, moves, aim, (action - 1) % 8)
        else:
            mask[action] = True


@kernel
def _aims_at(around: Array, moves: Array, aim: int, direction: int) -> bool:
    if aim == HOSTILE:
        return bool(around[D_HOSTILE, direction] or moves[FOE] == direction + 1)
    if aim == TO_FRONTIER:
        return bool(moves[FRONTIER] == direction + 1)
    if aim == TO_DOWN:
        return bool(moves[DOWNWARD] == direction + 1)
    if aim == TO_OBJECT:
        return bool(moves[THING] == direction + 1)
    if aim == TO_DOOR:
        return bool(around[D_DOOR, direction])
    if aim == AWAY:
        return bool(around[D_AWAY, direction])
    return bool(around[D_ENTER, direction] and not around[D_HOSTILE, direction])


@kernel
def _close_dangers(around: Array, mask: Array) -> None:
    """Close moves into the peaceful and into what harms whoever hits it."""
    for direction in range(8):
        if around[D_TOUCH, direction] or around[D_PEACEFUL, direction]:
            mask[direction + 1] = False
            mask[direction + 9] = False

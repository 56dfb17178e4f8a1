"""Writing which atoms hold."""

from __future__ import annotations

from longhaul.core.env import Array
from longhaul.core.native import kernel
from longhaul.tasks.nethack.observation.arrays import (
    ARMOR,
    ASKS_CONFIRMATION,
    ASKS_DIRECTION,
    ASKS_ITEM,
    BURDEN,
    C_AMULET,
    C_ARMOR,
    C_BOOK,
    C_FOOD,
    C_POTION,
    C_RING,
    C_SCROLL,
    C_TOOL,
    C_WAND,
    C_WEAPON,
    CONDITION,
    CORRIDOR,
    DEPTH,
    DOWNWARD,
    DUNGEON,
    ENERGY,
    EXPERIENCE_LEVEL,
    F_ADJACENT,
    F_ALTAR,
    F_BOULDER_NEAR,
    F_DOOR_CLOSED,
    F_DOOR_OPEN,
    F_DOWN_SEEN,
    F_EXPLODER,
    F_FOOD_KEY,
    F_FOUNTAIN,
    F_GOLD_REACHED,
    F_IN_LINE,
    F_IN_VIEW,
    F_OBJECT_NEAR,
    F_PEACEFUL,
    F_PET,
    F_PLACE,
    F_PROMPT,
    F_SHOPKEEPER,
    F_STRONG,
    F_TOUCH,
    F_TRAP_NEAR,
    F_UNDER,
    F_UNSEEN,
    F_UP_SEEN,
    F_WAYS,
    FRONTIER,
    GOLD,
    HP,
    HP_MAX,
    HUNGER,
    KINDS,
    R_FROZEN,
    R_HURT_AGE,
    R_LEVEL_AGE,
    R_LINGER,
    R_LOCK_AGE,
    R_MEAL_TURN,
    R_SEARCHES,
    ROOM,
    SAFE_MEAL,
    STEPS,
    THING,
    THROWN,
    TRAITS,
    TURN,
    Knowledge,
    Recall,
    Scratch,
    Screen,
    X,
    Y,
)
from longhaul.tasks.nethack.vocabulary import ATOM_INDEX

HEALTH = ATOM_INDEX["hp_full"]
HURT = ATOM_INDEX["recently_hurt"]
HUNGERS = ATOM_INDEX["hunger_satiated"]
EATEN = ATOM_INDEX["recently_eaten"]
STRENGTH = ATOM_INDEX["energy_ready"]
CONDITIONS = ATOM_INDEX["blind"]
PACK = ATOM_INDEX["food_in_pack"]
PROMPT = ATOM_INDEX["prompt_direction"]
TIME = ATOM_INDEX["stuck"]
DEPTHS = ATOM_INDEX["depth_first"]
CREATURES = ATOM_INDEX["hostile_adjacent"]
STAIRS = ATOM_INDEX["on_stairs_down"]
THINGS = ATOM_INDEX["on_object"]
PLACES = ATOM_INDEX["door_open_adjacent"]

MINES, SOKOBAN = 2, 4
"""Dungeon numbers of the status line."""
HURT_STEPS = 5
MEAL_TURNS = 50
LOCK_STEPS = 10
STUCK_STEPS = 3
LINGER_STEPS = 20
SEARCHES = 10
ARRIVAL_STEPS = 20
FRESH_TURNS = 30
SPELL_ENERGY = 5
MANY = 3
TROUBLE_POINTS = 5
TROUBLE_SHARE = 7


@kernel
def write_atoms(
    screen: Screen, recall: Recall, knowledge: Knowledge, scratch: Scratch, atoms: Array
) -> None:
    """Write 1 for every atom that holds and 0 for the others."""
    atoms[:] = 0
    status, numbers, found = screen.status, recall.numbers, scratch.found
    steps = scratch.ways[STEPS]
    _write_body(status, numbers, atoms)
    _write_strength(status, knowledge.conditions, atoms)
    _write_pack(screen, knowledge.classes, knowledge.table[TRAITS], atoms)
    atoms[PACK + 1] = found[F_FOOD_KEY]
    _write_moment(numbers, found[F_PROMPT], atoms)
    _write_depth(status, atoms)
    _write_creatures(found, atoms)
    _write_stairs(found, steps, atoms)
    place = (status[Y], status[X])
    fresh = status[TURN] - recall.killed[place] <= FRESH_TURNS
    safe = knowledge.table[TRAITS, recall.ground[place]] & SAFE_MEAL
    atoms[THINGS + 1] = fresh and safe != 0
    _write_things(found, steps, atoms)
    _write_places(found, steps, numbers[R_LOCK_AGE], atoms)


@kernel
def health_band(hp: int, most: int) -> int:
    """Return 0 for full health to 4 for what the game itself calls trouble."""
    if hp <= TROUBLE_POINTS or hp * TROUBLE_SHARE <= most:
        return 4
    if hp * 5 >= most * 4:
        return 0
    if hp * 5 >= most * 3:
        return 1
    return 2 if hp * 5 >= most * 2 else 3


@kernel
def _write_body(status: Array, numbers: Array, atoms: Array) -> None:
    atoms[HEALTH + health_band(status[HP], status[HP_MAX])] = 1
    atoms[HURT] = numbers[R_HURT_AGE] < HURT_STEPS
    atoms[HUNGERS + min(status[HUNGER], 3)] = 1
    atoms[EATEN] = status[TURN] - numbers[R_MEAL_TURN] < MEAL_TURNS


@kernel
def _write_strength(status: Array, conditions: Array, atoms: Array) -> None:
    atoms[STRENGTH] = status[ENERGY] >= SPELL_ENERGY
    atoms[STRENGTH + 1] = status[GOLD] > 0
    atoms[STRENGTH + 2] = status[ARMOR] >= 7
    atoms[STRENGTH + 3] = status[ARMOR] <= 2
    level = status[EXPERIENCE_LEVEL]
    atoms[STRENGTH + 4 + (0 if level <= 2 else 1 if level <= 5 else 2)] = 1
    atoms[STRENGTH + 7] = status[BURDEN] > 0
    for place in range(len(conditions)):
        atoms[CONDITIONS + place] = status[CONDITION] & conditions[place] != 0


@kernel
def _write_pack(screen: Screen, classes: Array, traits: Array, atoms: Array) -> None:
    for place in range(len(screen.item_letters)):
        if screen.item_letters[place] == 0:
            break
        item = screen.item_classes[place]
        if item == classes[C_FOOD]:
            atoms[PACK] = 1
        elif item == classes[C_WEAPON]:
            atoms[PACK + 2] = 1
            atoms[PACK + 3] |= traits[screen.item_glyphs[place]] & THROWN != 0
        elif item == classes[C_ARMOR]:
            atoms[PACK + 4] = 1
        elif item == classes[C_RING] or item == classes[C_AMULET]:
            atoms[PACK + 9] = 1
        else:
            _write_magic(item, classes, atoms)


@kernel
def _write_magic(item: int, classes: Array, atoms: Array) -> None:
    if item == classes[C_POTION]:
        atoms[PACK + 5] = 1
    elif item == classes[C_SCROLL]:
        atoms[PACK + 6] = 1
    elif item == classes[C_WAND]:
        atoms[PACK + 7] = 1
    elif item == classes[C_TOOL]:
        atoms[PACK + 8] = 1
    elif item == classes[C_BOOK]:
        atoms[PACK + 10] = 1


@kernel
def _write_moment(numbers: Array, prompt: int, atoms: Array) -> None:
    atoms[PROMPT] = prompt == ASKS_DIRECTION
    atoms[PROMPT + 1] = prompt == ASKS_ITEM
    atoms[PROMPT + 2] = prompt == ASKS_CONFIRMATION
    atoms[TIME] = numbers[R_FROZEN] >= STUCK_STEPS
    atoms[TIME + 1] = numbers[R_LINGER] >= LINGER_STEPS
    atoms[TIME + 2] = numbers[R_SEARCHES] >= SEARCHES
    atoms[TIME + 3] = numbers[R_LEVEL_AGE] < ARRIVAL_STEPS


@kernel
def _write_depth(status: Array, atoms: Array) -> None:
    depth = status[DEPTH]
    atoms[DEPTHS + (0 if depth <= 1 else 1 if depth <= 4 else 2 if depth <= 10 else 3)] = 1
    atoms[DEPTHS + 4] = status[DUNGEON] == MINES
    atoms[DEPTHS + 5] = status[DUNGEON] == SOKOBAN


@kernel
def _write_creatures(found: Array, atoms: Array) -> None:
    atoms[CREATURES] = found[F_ADJACENT] > 0
    atoms[CREATURES + 1] = found[F_IN_LINE]
    atoms[CREATURES + 2] = found[F_IN_VIEW] > 0
    atoms[CREATURES + 3] = found[F_IN_VIEW] >= MANY
    atoms[CREATURES + 4] = found[F_ADJACENT] > 1
    atoms[CREATURES + 5] = found[F_STRONG]
    atoms[CREATURES + 6] = found[F_TOUCH]
    atoms[CREATURES + 7] = found[F_EXPLODER]
    atoms[CREATURES + 8] = found[F_PEACEFUL]
    atoms[CREATURES + 9] = found[F_PET]
    atoms[CREATURES + 10] = found[F_SHOPKEEPER]
    atoms[CREATURES + 11] = found[F_UNSEEN]


@kernel
def _write_stairs(found: Array, steps: Array, atoms: Array) -> None:
    atoms[STAIRS] = found[F_UNDER] == KINDS.stairs_down
    atoms[STAIRS + 1] = found[F_UNDER] == KINDS.stairs_up
    atoms[STAIRS + 2] = found[F_DOWN_SEEN]
    atoms[STAIRS + 3] = found[F_UP_SEEN]
    atoms[STAIRS + 4] = steps[DOWNWARD] > 0


@kernel
def _write_things(found: Array, steps: Array, atoms: Array) -> None:
    atoms[THINGS] = KINDS.gold <= found[F_UNDER] <= KINDS.corpse
    atoms[THINGS + 2] = found[F_OBJECT_NEAR]
    atoms[THINGS + 3] = steps[THING] > 0
    atoms[THINGS + 4] = found[F_GOLD_REACHED]
    atoms[THINGS + 5] = found[F_BOULDER_NEAR]


@kernel
def _write_places(found: Array, steps: Array, lock_age: int, atoms: Array) -> None:
    under = found[F_UNDER]
    atoms[PLACES] = found[F_DOOR_OPEN]
    atoms[PLACES + 1] = found[F_DOOR_CLOSED]
    atoms[PLACES + 2] = lock_age < LOCK_STEPS
    atoms[PLACES + 3] = under == KINDS.doorway or under == KINDS.open_door
    atoms[PLACES + 4] = under == KINDS.trap
    atoms[PLACES + 5] = found[F_TRAP_NEAR]
    atoms[PLACES + 6] = found[F_PLACE] == CORRIDOR
    atoms[PLACES + 7] = found[F_PLACE] == ROOM
    atoms[PLACES + 8] = found[F_WAYS] <= 1
    atoms[PLACES + 9] = steps[FRONTIER] > 0
    atoms[PLACES + 10] = found[F_ALTAR]
    atoms[PLACES + 11] = found[F_FOUNTAIN]

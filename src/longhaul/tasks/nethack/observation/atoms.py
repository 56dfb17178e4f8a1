"""Writing which atoms hold."""

from __future__ import annotations

from longhaul.core.env import Array
from longhaul.core.native import kernel
from longhaul.tasks.nethack.observation import arrays as at
from longhaul.tasks.nethack.observation.arrays import Knowledge, Recall, Scratch, Screen
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
    steps = scratch.ways[at.STEPS]
    _write_body(status, numbers, atoms)
    _write_strength(status, knowledge.conditions, atoms)
    _write_pack(screen, knowledge.classes, knowledge.table[at.TRAITS], atoms)
    atoms[PACK + 1] = found[at.F_FOOD_KEY]
    _write_moment(numbers, found[at.F_PROMPT], atoms)
    _write_depth(status, atoms)
    _write_creatures(found, atoms)
    _write_stairs(found, steps, atoms)
    place = (status[at.Y], status[at.X])
    fresh = status[at.TURN] - recall.killed[place] <= FRESH_TURNS
    safe = knowledge.table[at.TRAITS, recall.ground[place]] & at.SAFE_MEAL
    atoms[THINGS + 1] = fresh and safe != 0
    _write_things(found, steps, atoms)
    _write_places(found, steps, numbers[at.R_LOCK_AGE], atoms)


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
    atoms[HEALTH + health_band(status[at.HP], status[at.HP_MAX])] = 1
    atoms[HURT] = numbers[at.R_HURT_AGE] < HURT_STEPS
    atoms[HUNGERS + min(status[at.HUNGER], 3)] = 1
    atoms[EATEN] = status[at.TURN] - numbers[at.R_MEAL_TURN] < MEAL_TURNS


@kernel
def _write_strength(status: Array, conditions: Array, atoms: Array) -> None:
    atoms[STRENGTH] = status[at.ENERGY] >= SPELL_ENERGY
    atoms[STRENGTH + 1] = status[at.GOLD] > 0
    atoms[STRENGTH + 2] = status[at.ARMOR] >= 7
    atoms[STRENGTH + 3] = status[at.ARMOR] <= 2
    level = status[at.EXPERIENCE_LEVEL]
    atoms[STRENGTH + 4 + (0 if level <= 2 else 1 if level <= 5 else 2)] = 1
    atoms[STRENGTH + 7] = status[at.BURDEN] > 0
    for place in range(len(conditions)):
        atoms[CONDITIONS + place] = status[at.CONDITION] & conditions[place] != 0


@kernel
def _write_pack(screen: Screen, classes: Array, traits: Array, atoms: Array) -> None:
    for place in range(len(screen.item_letters)):
        if screen.item_letters[place] == 0:
            break
        item = screen.item_classes[place]
        if item == classes[at.C_FOOD]:
            atoms[PACK] = 1
        elif item == classes[at.C_WEAPON]:
            atoms[PACK + 2] = 1
            atoms[PACK + 3] |= traits[screen.item_glyphs[place]] & at.THROWN != 0
        elif item == classes[at.C_ARMOR]:
            atoms[PACK + 4] = 1
        elif item == classes[at.C_RING] or item == classes[at.C_AMULET]:
            atoms[PACK + 9] = 1
        else:
            _write_magic(item, classes, atoms)


@kernel
def _write_magic(item: int, classes: Array, atoms: Array) -> None:
    if item == classes[at.C_POTION]:
        atoms[PACK + 5] = 1
    elif item == classes[at.C_SCROLL]:
        atoms[PACK + 6] = 1
    elif item == classes[at.C_WAND]:
        atoms[PACK + 7] = 1
    elif item == classes[at.C_TOOL]:
        atoms[PACK + 8] = 1
    elif item == classes[at.C_BOOK]:
        atoms[PACK + 10] = 1


@kernel
def _write_moment(numbers: Array, prompt: int, atoms: Array) -> None:
    atoms[PROMPT] = prompt == at.ASKS_DIRECTION
    atoms[PROMPT + 1] = prompt == at.ASKS_ITEM
    atoms[PROMPT + 2] = prompt == at.ASKS_CONFIRMATION
    atoms[TIME] = numbers[at.R_FROZEN] >= STUCK_STEPS
    atoms[TIME + 1] = numbers[at.R_LINGER] >= LINGER_STEPS
    atoms[TIME + 2] = numbers[at.R_SEARCHES] >= SEARCHES
    atoms[TIME + 3] = numbers[at.R_LEVEL_AGE] < ARRIVAL_STEPS


@kernel
def _write_depth(status: Array, atoms: Array) -> None:
    depth = status[at.DEPTH]
    atoms[DEPTHS + (0 if depth <= 1 else 1 if depth <= 4 else 2 if depth <= 10 else 3)] = 1
    atoms[DEPTHS + 4] = status[at.DUNGEON] == MINES
    atoms[DEPTHS + 5] = status[at.DUNGEON] == SOKOBAN


@kernel
def _write_creatures(found: Array, atoms: Array) -> None:
    atoms[CREATURES] = found[at.F_ADJACENT] > 0
    atoms[CREATURES + 1] = found[at.F_IN_LINE]
    atoms[CREATURES + 2] = found[at.F_IN_VIEW] > 0
    atoms[CREATURES + 3] = found[at.F_IN_VIEW] >= MANY
    atoms[CREATURES + 4] = found[at.F_ADJACENT] > 1
    atoms[CREATURES + 5] = found[at.F_STRONG]
    atoms[CREATURES + 6] = found[at.F_TOUCH]
    atoms[CREATURES + 7] = found[at.F_EXPLODER]
    atoms[CREATURES + 8] = found[at.F_PEACEFUL]
    atoms[CREATURES + 9] = found[at.F_PET]
    atoms[CREATURES + 10] = found[at.F_SHOPKEEPER]
    atoms[CREATURES + 11] = found[at.F_UNSEEN]


@kernel
def _write_stairs(found: Array, steps: Array, atoms: Array) -> None:
    atoms[STAIRS] = found[at.F_UNDER] == at.KINDS.stairs_down
    atoms[STAIRS + 1] = found[at.F_UNDER] == at.KINDS.stairs_up
    atoms[STAIRS + 2] = found[at.F_DOWN_SEEN]
    atoms[STAIRS + 3] = found[at.F_UP_SEEN]
    atoms[STAIRS + 4] = steps[at.DOWNWARD] > 0


@kernel
def _write_things(found: Array, steps: Array, atoms: Array) -> None:
    atoms[THINGS] = at.KINDS.gold <= found[at.F_UNDER] <= at.KINDS.corpse
    atoms[THINGS + 2] = found[at.F_OBJECT_NEAR]
    atoms[THINGS + 3] = steps[at.THING] > 0
    atoms[THINGS + 4] = found[at.F_GOLD_REACHED]
    atoms[THINGS + 5] = found[at.F_BOULDER_NEAR]


@kernel
def _write_places(found: Array, steps: Array, lock_age: int, atoms: Array) -> None:
    under = found[at.F_UNDER]
    atoms[PLACES] = found[at.F_DOOR_OPEN]
    atoms[PLACES + 1] = found[at.F_DOOR_CLOSED]
    atoms[PLACES + 2] = lock_age < LOCK_STEPS
    atoms[PLACES + 3] = under == at.KINDS.doorway or under == at.KINDS.open_door
    atoms[PLACES + 4] = under == at.KINDS.trap
    atoms[PLACES + 5] = found[at.F_TRAP_NEAR]
    atoms[PLACES + 6] = found[at.F_PLACE] == at.CORRIDOR
    atoms[PLACES + 7] = found[at.F_PLACE] == at.ROOM
    atoms[PLACES + 8] = found[at.F_WAYS] <= 1
    atoms[PLACES + 9] = steps[at.FRONTIER] > 0
    atoms[PLACES + 10] = found[at.F_ALTAR]
    atoms[PLACES + 11] = found[at.F_FOUNTAIN]

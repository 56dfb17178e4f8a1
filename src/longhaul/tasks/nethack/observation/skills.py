"""What each skill would do next, the atoms and the numbers that skills are chosen by."""

from __future__ import annotations

from longhaul.core.env import Array
from longhaul.core.native import kernel
from longhaul.tasks.nethack.observation import arrays as at
from longhaul.tasks.nethack.observation.arrays import (
    Knowledge,
    Recall,
    Scratch,
    Screen,
    ShownArrays,
)
from longhaul.tasks.nethack.observation.atoms import TROUBLE_POINTS, TROUBLE_SHARE
from longhaul.tasks.nethack.observation.foes import note_chase, note_refusal
from longhaul.tasks.nethack.observation.places import (
    locked_door_beside,
    noise,
    note_search,
)
from longhaul.tasks.nethack.observation.scene import STEP_X, STEP_Y
from longhaul.tasks.nethack.skills import (
    ASCEND,
    BREAK_DOOR,
    CHARGE,
    COLLECT,
    DESCEND,
    EAT_CORPSE,
    EAT_PACK,
    EXPLORE,
    FIGHT,
    GO_BACK_UP,
    GO_TO_STAIRS,
    HOLD,
    PASS_TURN,
    PRAY_SKILL,
    PUSH_BOULDER,
    QUAFF_SKILL,
    REST,
    RETREAT,
    SEARCH_SPOT,
    STEP_AWAY,
    WANDER,
)
from longhaul.tasks.nethack.vocabulary import (
    ATOM_INDEX,
    DOWN,
    EAT,
    EAT_ANY,
    KICK,
    PRAY,
    QUAFF,
    SEARCH,
    SEARCH_20,
    TRAVEL,
    UP,
    WAIT,
)

OWN_ATOMS = ATOM_INDEX["hp_half"]
ON_CORPSE = ATOM_INDEX["on_safe_corpse"]
LONG_SEARCH = 20
CLOSE = 7
HOLDING = 4
FIRST_PRAYER, PRAYER_TURNS = 150, 900
MEAL_PAUSE, CORPSE_PAUSE = 18, 8
"""Turns in which a meal that did not come about is not tried again."""
HUNGRY, WEAK = 2, 3
STRONGER = 3
HEALTH_PER_LEVEL = 10
WORTH_TRAVELING = 4
LENGTH_FIGURE = 7
"""The place among the numbers of how long the last skill went on, which the env writes, as it
writes the atom of whether something interrupted it."""


@kernel
def note_skills(screen: Screen, recall: Recall, knowledge: Knowledge, action: int) -> None:
    """Take into account what the last action means for skills; before the hero's place is."""
    numbers, status = recall.numbers, screen.status
    hero = (numbers[at.R_Y], numbers[at.R_X])
    if action in (SEARCH, SEARCH_20):
        note_search(recall, hero, LONG_SEARCH if action == SEARCH_20 else 1)
    half = 2 * status[at.HP] < status[at.HP_MAX]
    mended = 10 * status[at.HP] >= 9 * status[at.HP_MAX]
    waits = action in (SEARCH, SEARCH_20, WAIT)
    numbers[at.R_RESTING] = waits and not mended and (half or numbers[at.R_RESTING])
    if action == KICK:
        numbers[at.R_KICK] = locked_door_beside(recall, knowledge.table, hero)
        _try_cell(recall, hero, numbers[at.R_KICK], 1)
    elif 1 <= action <= 8:
        y, x = hero[0] + STEP_Y[action - 1], hero[1] + STEP_X[action - 1]
        inside = 0 <= y < recall.ground.shape[0] and 0 <= x < at.WIDTH
        if inside and knowledge.table[at.KIND, recall.ground[y, x]] == at.KINDS.boulder:
            _try_cell(recall, hero, action, 4)
    elif action == PRAY:
        numbers[at.R_PRAYED] = status[at.TURN]
    elif action in (EAT_ANY, EAT):
        numbers[at.R_CORPSE if numbers[at.R_SKILL] == EAT_CORPSE else at.R_ATE] = status[at.TURN]
    if numbers[at.R_SKILL] == CHARGE:
        note_chase(recall)
    note_refusal(screen, recall)


@kernel
def _try_cell(recall: Recall, hero: tuple[int, int], move: int, times: int) -> None:
    if move == 0:
        return
    y, x = hero[0] + STEP_Y[move - 1], hero[1] + STEP_X[move - 1]
    if 0 <= y < recall.tries.shape[0] and 0 <= x < at.WIDTH:
        recall.tries[y, x] = min(recall.tries[y, x] + times, 250)


@kernel
def begin_skills(recall: Recall) -> None:
    """Forget what skills remember of the game before."""
    numbers = recall.numbers
    numbers[at.R_PRAYED] = -at.NEVER
    numbers[at.R_ATE] = -at.NEVER
    numbers[at.R_CORPSE] = -at.NEVER
    numbers[at.R_SKILL] = -1
    recall.peaceful[:] = -at.NEVER


@kernel
def is_prayer_ready(numbers: Array, turn: int) -> bool:
    """Whether a prayer for help in trouble is likely to be heard."""
    return bool(turn > FIRST_PRAYER and turn - numbers[at.R_PRAYED] > PRAYER_TURNS)


@kernel
def is_in_trouble(status: Array) -> bool:
    """Whether a god would help."""
    low = status[at.HP] <= TROUBLE_POINTS or status[at.HP] * TROUBLE_SHARE <= status[at.HP_MAX]
    return bool(low or status[at.HUNGER] >= WEAK)


@kernel
def write_keys(
    screen: Screen, recall: Recall, knowledge: Knowledge, scratch: Scratch, shown: ShownArrays
) -> None:
    """Write the action each skill takes next, 0 for one that does not apply."""
    keys = shown.keys
    keys[:] = 0
    extended = len(keys) > PRAY_SKILL
    _write_fighting(scratch, keys)
    _write_body(screen, recall, scratch, keys)
    if shown.atoms[ON_CORPSE] and screen.status[at.HUNGER] > 0:
        turn = screen.status[at.TURN]
        keys[EAT_CORPSE] = EAT if turn - recall.numbers[at.R_CORPSE] > CORPSE_PAUSE else 0
    _write_walking(screen, scratch, keys)
    _write_errands(scratch.errands, keys)
    keys[WANDER] = _step_about(scratch.around, recall.numbers[at.R_STEP])
    keys[PASS_TURN] = SEARCH
    if extended:
        _write_extended(screen, recall, knowledge, scratch, keys)


@kernel
def _write_fighting(scratch: Scratch, keys: Array) -> None:
    sighted, errands = scratch.sighted, scratch.errands
    if sighted[at.S_ADJACENT]:
        keys[FIGHT] = sighted[at.S_WEAKEST]
    elif errands[at.STEPS, at.PREY]:
        keys[CHARGE] = errands[at.MOVE, at.PREY]
    if sighted[at.S_SAFE]:
        keys[RETREAT] = errands[at.MOVE, at.NARROW]
        if not sighted[at.S_ADJACENT] and sighted[at.S_NEAREST] <= HOLDING:
            keys[HOLD] = SEARCH
    if sighted[at.S_FOES]:
        for direction in range(8):
            if scratch.around[at.D_AWAY, direction] and not keys[STEP_AWAY]:
                keys[STEP_AWAY] = direction + 1


@kernel
def _write_body(screen: Screen, recall: Recall, scratch: Scratch, keys: Array) -> None:
    status, numbers = screen.status, recall.numbers
    if status[at.HP] < status[at.HP_MAX]:
        keys[REST] = SEARCH
    rested = status[at.TURN] - numbers[at.R_ATE] > MEAL_PAUSE
    if status[at.HUNGER] >= HUNGRY and rested and scratch.found[at.F_FOOD_KEY]:
        keys[EAT_PACK] = EAT
    if scratch.found[at.F_UNDER] == at.KINDS.stairs_up and status[at.DEPTH] > 1:
        keys[ASCEND] = UP


@kernel
def _write_walking(screen: Screen, scratch: Scratch, keys: Array) -> None:
    ways = scratch.ways[at.MOVE]
    keys[EXPLORE] = ways[at.FRONTIER]
    keys[COLLECT] = ways[at.THING]
    if scratch.found[at.F_UNDER] == at.KINDS.stairs_down:
        keys[DESCEND] = DOWN
    else:
        keys[GO_TO_STAIRS] = ways[at.DOWNWARD]


@kernel
def _write_errands(errands: Array, keys: Array) -> None:
    keys[SEARCH_SPOT] = errands[at.MOVE, at.SPOT]
    keys[BREAK_DOOR] = errands[at.MOVE, at.LOCKED]
    keys[PUSH_BOULDER] = errands[at.MOVE, at.BOULDER]
    keys[GO_BACK_UP] = errands[at.MOVE, at.UPWARD]


@kernel
def _step_about(around: Array, step: int) -> int:
    """Return a move into a free cell that looks drawn, and is the same in every replay."""
    count = 0
    for direction in range(8):
        count += around[at.D_ENTER, direction]
    if count == 0:
        return SEARCH
    chosen = int(noise(step, count) * count)
    for direction in range(8):
        if around[at.D_ENTER, direction]:
            if chosen == 0:
                return direction + 1
            chosen -= 1
    return SEARCH


@kernel
def _write_extended(
    screen: Screen, recall: Recall, knowledge: Knowledge, scratch: Scratch, keys: Array
) -> None:
    """Write what the larger action set can do better or besides."""
    status, numbers = screen.status, recall.numbers
    if keys[REST]:
        keys[REST] = SEARCH_20
    if keys[SEARCH_SPOT] == SEARCH:
        keys[SEARCH_SPOT] = SEARCH_20
    if scratch.ways[at.STEPS, at.DOWNWARD] >= WORTH_TRAVELING and keys[GO_TO_STAIRS]:
        keys[GO_TO_STAIRS] = TRAVEL
    rested = status[at.TURN] - numbers[at.R_ATE] > MEAL_PAUSE
    meal = carries(screen, knowledge.classes[at.C_FOOD])
    keys[EAT_PACK] = EAT_ANY if status[at.HUNGER] >= HUNGRY and rested and meal else 0
    if is_prayer_ready(numbers, status[at.TURN]) and is_in_trouble(status):
        keys[PRAY_SKILL] = PRAY
    if carries(screen, knowledge.classes[at.C_POTION]) and 3 * status[at.HP] < status[at.HP_MAX]:
        keys[QUAFF_SKILL] = QUAFF


@kernel
def carries(screen: Screen, wanted: int) -> bool:
    """Whether an item of this class is in the pack."""
    for place in range(len(screen.item_letters)):
        if screen.item_letters[place] == 0:
            return False
        if screen.item_classes[place] == wanted:
            return True
    return False


@kernel
def write_skill_atoms(
    screen: Screen, recall: Recall, scratch: Scratch, keys: Array, atoms: Array
) -> None:
    """Write the atoms that only skills have, after all others."""
    status, numbers, sighted = screen.status, recall.numbers, scratch.sighted
    own = atoms[OWN_ATOMS:]
    own[0] = 2 * status[at.HP] < status[at.HP_MAX]
    own[1] = 3 * status[at.HP] < status[at.HP_MAX]
    own[2] = numbers[at.R_RESTING]
    own[3] = is_prayer_ready(numbers, status[at.TURN])
    own[4] = keys[EAT_PACK] != 0
    own[5] = sighted[at.S_ADJACENT] > 0
    own[6] = sighted[at.S_ADJACENT] > 1
    own[7] = keys[CHARGE] != 0
    own[8] = sighted[at.S_NEAREST] <= CLOSE
    strong = sighted[at.S_STRONGEST_LEVEL] > status[at.EXPERIENCE_LEVEL] + STRONGER
    own[9] = sighted[at.S_ADJACENT] > 0 and strong
    own[10] = keys[RETREAT] != 0
    own[11] = keys[GO_BACK_UP] != 0
    own[12] = keys[SEARCH_SPOT] != 0
    own[13] = keys[BREAK_DOOR] != 0
    own[14] = keys[PUSH_BOULDER] != 0
    own[15] = status[at.DEPTH] > status[at.EXPERIENCE_LEVEL] + 1
    own[16] = status[at.DEPTH] * HEALTH_PER_LEVEL > status[at.HP_MAX]


@kernel
def write_figures(
    screen: Screen, recall: Recall, scratch: Scratch, keys: Array, figures: Array
) -> None:
    """Write which skills apply, which was the last one, and the numbers."""
    status, numbers, sighted = screen.status, recall.numbers, scratch.sighted
    count = len(keys)
    figures[:] = 0.0
    for skill in range(count):
        figures[skill] = keys[skill] != 0
    if numbers[at.R_SKILL] >= 0:
        figures[count + numbers[at.R_SKILL]] = 1.0
    own = figures[2 * count :]
    own[0] = min(sighted[at.S_ADJACENT], 4) / 4.0
    own[1] = min(sighted[at.S_SAFE], 6) / 6.0
    own[2] = min(sighted[at.S_FOES], 6) / 6.0
    own[3] = min(sighted[at.S_NEAREST], 20) / 20.0
    own[4] = sighted[at.S_WEAKEST_LEVEL] / 10.0
    own[5] = sighted[at.S_STRONGEST_LEVEL] / 10.0
    own[6] = sighted[at.S_SPOT_VALUE] / 300.0
    own[8] = min(status[at.TURN] - numbers[at.R_PRAYED], 1000) / 1000.0
    own[9] = min(status[at.TURN], 300) / 300.0
    for target in range(len(scratch.errands[at.STEPS])):
        steps = scratch.errands[at.STEPS, target]
        own[10 + target] = 1.0 / steps if steps > 0 else 0.0

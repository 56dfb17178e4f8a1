"""What the native code knows before a game begins, gathered from the game's tables and the rules.

No number of a glyph is written down here: offsets, monsters, objects and map symbols are asked of
NLE, by their names."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from nle import nethack
from nle.env.tasks import TASK_ACTIONS

from longhaul.core.env import Array
from longhaul.core.errors import EnvError
from longhaul.tasks.nethack.observation import arrays
from longhaul.tasks.nethack.observation.arrays import (
    CLASSES_NAMED,
    CLOSED_OFF,
    EXPLODES,
    KIND,
    KINDS,
    LEVEL,
    OPEN,
    PEACEFUL,
    PICKED_UP,
    SAFE_MEAL,
    SHOPKEEPER,
    STRAIGHT,
    TABLE_ROWS,
    THROWN,
    TOUCH,
    TRAITS,
    WALK,
    Knowledge,
    packed,
)
from longhaul.tasks.nethack.rules import AIMS, RuleGraph
from longhaul.tasks.nethack.vocabulary import ACTION_COUNT

SYMBOLS = {
    "wall": KINDS.wall,
    "doorway": KINDS.doorway,
    "open door": KINDS.open_door,
    "closed door": KINDS.closed_door,
    "iron bars": KINDS.barrier,
    "tree": KINDS.barrier,
    "floor of a room": KINDS.floor,
    "dark part of a room": KINDS.floor,
    "corridor": KINDS.corridor,
    "lit corridor": KINDS.corridor,
    "staircase up": KINDS.stairs_up,
    "staircase down": KINDS.stairs_down,
    "ladder up": KINDS.stairs_up,
    "ladder down": KINDS.stairs_down,
    "altar": KINDS.altar,
    "grave": KINDS.floor,
    "opulent throne": KINDS.fountain,
    "sink": KINDS.fountain,
    "fountain": KINDS.fountain,
    "water": KINDS.liquid,
    "ice": KINDS.floor,
    "molten lava": KINDS.liquid,
    "lowered drawbridge": KINDS.floor,
    "raised drawbridge": KINDS.barrier,
    "air": KINDS.floor,
    "cloud": KINDS.floor,
}
"""The class of each map symbol, by what the game calls it; traps are asked for separately."""

WALKABLE = {
    KINDS.floor: OPEN,
    KINDS.corridor: OPEN,
    KINDS.doorway: OPEN,
    KINDS.open_door: STRAIGHT,
    KINDS.closed_door: STRAIGHT,
    KINDS.stairs_up: OPEN,
    KINDS.stairs_down: OPEN,
    KINDS.altar: OPEN,
    KINDS.fountain: OPEN,
    KINDS.trap: OPEN,
    KINDS.gold: OPEN,
    KINDS.object: OPEN,
    KINDS.corpse: OPEN,
    KINDS.statue: OPEN,
}
"""How cells of each class can be entered; the others not at all."""

HARMS_WHO_HITS = (
    "acid blob",
    "floating eye",
    "blue jelly",
    "spotted jelly",
    "brown mold",
    "yellow mold",
    "green mold",
    "red mold",
    "chickatrice",
    "cockatrice",
    "gelatinous cube",
)
EXPLODING = (
    "gas spore",
    "freezing sphere",
    "flaming sphere",
    "shocking sphere",
    "yellow light",
    "black light",
)
NOT_FOOD = (
    *("chickatrice", "cockatrice", "Medusa", "green slime", "lizard"),
    *("bat", "giant bat", "vampire bat", "stalker", "small mimic", "large mimic", "giant mimic"),
    *("werejackal", "wererat", "werewolf", "chameleon", "doppelganger", "leprechaun", "nurse"),
    *("Death", "Pestilence", "Famine", "quantum mechanic", "violet fungus"),
)
"""Corpses that stone, stun, paralyze or change the hero who eats them."""
PROJECTILES = (
    *("arrow", "elven arrow", "orcish arrow", "silver arrow", "ya", "crossbow bolt"),
    *("dart", "shuriken", "boomerang", "dagger", "elven dagger", "orcish dagger", "silver dagger"),
    *("spear", "elven spear", "orcish spear", "dwarvish spear", "silver spear", "javelin"),
)

# Bits of a monster's flags, by the names the game's source gives them.
M1_ACID, M1_POISONOUS = 0x08000000, 0x10000000
M2_UNDEAD, M2_HUMAN, M2_PEACEFUL, M2_DOMESTIC = 0x00000002, 0x00000008, 0x00200000, 0x00400000


def glyph_table() -> Array:
    """Return [TABLE_ROWS, glyphs + 1] uint8: class, traits, monster level and how to enter."""
    table = np.zeros((TABLE_ROWS, nethack.MAX_GLYPH + 1), np.uint8)
    table[KIND] = KINDS.effect
    for glyph, kind in _symbols():
        table[KIND, glyph] = kind
    _fill_monsters(table)
    _fill_objects(table)
    table[WALK] = CLOSED_OFF
    for kind, walk in WALKABLE.items():
        table[WALK, table[KIND] == kind] = walk
    return table


def glyph_named(symbol: str) -> int:
    """Return the first glyph of a map symbol; `nothing` is the blank one."""
    if symbol == "nothing":
        return int(nethack.GLYPH_CMAP_OFF)
    for index in range(1, nethack.MAXPCHARS):
        if nethack.symdef.from_idx(index).explanation == symbol:
            return int(nethack.GLYPH_CMAP_OFF) + index
    raise KeyError(symbol)


def _symbols() -> Iterator[tuple[int, int]]:
    """Yield the glyph and the class of each symbol of the map."""
    for index in range(nethack.MAXPCHARS):
        glyph = nethack.GLYPH_CMAP_OFF + index
        if glyph >= nethack.GLYPH_EXPLODE_OFF:
            return
        name = nethack.symdef.from_idx(index).explanation
        if index == 0:  # solid rock and what was never seen look the same: like nothing
            yield glyph, KINDS.blank
        elif nethack.glyph_is_trap(glyph):
            yield glyph, KINDS.trap
        elif name in SYMBOLS:
            yield glyph, SYMBOLS[name]


def _fill_monsters(table: Array) -> None:
    for number in range(nethack.NUMMONS):
        monster = nethack.permonst(number)
        always_peaceful = bool(monster.mflags2 & M2_PEACEFUL)
        traits = _monster_traits(monster)
        for offset, kind in (
            (nethack.GLYPH_MON_OFF, KINDS.peaceful if always_peaceful else KINDS.hostile),
            (nethack.GLYPH_PET_OFF, KINDS.pet),
            (nethack.GLYPH_DETECT_OFF, KINDS.peaceful if always_peaceful else KINDS.hostile),
            (nethack.GLYPH_RIDDEN_OFF, KINDS.pet),
        ):
            table[KIND, offset + number] = kind
            table[TRAITS, offset + number] = traits
            table[LEVEL, offset + number] = max(monster.mlevel, 0)
        table[KIND, nethack.GLYPH_BODY_OFF + number] = KINDS.corpse
        table[TRAITS, nethack.GLYPH_BODY_OFF + number] = _meal_traits(monster)
        table[KIND, nethack.GLYPH_STATUE_OFF + number] = KINDS.statue
    table[KIND, nethack.GLYPH_INVISIBLE] = KINDS.unseen
    warnings = slice(nethack.GLYPH_WARNING_OFF, nethack.GLYPH_WARNING_OFF + nethack.WARNCOUNT)
    table[KIND, warnings] = KINDS.unseen


def _monster_traits(monster: nethack.permonst) -> int:
    traits = 0
    if monster.mname in HARMS_WHO_HITS:
        traits |= TOUCH
    if monster.mname in EXPLODING:
        traits |= EXPLODES
    if monster.mflags2 & M2_PEACEFUL:
        traits |= PEACEFUL
    if monster.mname == "shopkeeper":
        traits |= SHOPKEEPER
    return traits


def _meal_traits(monster: nethack.permonst) -> int:
    harmful = monster.mflags1 & (M1_ACID | M1_POISONOUS)
    tabooed = monster.mflags2 & (M2_UNDEAD | M2_HUMAN | M2_DOMESTIC)
    if harmful or tabooed or monster.mname in NOT_FOOD:
        return 0
    return SAFE_MEAL


def _fill_objects(table: Array) -> None:
    for number in range(nethack.NUM_OBJECTS):
        glyph = nethack.GLYPH_OBJ_OFF + number
        thing = nethack.objclass(number)
        name, kind = nethack.OBJ_NAME(thing), ord(thing.oc_class)
        table[KIND, glyph] = KINDS.object
        if kind == nethack.COIN_CLASS:
            table[KIND, glyph] = KINDS.gold
        elif name == "boulder":
            table[KIND, glyph] = KINDS.boulder
        picked_up = (
            nethack.COIN_CLASS,
            nethack.SCROLL_CLASS,
            nethack.POTION_CLASS,
            nethack.WAND_CLASS,
        )
        if kind in picked_up:
            table[TRAITS, glyph] |= PICKED_UP
        if name in PROJECTILES:
            table[TRAITS, glyph] |= THROWN


_STATUS = {
    "X": arrays.X,
    "Y": arrays.Y,
    "STR125": arrays.STRENGTH,
    "DEX": arrays.DEXTERITY,
    "CON": arrays.CONSTITUTION,
    "INT": arrays.INTELLIGENCE,
    "WIS": arrays.WISDOM,
    "CHA": arrays.CHARISMA,
    "SCORE": arrays.SCORE,
    "HP": arrays.HP,
    "HPMAX": arrays.HP_MAX,
    "DEPTH": arrays.DEPTH,
    "GOLD": arrays.GOLD,
    "ENE": arrays.ENERGY,
    "ENEMAX": arrays.ENERGY_MAX,
    "AC": arrays.ARMOR,
    "XP": arrays.EXPERIENCE_LEVEL,
    "EXP": arrays.EXPERIENCE,
    "TIME": arrays.TURN,
    "HUNGER": arrays.HUNGER,
    "CAP": arrays.BURDEN,
    "DNUM": arrays.DUNGEON,
    "DLEVEL": arrays.DUNGEON_LEVEL,
    "CONDITION": arrays.CONDITION,
    "ALIGN": arrays.ALIGNMENT,
}
"""What NLE calls the columns of the status line, with the places the native code expects."""


def know(graph: RuleGraph) -> Knowledge:
    """Return all there is to know; a game whose status line is laid out otherwise is refused."""
    for name, place in _STATUS.items():
        found = vars(nethack)[f"NLE_BL_{name}"]
        if found != place:
            raise EnvError(
                f"this NLE puts {name} into column {found} of its status line, not {place}; "
                "install nle 1.3"
            )
    if len(TASK_ACTIONS) != ACTION_COUNT:
        raise EnvError(f"this NLE has {len(TASK_ACTIONS)} actions, not {ACTION_COUNT}")
    return Knowledge(
        table=glyph_table(),
        keys=np.array([int(action) for action in TASK_ACTIONS], np.uint8),
        classes=_item_classes(),
        landmarks=np.array(
            [glyph_named("nothing"), glyph_named("staircase up"), glyph_named("staircase down")],
            np.int64,
        ),
        conditions=_condition_bits(),
        bits=np.hstack([packed(graph.pre), packed(graph.context), packed(graph.forbids)]),
        priors=graph.prior,
        experts=graph.rule_expert,
        operators=graph.rule_operator,
        actions=graph.operator_actions,
        aims=np.array([AIMS.index(one.aim) for one in graph.operators], np.int64),
    )


def _item_classes() -> Array:
    found = np.zeros(CLASSES_NAMED, np.int64)
    for place, name in (
        (arrays.C_WEAPON, "WEAPON"),
        (arrays.C_ARMOR, "ARMOR"),
        (arrays.C_RING, "RING"),
        (arrays.C_AMULET, "AMULET"),
        (arrays.C_TOOL, "TOOL"),
        (arrays.C_FOOD, "FOOD"),
        (arrays.C_POTION, "POTION"),
        (arrays.C_SCROLL, "SCROLL"),
        (arrays.C_BOOK, "SPBOOK"),
        (arrays.C_WAND, "WAND"),
    ):
        found[place] = vars(nethack)[f"{name}_CLASS"]
    return found


def _condition_bits() -> Array:
    dying = ("STONE", "SLIME", "STRNGL", "FOODPOIS", "TERMILL")
    bits = np.zeros(5, np.int64)
    bits[arrays.B_BLIND] = nethack.BL_MASK_BLIND
    bits[arrays.B_CONFUSED] = nethack.BL_MASK_CONF
    bits[arrays.B_STUNNED] = nethack.BL_MASK_STUN
    bits[arrays.B_HALLUCINATING] = nethack.BL_MASK_HALLU
    for name in dying:
        bits[arrays.B_DYING] |= vars(nethack)[f"BL_MASK_{name}"]
    return bits

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
from longhaul.tasks.nethack.observation import arrays as at
from longhaul.tasks.nethack.observation.arrays import Knowledge, packed
from longhaul.tasks.nethack.rules import AIMS, RuleGraph
from longhaul.tasks.nethack.vocabulary import ACTION_COUNT

SYMBOLS = {
    "wall": at.KINDS.wall,
    "doorway": at.KINDS.doorway,
    "open door": at.KINDS.open_door,
    "closed door": at.KINDS.closed_door,
    "iron bars": at.KINDS.barrier,
    "tree": at.KINDS.barrier,
    "floor of a room": at.KINDS.floor,
    "dark part of a room": at.KINDS.floor,
    "corridor": at.KINDS.corridor,
    "lit corridor": at.KINDS.corridor,
    "staircase up": at.KINDS.stairs_up,
    "staircase down": at.KINDS.stairs_down,
    "ladder up": at.KINDS.stairs_up,
    "ladder down": at.KINDS.stairs_down,
    "altar": at.KINDS.altar,
    "grave": at.KINDS.floor,
    "opulent throne": at.KINDS.fountain,
    "sink": at.KINDS.fountain,
    "fountain": at.KINDS.fountain,
    "water": at.KINDS.liquid,
    "ice": at.KINDS.floor,
    "molten lava": at.KINDS.liquid,
    "lowered drawbridge": at.KINDS.floor,
    "raised drawbridge": at.KINDS.barrier,
    "air": at.KINDS.floor,
    "cloud": at.KINDS.floor,
}
"""The class of each map symbol, by what the game calls it; traps are asked for separately."""

WALKABLE = {
    at.KINDS.floor: at.OPEN,
    at.KINDS.corridor: at.OPEN,
    at.KINDS.doorway: at.OPEN,
    at.KINDS.open_door: at.STRAIGHT,
    at.KINDS.closed_door: at.STRAIGHT,
    at.KINDS.stairs_up: at.OPEN,
    at.KINDS.stairs_down: at.OPEN,
    at.KINDS.altar: at.OPEN,
    at.KINDS.fountain: at.OPEN,
    at.KINDS.trap: at.OPEN,
    at.KINDS.gold: at.OPEN,
    at.KINDS.object: at.OPEN,
    at.KINDS.corpse: at.OPEN,
    at.KINDS.statue: at.OPEN,
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
    table = np.zeros((at.TABLE_ROWS, nethack.MAX_GLYPH + 1), np.uint8)
    table[at.KIND] = at.KINDS.effect
    for glyph, kind in _symbols():
        table[at.KIND, glyph] = kind
    _fill_monsters(table)
    _fill_objects(table)
    table[at.WALK] = at.CLOSED_OFF
    for kind, walk in WALKABLE.items():
        table[at.WALK, table[at.KIND] == kind] = walk
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
            yield glyph, at.KINDS.blank
        elif nethack.glyph_is_trap(glyph):
            yield glyph, at.KINDS.trap
        elif name in SYMBOLS:
            yield glyph, SYMBOLS[name]


def _fill_monsters(table: Array) -> None:
    for number in range(nethack.NUMMONS):
        monster = nethack.permonst(number)
        always_peaceful = bool(monster.mflags2 & M2_PEACEFUL)
        traits = _monster_traits(monster)
        for offset, kind in (
            (nethack.GLYPH_MON_OFF, at.KINDS.peaceful if always_peaceful else at.KINDS.hostile),
            (nethack.GLYPH_PET_OFF, at.KINDS.pet),
            (nethack.GLYPH_DETECT_OFF, at.KINDS.peaceful if always_peaceful else at.KINDS.hostile),
            (nethack.GLYPH_RIDDEN_OFF, at.KINDS.pet),
        ):
            table[at.KIND, offset + number] = kind
            table[at.TRAITS, offset + number] = traits
            table[at.LEVEL, offset + number] = max(monster.mlevel, 0)
        table[at.KIND, nethack.GLYPH_BODY_OFF + number] = at.KINDS.corpse
        table[at.TRAITS, nethack.GLYPH_BODY_OFF + number] = _meal_traits(monster)
        table[at.KIND, nethack.GLYPH_STATUE_OFF + number] = at.KINDS.statue
    table[at.KIND, nethack.GLYPH_INVISIBLE] = at.KINDS.unseen
    warnings = slice(nethack.GLYPH_WARNING_OFF, nethack.GLYPH_WARNING_OFF + nethack.WARNCOUNT)
    table[at.KIND, warnings] = at.KINDS.unseen


def _monster_traits(monster: nethack.permonst) -> int:
    traits = 0
    if monster.mname in HARMS_WHO_HITS:
        traits |= at.TOUCH
    if monster.mname in EXPLODING:
        traits |= at.EXPLODES
    if monster.mflags2 & M2_PEACEFUL:
        traits |= at.PEACEFUL
    if monster.mname == "shopkeeper":
        traits |= at.SHOPKEEPER
    return traits


def _meal_traits(monster: nethack.permonst) -> int:
    harmful = monster.mflags1 & (M1_ACID | M1_POISONOUS)
    tabooed = monster.mflags2 & (M2_UNDEAD | M2_HUMAN | M2_DOMESTIC)
    if harmful or tabooed or monster.mname in NOT_FOOD:
        return 0
    return at.SAFE_MEAL


def _fill_objects(table: Array) -> None:
    for number in range(nethack.NUM_OBJECTS):
        glyph = nethack.GLYPH_OBJ_OFF + number
        thing = nethack.objclass(number)
        name, kind = nethack.OBJ_NAME(thing), ord(thing.oc_class)
        table[at.KIND, glyph] = at.KINDS.object
        if kind == nethack.COIN_CLASS:
            table[at.KIND, glyph] = at.KINDS.gold
        elif name == "boulder":
            table[at.KIND, glyph] = at.KINDS.boulder
        picked_up = (
            nethack.COIN_CLASS,
            nethack.SCROLL_CLASS,
            nethack.POTION_CLASS,
            nethack.WAND_CLASS,
        )
        if kind in picked_up:
            table[at.TRAITS, glyph] |= at.PICKED_UP
        if name in PROJECTILES:
            table[at.TRAITS, glyph] |= at.THROWN


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
    found = np.zeros(at.CLASSES_NAMED, np.int64)
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

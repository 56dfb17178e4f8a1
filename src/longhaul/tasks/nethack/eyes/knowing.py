"""What the native code knows before a game begins, gathered from the game and the rules."""

from __future__ import annotations

import numpy as np
from nle import nethack
from nle.env.tasks import TASK_ACTIONS

from longhaul.core.env import Array
from longhaul.core.errors import EnvError
from longhaul.tasks.nethack.eyes import arrays
from longhaul.tasks.nethack.eyes.arrays import CLASSES_NAMED, Knowledge, packed
from longhaul.tasks.nethack.eyes.glyphs import glyph_named, glyph_table
from longhaul.tasks.nethack.rules import AIMS, RuleGraph
from longhaul.tasks.nethack.vocabulary import ACTION_COUNT

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
    "AC": arrays.ARMOUR,
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
        (arrays.C_ARMOUR, "ARMOR"),
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

from __future__ import annotations

import numpy as np
import pytest

from longhaul.tasks.nethack.observation.arrays import (
    KIND,
    KINDS,
    LEVEL,
    SAFE_MEAL,
    TOUCH,
    TRAITS,
    WALK,
)
from longhaul.tasks.nethack.vocabulary import GLYPH_CLASSES

pytestmark = pytest.mark.nethack

WORDS = {
    "up": "stairs_up",
    "down": "stairs_down",
    "open door": "open_door",
    "closed door": "closed_door",
}


def test_every_glyph_has_the_class_nle_gives_it() -> None:
    from nle import nethack

    from longhaul.tasks.nethack.observation.glyphs import glyph_table
    from tests.tasks.nethack.observation.kinds import kind

    table = glyph_table()
    for glyph in range(nethack.MAX_GLYPH):
        name = kind(glyph)
        assert table[KIND, glyph] == KINDS._asdict()[WORDS.get(name, name)], (glyph, name)


def test_the_classes_are_named_in_the_order_of_their_numbers() -> None:
    assert [name.replace(" ", "_") for name in GLYPH_CLASSES[:12]] == list(KINDS._fields[:12])
    assert len(GLYPH_CLASSES) == len(KINDS._fields)


def test_monsters_are_known_by_name_not_by_number() -> None:
    from nle import nethack

    from longhaul.tasks.nethack.observation.glyphs import (
        EXPLODING,
        HARMS_WHO_HITS,
        NOT_FOOD,
        glyph_table,
    )

    names = [nethack.permonst(number).mname for number in range(nethack.NUMMONS)]
    assert set(HARMS_WHO_HITS) <= set(names)
    assert set(EXPLODING) <= set(names)
    assert set(NOT_FOOD) <= set(names)
    table = glyph_table()
    eye, newt = names.index("floating eye"), names.index("newt")
    assert table[TRAITS, nethack.GLYPH_MON_OFF + eye] & TOUCH
    assert not table[TRAITS, nethack.GLYPH_MON_OFF + newt] & TOUCH
    assert table[TRAITS, nethack.GLYPH_BODY_OFF + newt] & SAFE_MEAL
    assert not table[TRAITS, nethack.GLYPH_BODY_OFF + names.index("cockatrice")] & SAFE_MEAL
    assert not table[TRAITS, nethack.GLYPH_BODY_OFF + names.index("kobold")] & SAFE_MEAL
    assert table[LEVEL, names.index("minotaur")] == 15


def test_projectiles_are_objects_of_the_game() -> None:
    from nle import nethack

    from longhaul.tasks.nethack.observation.glyphs import PROJECTILES

    names = {nethack.OBJ_NAME(nethack.objclass(one)) for one in range(nethack.NUM_OBJECTS)}
    assert set(PROJECTILES) <= names


def test_nothing_unseen_can_be_walked_on() -> None:
    from longhaul.tasks.nethack.observation.glyphs import glyph_named, glyph_table

    table = glyph_table()
    assert table[WALK, glyph_named("nothing")] == 0
    assert table[WALK, glyph_named("floor of a room")] == 1
    assert table[WALK, glyph_named("closed door")] == 2
    assert not table[WALK, np.isin(table[KIND], [KINDS.wall, KINDS.liquid, KINDS.boulder])].any()

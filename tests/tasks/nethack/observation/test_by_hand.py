from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

pytest.importorskip("nle")

from nle import nethack

from longhaul.tasks.nethack.observation.glyphs import glyph_named
from longhaul.tasks.nethack.observation.numbers import COMPASS, DISTANCE, HISTORY
from longhaul.tasks.nethack.vocabulary import ACTIONS, GLYPH_CLASSES, STATE_SIZE
from tests.tasks.nethack.observation.desk import Desk, monster, thing

pytestmark = pytest.mark.nethack
Change = Callable[[Desk], object]
ALL = set(ACTIONS)

CASES: list[tuple[str, Change, str, str]] = [
    (
        "an empty room",
        lambda d: None,
        "hp_full in_room on_stairs_up depth_first",
        "hostile_in_view frontier_reachable dead_end",
    ),
    ("hurt a little", lambda d: d.status(HP=11), "hp_good", "hp_full hp_medium"),
    ("hurt", lambda d: d.status(HP=7), "hp_medium", "hp_good hp_low"),
    ("hurt badly", lambda d: d.status(HP=14, HPMAX=40), "hp_low", "hp_critical hp_medium"),
    ("in trouble", lambda d: d.status(HP=5), "hp_critical", "hp_low"),
    ("a seventh of many", lambda d: d.status(HP=10, HPMAX=70), "hp_critical", "hp_low"),
    ("satiated", lambda d: d.status(HUNGER=0), "hunger_satiated", "hunger_none"),
    ("hungry", lambda d: d.status(HUNGER=2), "hunger_hungry", "hunger_weak"),
    ("fainting", lambda d: d.status(HUNGER=4), "hunger_weak", "hunger_hungry"),
    ("rich", lambda d: d.status(GOLD=5), "gold_some", ""),
    ("bare", lambda d: d.status(AC=8), "ac_poor", "ac_good"),
    ("armored", lambda d: d.status(AC=1), "ac_good", "ac_poor"),
    ("a veteran", lambda d: d.status(XP=6), "experience_veteran", "experience_novice"),
    ("burdened", lambda d: d.status(CAP=1), "encumbered", ""),
    ("level four", lambda d: d.status(DEPTH=4), "depth_shallow", "depth_first depth_middle"),
    ("level eleven", lambda d: d.status(DEPTH=11), "depth_deep", "depth_middle"),
    ("in the Mines", lambda d: d.status(DNUM=2), "in_mines", "in_sokoban"),
    (
        "blind and dying",
        lambda d: d.status(CONDITION=nethack.BL_MASK_BLIND | nethack.BL_MASK_SLIME),
        "blind dying",
        "confused stunned",
    ),
    (
        "a newt beside",
        lambda d: d.put(monster("newt"), 0, 1),
        "hostile_adjacent hostile_in_line hostile_in_view",
        "touch_danger_adjacent strong_adjacent hostiles_many",
    ),
    (
        "a newt out of line",
        lambda d: d.put(monster("newt"), 1, 3),
        "hostile_in_view",
        "hostile_in_line hostile_adjacent",
    ),
    (
        "a floating eye",
        lambda d: d.put(monster("floating eye"), 1, 1),
        "touch_danger_adjacent hostile_adjacent",
        "",
    ),
    (
        "a gas spore near",
        lambda d: d.put(monster("gas spore"), 0, 2),
        "exploder_near",
        "hostile_adjacent",
    ),
    ("a minotaur", lambda d: d.put(monster("minotaur"), -1, 0), "strong_adjacent", ""),
    (
        "a shopkeeper",
        lambda d: d.put(monster("shopkeeper"), 0, -1),
        "peaceful_adjacent shopkeeper_in_view",
        "hostile_adjacent",
    ),
    (
        "a kitten of one's own",
        lambda d: d.put(monster("kitten") + nethack.GLYPH_PET_OFF, 0, 1),
        "pet_adjacent",
        "hostile_in_view",
    ),
    (
        "something unseen",
        lambda d: d.put(nethack.GLYPH_INVISIBLE, 0, 1),
        "unseen_adjacent",
        "hostile_adjacent",
    ),
    (
        "gold across the room",
        lambda d: d.put(thing("gold piece"), 2, 3),
        "gold_reachable object_reachable",
        "object_adjacent",
    ),
    (
        "a dagger beside",
        lambda d: d.put(thing("dagger"), 0, 1),
        "object_adjacent",
        "object_reachable on_object",
    ),
    (
        "a boulder beside",
        lambda d: d.put(thing("boulder"), 0, 1),
        "boulder_adjacent",
        "object_adjacent",
    ),
    (
        "stairs down seen",
        lambda d: d.put(glyph_named("staircase down"), 1, 2),
        "stairs_down_seen stairs_down_reachable",
        "on_stairs_down",
    ),
    ("a fountain", lambda d: d.put(glyph_named("fountain"), 1, 2), "fountain_seen", "altar_seen"),
    ("a trap beside", lambda d: d.put(glyph_named("pit"), 1, 0), "trap_adjacent", "on_trap"),
    (
        "a way out",
        lambda d: d.put(glyph_named("doorway"), 0, 5),
        "frontier_reachable",
        "on_doorway",
    ),
    (
        "food under a key of ours",
        lambda d: d.carry(h=thing("apple")),
        "food_in_pack food_key_ready",
        "potion_in_pack",
    ),
    ("food under no key", lambda d: d.carry(f=thing("apple")), "food_in_pack", "food_key_ready"),
    (
        "darts and a wand",
        lambda d: d.carry(a=thing("dart"), b=thing("light")),
        "weapon_in_pack ranged_in_pack",
        "food_in_pack",
    ),
    (
        "asked for a direction",
        lambda d: d.say("In what direction?", asks=True),
        "prompt_direction",
        "prompt_item prompt_confirm",
    ),
    (
        "asked what to eat",
        lambda d: d.say("What do you want to eat? [fgh or ?*]", asks=True),
        "prompt_item",
        "prompt_direction",
    ),
    (
        "asked to confirm",
        lambda d: d.say("Really attack the gnome?", asks=True),
        "prompt_confirm",
        "prompt_item",
    ),
]


@pytest.mark.parametrize(
    ("change", "there", "absent"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_atoms_say_what_the_screen_shows(change: Change, there: str, absent: str) -> None:
    desk = Desk()
    change(desk)
    atoms = desk.look()
    assert set(there.split()) <= atoms
    assert not set(absent.split()) & atoms


def test_the_hero_is_no_monster() -> None:
    for name in ("monk", "human", "valkyrie", "elf"):
        desk = Desk()
        desk.screen.glyphs[desk.hero] = monster(name)
        assert not {"hostile_in_view", "hostile_adjacent"} & desk.look()


def test_what_lies_under_the_hero_is_remembered() -> None:
    desk = Desk()
    desk.put(glyph_named("staircase down"), 0, 1)
    desk.look()
    desk.step(0, 1)
    assert "on_stairs_down" in desk.look("east")
    desk.status(DLEVEL=2, DEPTH=2, TIME=3)
    assert {"on_stairs_up", "newly_arrived"} <= desk.look("down")


def test_a_corpse_is_fresh_only_where_a_monster_was_seen_to_fall() -> None:
    desk = Desk()
    desk.put(monster("newt"), 0, 1)
    desk.look()
    corpse = nethack.GLYPH_BODY_OFF + monster("newt")
    desk.put(corpse, 0, 1)
    desk.put(corpse, 0, -1)
    desk.look("east")
    desk.step(0, 1)
    assert "on_safe_corpse" in desk.look("east")
    desk.status(TIME=60)
    assert "on_safe_corpse" not in desk.look("search")
    desk.screen.glyphs[desk.hero] = corpse
    desk.put_hero((desk.hero[0], desk.hero[1] - 2))
    assert "on_safe_corpse" not in desk.look("west")


def test_a_locked_door_is_no_way_until_it_is_broken() -> None:
    desk = Desk()
    desk.put(glyph_named("closed door"), 0, 5)
    desk.put_hero((10, 44))
    desk.screen.glyphs[10, 40] = glyph_named("floor of a room")
    assert {"door_closed_adjacent", "frontier_reachable"} <= desk.look()
    assert desk.outcome.state[DISTANCE] == 1
    desk.say("This door is locked.")
    atoms = desk.look("east")
    assert {"door_locked", "door_closed_adjacent"} <= atoms
    assert "frontier_reachable" not in atoms
    desk.say("")
    desk.put(glyph_named("doorway"), 0, 1)
    assert "frontier_reachable" in desk.look("kick")


def test_history_counts_steps_that_bring_nothing() -> None:
    desk = Desk()
    desk.look()
    for _ in range(3):
        atoms = desk.look("more")
    assert "stuck" in atoms
    for turn in range(2, 23):
        desk.status(TIME=turn)
        atoms = desk.look("search")
    assert {"searched_here", "lingering"} <= atoms
    assert not {"stuck", "newly_arrived"} & atoms
    assert desk.outcome.state[HISTORY + 6] == 1


def test_paths_lead_around_walls_and_not_diagonally_through_doors() -> None:
    desk = Desk()
    desk.put(glyph_named("open door"), 3, 1)
    desk.fill("corridor", (14, 41), (14, 41))
    desk.fill("staircase down", (15, 42), (15, 42))
    desk.look()
    down = desk.outcome.state[COMPASS + 8 : COMPASS + 16]
    # Six steps: diagonally to the door's column, straight through it, then on.
    assert desk.outcome.state[DISTANCE + 1] == pytest.approx(1 / 5)
    assert [ACTIONS[1 + place] for place in np.flatnonzero(down)] in (["south"], ["southeast"])


def test_the_mask_closes_what_no_rule_speaks_for() -> None:
    desk = Desk()
    desk.look()
    closed = ALL - desk.opened()
    assert {"kick", "eat", "down", "wait"} <= closed
    assert {"more", "north", "run east"} <= desk.opened()


def test_the_mask_spares_what_must_not_be_hit() -> None:
    desk = Desk()
    desk.put(monster("floating eye"), 0, 1)
    desk.put(monster("shopkeeper"), 1, 0)
    desk.look()
    assert not {"east", "run east", "south"} & desk.opened()
    assert {"west", "north"} <= desk.opened()


def test_a_prompt_opens_all_actions() -> None:
    desk = Desk()
    desk.put(monster("floating eye"), 0, 1)
    desk.say("In what direction?", asks=True)
    desk.look()
    assert desk.opened() == ALL


def test_stairs_open_the_way_down() -> None:
    desk = Desk()
    desk.put(glyph_named("staircase down"), 0, 1)
    desk.look()
    desk.step(0, 1)
    desk.look("east")
    assert "down" in desk.opened()


def test_the_crop_shows_classes_around_the_hero() -> None:
    desk = Desk()
    desk.put(monster("newt"), 0, 1)
    desk.put(thing("gold piece"), -1, -1)
    desk.look()
    crop = desk.outcome.crop
    assert GLYPH_CLASSES[crop[4, 4]] == "hero"
    assert GLYPH_CLASSES[crop[4, 5]] == "hostile"
    assert GLYPH_CLASSES[crop[3, 3]] == "gold"
    assert GLYPH_CLASSES[crop[1, 4]] == "wall"
    assert GLYPH_CLASSES[crop[0, 4]] == "blank"


def test_words_and_pack_are_counted_for_the_map_view() -> None:
    desk = Desk()
    desk.say("You hear a door open. You hear it.")
    desk.carry(a=thing("dart"), b=thing("arrow"))
    desk.look()
    assert np.square(desk.outcome.words).sum() == pytest.approx(6)  # you, hear twice, door, open
    assert desk.outcome.pack[nethack.WEAPON_CLASS] == pytest.approx(0.5)
    assert desk.outcome.state.shape == (STATE_SIZE,)

"""The entry point of the native code: one look at the game, from its screen to the slots."""

from __future__ import annotations

from typing import Any, NamedTuple

from numba.typed import List

from longhaul.core.env import Array
from longhaul.core.native import entry, kernel
from longhaul.tasks.nethack.observation import arrays as at
from longhaul.tasks.nethack.observation.advice import advise, weigh_rules
from longhaul.tasks.nethack.observation.arrays import (
    Knowledge,
    Recall,
    Scratch,
    Screen,
    ShownArrays,
    observation_stamp,
)
from longhaul.tasks.nethack.observation.atoms import write_atoms
from longhaul.tasks.nethack.observation.foes import find_foes, follow_peaceful
from longhaul.tasks.nethack.observation.numbers import RULES, write_numbers
from longhaul.tasks.nethack.observation.places import find_places
from longhaul.tasks.nethack.observation.recall import (
    NOTHING,
    begin,
    count_words,
    has_key_for,
    note_step,
    note_where,
    open_prompt,
)
from longhaul.tasks.nethack.observation.scene import (
    STEP_X,
    STEP_Y,
    draw_chart,
    find_paths,
    find_ways_out,
    note_creature_beside,
    note_ground_beside,
    note_place,
    scan,
)
from longhaul.tasks.nethack.observation.skills import (
    begin_skills,
    note_skills,
    write_figures,
    write_keys,
    write_skill_atoms,
)

FIRST = -1
"""Stands for the action before a game's first observation."""


class GameView(NamedTuple):
    """Everything one look reads and writes."""

    screen: Screen
    recall: Recall
    knowledge: Knowledge
    scratch: Scratch
    outcome: ShownArrays


@kernel
def _look_over(screen: Screen, recall: Recall, knowledge: Knowledge, scratch: Scratch) -> None:
    """Write what is found on the whole map, beside the hero and in the message."""
    glyphs, ground, table = screen.glyphs, recall.ground, knowledge.table
    found, around, chart = scratch.found, scratch.around, scratch.chart
    found[:] = 0
    around[:] = 0
    y, x = screen.status[at.Y], screen.status[at.X]
    nothing = knowledge.landmarks[NOTHING]
    draw_chart(glyphs, ground, recall.marks, table, nothing, chart)
    scan(glyphs, ground, table, nothing, (y, x), found)
    experience = screen.status[at.EXPERIENCE_LEVEL]
    for direction in range(8):
        row, column = y + STEP_Y[direction], x + STEP_X[direction]
        if 0 <= row < at.HEIGHT and 0 <= column < at.WIDTH:
            lies = (table[at.KIND, ground[row, column]], (row + 1) * at.STRIDE + column + 1)
            note_ground_beside(chart, lies, direction, found, around)
            stands = (glyphs[row, column], experience)
            note_creature_beside(table, stands, direction, found, around)
    find_ways_out(around)
    note_place(ground, table, (y, x), found)
    found[at.F_PROMPT] = open_prompt(screen.modes, screen.message)
    found[at.F_FOOD_KEY] = has_key_for(
        screen.item_letters, screen.item_classes, knowledge.classes[at.C_FOOD], knowledge.keys
    )


@kernel
def _write_crop(glyphs: Array, table: Array, hero: tuple[int, int], crop: Array) -> None:
    """Write the classes of the cells around the hero."""
    half = len(crop) // 2
    for row in range(len(crop)):
        for column in range(len(crop)):
            y, x = hero[0] + row - half, hero[1] + column - half
            kind = at.KINDS.outside
            if 0 <= y < at.HEIGHT and 0 <= x < at.WIDTH:
                kind = table[at.KIND, glyphs[y, x]]
            crop[row, column] = kind
    crop[half, half] = at.KINDS.hero


@kernel
def _write_pack(screen: Screen, pack: Array) -> None:
    """Write how many stacks of each item class there are."""
    pack[:] = 0.0
    for place in range(len(screen.item_letters)):
        if screen.item_letters[place] == 0:
            break
        pack[min(screen.item_classes[place], len(pack) - 1)] += 0.25


@kernel
def _look(view: GameView, action: int) -> None:
    screen, recall, knowledge = view.screen, view.recall, view.knowledge
    scratch, outcome = view.scratch, view.outcome
    chooses_skills = len(outcome.keys) > 0
    if action == FIRST:
        begin(screen, recall)
        begin_skills(recall)
    else:
        note_step(screen, recall, action)
        if chooses_skills:
            note_skills(screen, recall, knowledge, action)
    note_where(screen, recall, knowledge)
    _look_over(screen, recall, knowledge, scratch)
    find_paths(scratch, (screen.status[at.Y] + 1) * at.STRIDE + screen.status[at.X] + 1)
    write_atoms(screen, recall, knowledge, scratch, outcome.atoms)
    write_numbers(screen, recall, scratch, outcome.state)
    if chooses_skills:
        _look_for_skills(view)
    else:
        advise(knowledge, scratch, outcome.atoms, outcome.state[RULES:], outcome.mask)
    if len(outcome.crop):
        place = (screen.status[at.Y], screen.status[at.X])
        _write_crop(screen.glyphs, knowledge.table, place, outcome.crop)
        count_words(screen.message, outcome.words)
        _write_pack(screen, outcome.pack)


@kernel
def _look_for_skills(view: GameView) -> None:
    """Write what skills would do, and what they are chosen by."""
    screen, recall, knowledge = view.screen, view.recall, view.knowledge
    scratch, outcome = view.scratch, view.outcome
    follow_peaceful(screen, recall)
    find_foes(screen, recall, knowledge, scratch)
    hero = (screen.status[at.Y], screen.status[at.X])
    find_places(recall, knowledge.table, scratch, hero)
    write_keys(screen, recall, knowledge, scratch, outcome)
    write_skill_atoms(screen, recall, scratch, outcome.keys, outcome.atoms)
    weigh_rules(knowledge, scratch, outcome.atoms, outcome.state[RULES:])
    write_figures(screen, recall, scratch, outcome.keys, outcome.figures)
    for skill in range(len(outcome.keys)):
        outcome.mask[skill] = outcome.keys[skill] != 0


def _compile(stamp: int) -> tuple[Any, Any]:
    @entry
    def keep(view: GameView) -> Any:
        """Return the view as native code has it, to look with as often as wanted."""
        kept = List()
        kept.append(view)
        return kept

    @entry
    def look(kept: Any, action: int) -> None:
        """Take what the last action brought into memory, and write what the player is shown."""
        _ = stamp
        _look(kept[0], action)

    return keep, look


keep_view, look_at_game = _compile(observation_stamp())
"""Look at one game, after an action or, with `FIRST`, at its beginning.

The view is handed over once: it is 36 arrays, and passing them to native code at every look took
longer than the look.
"""

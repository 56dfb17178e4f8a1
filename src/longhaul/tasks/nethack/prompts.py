"""Answers to the game's questions while a skill is carried out."""

from __future__ import annotations

from longhaul.tasks.nethack.observation.arrays import (
    C_FOOD,
    R_FROZEN,
    R_KICK,
    R_STEP,
    Knowledge,
    Recall,
    Screen,
)
from longhaul.tasks.nethack.observation.atoms import STUCK_STEPS
from longhaul.tasks.nethack.skills import EAT_CORPSE, WANDER
from longhaul.tasks.nethack.vocabulary import MORE, MOVES

YES, NO = MOVES[7], MOVES[5]
"""The moves whose keys are y and n."""
MOST_ANSWERS = 6
"""Questions in a row that are answered before the next skill is chosen."""


def waits(screen: Screen, recall: Recall) -> bool:
    """Whether a question is open, or the game's clock stood still for long."""
    return bool(screen.modes[0]) or int(recall.numbers[R_FROZEN]) >= STUCK_STEPS


def answer(
    screen: Screen, recall: Recall, knowledge: Knowledge, keys: tuple[int, ...], skill: int
) -> int:
    """Return the action that answers what is open, for the skill that is carried out.

    `keys` is what each skill would do next.
    """
    if not screen.modes[0]:
        # Every third time by a key that dismisses, else by a step.
        return MORE if recall.numbers[R_STEP] % 3 == 0 else keys[WANDER]
    message = screen.message.tobytes()
    if b"direction?" in message:
        return int(recall.numbers[R_KICK]) or MOVES[0]
    if b"want to eat" in message:
        return _letter_of_food(screen, knowledge)
    if b"eat it" in message or b"eat one" in message:
        return YES if skill == EAT_CORPSE else NO
    return MORE


def _letter_of_food(screen: Screen, knowledge: Knowledge) -> int:
    """Return the action whose key is the letter of a meal in the pack."""
    food, keys = int(knowledge.classes[C_FOOD]), knowledge.keys.tolist()
    for letter, kind in zip(
        screen.item_letters.tolist(), screen.item_classes.tolist(), strict=True
    ):
        if letter == 0:
            break
        if kind == food and letter in keys:
            return int(keys.index(letter))
    return MORE

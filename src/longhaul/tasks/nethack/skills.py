"""Skills: what a player can set out to do for several keys, as operators of separate rules."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from longhaul.tasks.nethack.vocabulary import ACTIONS, EXTENDED_ACTIONS

ActionSet = Literal["score", "extended"]
ACTION_SETS: dict[ActionSet, tuple[str, ...]] = {"score": ACTIONS, "extended": EXTENDED_ACTIONS}
"""The 23 actions of NetHackScore, and these with five that press several keys."""
SKILL_RULES = Path(__file__).parent / "skills.toml"

LONG, SHORT, ONCE = 8, 4, 1


@dataclass(frozen=True, slots=True)
class Skill:
    """One thing to set out to do."""

    name: str
    longest: int
    """Actions after which it ends at the latest."""
    fights: bool = False
    """Whether it goes on with a foe beside the hero."""
    extended: bool = False
    """Whether only the extended action set has it."""


_ALL = (
    Skill("fight", SHORT, fights=True),
    Skill("charge", LONG, fights=True),
    Skill("retreat", LONG),
    Skill("hold", SHORT),
    Skill("rest", LONG),
    Skill("eat", ONCE),
    Skill("eat_corpse", ONCE),
    Skill("step_away", SHORT, fights=True),
    Skill("ascend", ONCE, fights=True),
    Skill("explore", LONG),
    Skill("go_to_stairs", LONG),
    Skill("descend", ONCE, fights=True),
    Skill("collect", LONG),
    Skill("search", LONG),
    Skill("break_door", SHORT),
    Skill("push_boulder", SHORT),
    Skill("go_back_up", LONG),
    Skill("wander", SHORT, fights=True),
    Skill("wait", ONCE, fights=True),
    Skill("pray", ONCE, fights=True, extended=True),
    Skill("quaff", ONCE, fights=True, extended=True),
)
(
    FIGHT,
    CHARGE,
    RETREAT,
    HOLD,
    REST,
    EAT_PACK,
    EAT_CORPSE,
    STEP_AWAY,
    ASCEND,
    EXPLORE,
    GO_TO_STAIRS,
    DESCEND,
    COLLECT,
    SEARCH_SPOT,
    BREAK_DOOR,
    PUSH_BOULDER,
    GO_BACK_UP,
    WANDER,
    PASS_TURN,
    PRAY_SKILL,
    QUAFF_SKILL,
) = range(len(_ALL))


def skills_of(actions: ActionSet) -> tuple[Skill, ...]:
    """Return the skills an action set can carry out, in the order of their numbers."""
    return tuple(one for one in _ALL if actions == "extended" or not one.extended)


SKILL_NAMES = tuple(one.name for one in _ALL)
FIGURES = 16
"""Numbers about the present moment that matter to skills; see `observation/skills.py`."""


def figures_size(actions: ActionSet) -> int:
    """Return how many figures the observation part `skills` has.

    Which skills apply, which was the last one, and the numbers.
    """
    return 2 * len(skills_of(actions)) + FIGURES

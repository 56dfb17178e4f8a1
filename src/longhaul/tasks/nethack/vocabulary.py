"""The words the whole task shares: actions, experts, atoms, and the layout of an observation.

Needs no game: networks, reports and tests can be made without one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

ACTIONS = (
    "more",
    *("north", "east", "south", "west", "northeast", "southeast", "southwest", "northwest"),
    *("run north", "run east", "run south", "run west"),
    *("run northeast", "run southeast", "run southwest", "run northwest"),
    *("up", "down", "wait", "kick", "eat", "search"),
)
ACTION_COUNT = len(ACTIONS)
MORE, UP, DOWN, WAIT, KICK, EAT, SEARCH = (
    ACTIONS.index(name) for name in ("more", "up", "down", "wait", "kick", "eat", "search")
)
EXTENDED_ACTIONS = (*ACTIONS, "pray", "quaff", "eat from pack", "search 20", "travel down")
"""NetHackScore's actions and five more, each of which presses several keys and counts as many
steps; never compared with players that have only the first."""
PRAY, QUAFF, EAT_ANY, SEARCH_20, TRAVEL = range(ACTION_COUNT, len(EXTENDED_ACTIONS))
MOVES = range(1, 9)
"""Actions that take one step; moving into a hostile monster attacks it."""
RUNS = range(9, 17)
"""Actions that run, in the order of the moves."""
DIRECTIONS = ((-1, 0), (0, 1), (1, 0), (0, -1), (-1, 1), (1, 1), (1, -1), (-1, -1))
"""Row and column change of each move, in the order of the moves."""

EXPERTS = ("survival", "combat", "exploration", "general")
"""The experts in the order of their numbers; the order is part of the format of checkpoints."""

AtomKind = Literal["player", "scene"]


@dataclass(frozen=True, slots=True)
class Atom:
    """A statement about the present moment that is either true or not."""

    name: str
    kind: AtomKind
    family: str
    meaning: str


def _family(family: str, kind: AtomKind, *atoms: tuple[str, str]) -> tuple[Atom, ...]:
    return tuple(Atom(name, kind, family, meaning) for name, meaning in atoms)


ATOMS = (
    *_family(
        "health",
        "player",
        ("hp_full", "at least four fifths of the hit points"),
        ("hp_good", "three to four fifths"),
        ("hp_medium", "two to three fifths"),
        ("hp_low", "less, but not what the game calls trouble"),
        ("hp_critical", "five hit points or fewer, or a seventh of all: the game's own trouble"),
        ("recently_hurt", "hit points were lost within the last five steps"),
    ),
    *_family(
        "hunger",
        "player",
        ("hunger_satiated", "has eaten too much"),
        ("hunger_none", "not hungry"),
        ("hunger_hungry", "hungry"),
        ("hunger_weak", "weak from hunger, or fainting"),
        ("recently_eaten", "a meal was finished within the last fifty turns"),
    ),
    *_family(
        "strength",
        "player",
        ("energy_ready", "five or more points of energy, enough for a spell"),
        ("gold_some", "carries gold"),
        ("ac_poor", "armor class 7 or worse"),
        ("ac_good", "armor class 2 or better"),
        ("experience_novice", "experience level 1 or 2"),
        ("experience_seasoned", "experience level 3 to 5"),
        ("experience_veteran", "experience level 6 or more"),
        ("encumbered", "carries too much"),
    ),
    *_family(
        "condition",
        "player",
        ("blind", "cannot see"),
        ("confused", "walks where it did not mean to"),
        ("stunned", "reels"),
        ("hallucinating", "sees what is not there"),
        ("dying", "stoning, sliming, strangling or deadly ill"),
    ),
    *_family(
        "pack",
        "player",
        ("food_in_pack", "carries food"),
        ("food_key_ready", "an action's key is the letter of a food item"),
        ("weapon_in_pack", "carries a weapon"),
        ("ranged_in_pack", "carries something made to be thrown or shot"),
        ("armor_in_pack", "carries armor"),
        ("potion_in_pack", "carries a potion"),
        ("scroll_in_pack", "carries a scroll"),
        ("wand_in_pack", "carries a wand"),
        ("tool_in_pack", "carries a tool"),
        ("jewelry_in_pack", "carries a ring or an amulet"),
        ("book_in_pack", "carries a spellbook"),
    ),
    *_family(
        "prompt",
        "player",
        ("prompt_direction", "the game asks for a direction"),
        ("prompt_item", "the game asks which item to eat"),
        ("prompt_confirm", "the game asks a yes-or-no question"),
    ),
    *_family(
        "time",
        "player",
        ("stuck", "the turn counter stood still for three steps"),
        ("lingering", "stayed within one step of a place for twenty steps"),
        ("searched_here", "searched ten times in this place"),
        ("newly_arrived", "reached this level within the last twenty steps"),
    ),
    *_family(
        "depth",
        "scene",
        ("depth_first", "on the first level"),
        ("depth_shallow", "on level 2 to 4"),
        ("depth_middle", "on level 5 to 10"),
        ("depth_deep", "on level 11 or deeper"),
        ("in_mines", "in the Gnomish Mines"),
        ("in_sokoban", "in Sokoban"),
    ),
    *_family(
        "creature",
        "scene",
        ("hostile_adjacent", "a monster that may be hostile stands beside the hero"),
        ("hostile_in_line", "one stands in line with the hero, within eight steps"),
        ("hostile_in_view", "one is seen"),
        ("hostiles_many", "three or more are seen"),
        ("hostiles_around", "two or more stand beside the hero"),
        ("strong_adjacent", "a monster well above the hero's level stands beside"),
        ("touch_danger_adjacent", "a monster that harms its attacker stands beside"),
        ("exploder_near", "a monster that explodes is within two steps"),
        ("peaceful_adjacent", "a monster of a kind that is always peaceful stands beside"),
        ("pet_adjacent", "a pet stands beside"),
        ("shopkeeper_in_view", "a shopkeeper is seen"),
        ("unseen_adjacent", "an unseen monster is remembered beside"),
    ),
    *_family(
        "stairs",
        "scene",
        ("on_stairs_down", "stands on stairs or a ladder down"),
        ("on_stairs_up", "stands on stairs or a ladder up"),
        ("stairs_down_seen", "a way down is on the map"),
        ("stairs_up_seen", "a way up is on the map"),
        ("stairs_down_reachable", "a known path leads to a way down"),
    ),
    *_family(
        "thing",
        "scene",
        ("on_object", "stands on an object"),
        ("on_safe_corpse", "stands on a corpse of a fresh kill that is safe to eat"),
        ("object_adjacent", "an object lies beside"),
        ("object_reachable", "a known path leads to an object not yet visited"),
        ("gold_reachable", "a known path leads to gold"),
        ("boulder_adjacent", "a boulder lies beside"),
    ),
    *_family(
        "place",
        "scene",
        ("door_open_adjacent", "an open door is beside"),
        ("door_closed_adjacent", "a closed door is straight beside"),
        ("door_locked", "the game said within the last ten steps that a door is locked"),
        ("on_doorway", "stands in a doorway"),
        ("on_trap", "stands on a known trap"),
        ("trap_adjacent", "a known trap is beside"),
        ("in_corridor", "stands in a corridor"),
        ("in_room", "stands in a room"),
        ("dead_end", "all ways but one are closed"),
        ("frontier_reachable", "a known path leads to a place beside unseen ground"),
        ("altar_seen", "an altar is on the map"),
        ("fountain_seen", "a fountain, sink or throne is on the map"),
    ),
)
ATOM_NAMES = tuple(atom.name for atom in ATOMS)
ATOM_COUNT = len(ATOMS)
SKILL_ATOMS = _family(
    "skill",
    "scene",
    ("hp_half", "below half of the hit points"),
    ("hp_third", "below a third of the hit points"),
    ("resting", "searched since the hit points were below half, until they reach nine tenths"),
    ("prayer_ready", "did not pray within the last 900 turns, nor within the first 150"),
    ("meal_ready", "hungry, and a meal can be taken from the pack with the actions there are"),
    ("prey_adjacent", "a foe that may be hit stands beside"),
    ("prey_around", "two or more of them stand beside"),
    ("prey_in_reach", "a short path leads to a foe that may be hit"),
    ("prey_close", "a foe that may be hit is within seven steps"),
    ("prey_strong", "one well above the hero's level stands beside"),
    ("exit_near", "a corridor or doorway is within four steps, while foes are seen"),
    ("way_up_known", "a known path leads to the way up"),
    ("spot_known", "nothing is left to explore, but there is a place to search"),
    ("door_breakable", "a known path leads to a locked door that was not kicked in vain"),
    ("boulder_movable", "a boulder may be pushed, which promises more than searching"),
    ("deep_for_level", "deeper than the hero's experience level plus one"),
    ("deep_for_health", "deeper than a tenth of the most hit points"),
    ("interrupted", "the last skill ended because something happened"),
)
"""What skills are chosen by beside the other atoms; all are of the scene's word, after the rest."""
SKILL_ATOM_NAMES = (*ATOM_NAMES, *(atom.name for atom in SKILL_ATOMS))
PLAYER_ATOMS = sum(atom.kind == "player" for atom in ATOMS)
"""How many atoms are of the player; they come first, those of the scene after them."""
ATOM_INDEX = {name: index for index, name in enumerate(SKILL_ATOM_NAMES)}

STATE_VERSION = "longhaul-nethack-1"
"""Changes whenever an entry of the state vector or an atom means something else."""


@dataclass(frozen=True, slots=True)
class StateBlock:
    """A run of neighboring entries of the state vector."""

    name: str
    size: int
    meaning: str


BLOCKS = (
    StateBlock("belief", 30, "the status line, normalized, and which prompt is open"),
    StateBlock("history", 12, "what the last steps were and what they brought"),
    StateBlock("near", 32, "of each neighboring cell: can be entered, hostile, object, unseen"),
    StateBlock(
        "compass", 32, "first move of the shortest path to frontier, way down, object, hostile"
    ),
    StateBlock("distance", 4, "how near those four are: 1 beside, 0 out of reach"),
    StateBlock("rules", 5, "best match of each expert's rules, and the mean of the best eight"),
)
STATE_SIZE = sum(block.size for block in BLOCKS)

GLYPH_CLASSES = (
    "outside",
    "blank",
    "wall",
    "floor",
    "corridor",
    "doorway",
    "open door",
    "closed door",
    "stairs up",
    "stairs down",
    "altar",
    "fountain",
    "water or lava",
    "trap",
    "barrier",
    "gold",
    "object",
    "corpse",
    "boulder",
    "statue",
    "hostile",
    "peaceful",
    "pet",
    "unseen monster",
    "hero",
    "effect",
)
"""What a cell of the map crop can hold, in the order of its numbers."""
GLYPH_CLASS_COUNT = len(GLYPH_CLASSES)

STATE = "state"
"""float32 [STATE_SIZE]: the numeric state."""
ATOM_BITS = "atoms"
"""uint8 [ATOM_COUNT]: 1 for every atom that holds."""
SKILLS = "skills"
"""float32 [skill figures], only if skills are chosen: which apply, the last one, and numbers."""
SKILL_VERSION = "skills-1"
"""Changes whenever a skill, an entry of `SKILLS` or an atom of skills means something else."""
CROP = "crop"
"""uint8 [size, size], only with the map view: glyph classes around the hero, who is in its
middle."""
MESSAGE = "message"
"""float32 [MESSAGE_WORDS], only with the map view: the message's words, hashed into a bag."""
PACK = "pack"
"""float32 [PACK_CLASSES], only with the map view: stacks of each item class, scaled."""
MESSAGE_WORDS = 32
PACK_CLASSES = 18
"""The game's number of item classes."""

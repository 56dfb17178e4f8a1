"""The atoms as a person would write them down: slowly, by name, with sets and loops."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from nle import nethack

from longhaul.tasks.nethack.observation import glyphs as named
from longhaul.tasks.nethack.vocabulary import DIRECTIONS
from tests.tasks.nethack.observation.kinds import kind, monster

Cell = tuple[int, int]
WALKABLE = {
    *("floor", "corridor", "doorway", "up", "down", "altar", "fountain", "trap"),
    *("gold", "object", "corpse", "statue"),
}
ITEMS = {"gold", "object", "corpse"}
CREATURES = {"hostile", "peaceful", "pet", "unseen", "effect"}
PACK = "food weapon armor potion scroll wand tool"
KEYS = b"\rkljhunbyKLJHUNBY<>.\x04es"


@dataclass
class Seen:
    """One observation, copied."""

    glyphs: np.ndarray
    status: np.ndarray
    message: str
    waits: bool
    items: list[tuple[int, str, int]]  # class, letter, glyph

    @property
    def hero(self) -> Cell:
        return int(self.status[nethack.NLE_BL_Y]), int(self.status[nethack.NLE_BL_X])

    def value(self, name: str) -> int:
        return int(self.status[vars(nethack)[f"NLE_BL_{name}"]])


def beside(cell: Cell) -> Iterator[tuple[Cell, bool]]:
    """Yield the neighbors of a cell on the map, and whether they lie diagonally."""
    for down, right in DIRECTIONS:
        y, x = cell[0] + down, cell[1] + right
        if 0 <= y < 21 and 0 <= x < 79:
            yield (y, x), bool(down and right)


@dataclass
class Oracle:
    """Reads a game from its beginning, one observation after another."""

    ground: dict[Cell, int] = field(default_factory=dict)  # glyphs; missing is nothing
    visited: set[Cell] = field(default_factory=set)
    taken: set[Cell] = field(default_factory=set)
    locked: set[Cell] = field(default_factory=set)
    occupied: set[Cell] = field(default_factory=set)
    killed: dict[Cell, int] = field(default_factory=dict)
    seen: list[Seen] = field(default_factory=list)
    actions: list[int] = field(default_factory=list)
    level_since: int = 0
    linger: int = 0
    anchor: Cell = (0, 0)
    searches: int = 0
    meal_turn: int = -1000

    def read(self, seen: Seen, action: int | None) -> set[str]:
        """Take the next observation in, and return the names of the atoms that hold."""
        before = self.seen[-1] if self.seen else None
        if action is not None:
            self.actions.append(action)
        self.seen.append(seen)
        if any(words in seen.message for words in ("finish eating", "elicious", "tastes")):
            self.meal_turn = seen.value("TIME")
            if before is not None:
                self.killed.pop(before.hero, None)
        if before is None or self._level(before) != self._level(seen):
            self._arrive(before, seen)
        else:
            self._walk(before, seen)
        self._look(seen)
        self.visited.add(seen.hero)
        self.taken.add(seen.hero)
        return {name for name, holds in self._atoms(seen).items() if holds}

    def _level(self, seen: Seen) -> tuple[int, int]:
        return seen.value("DNUM"), seen.value("DLEVEL")

    def under(self, cell: Cell) -> str:
        return kind(self.ground[cell]) if cell in self.ground else "blank"

    def _arrive(self, before: Seen | None, seen: Seen) -> None:
        left = "" if before is None else self.under(before.hero)
        self.ground, self.visited, self.taken, self.locked = {}, set(), set(), set()
        self.killed, self.occupied = {}, set()
        stairs = {
            "up": named.glyph_named("staircase up"),
            "down": named.glyph_named("staircase down"),
        }
        if before is None or (self.actions[-1] == 18 and left == "down"):
            self.ground[seen.hero] = stairs["up"]
        elif self.actions[-1] == 17 and left == "up":
            self.ground[seen.hero] = stairs["down"]
        self.level_since = len(self.actions)
        self.anchor, self.linger, self.searches = seen.hero, 0, 0

    def _walk(self, before: Seen, seen: Seen) -> None:
        action = self.actions[-1]
        if "door is locked" in seen.message and 1 <= action <= 16:
            down, right = DIRECTIONS[(action - 1) % 8]
            self.locked.add((before.hero[0] + down, before.hero[1] + right))
        down, right = seen.hero[0] - before.hero[0], seen.hero[1] - before.hero[1]
        far = max(abs(down), abs(right))
        if far:
            self.searches = 0
            if not (down and right) or abs(down) == abs(right):
                for step in range(1, far):
                    y = before.hero[0] + step * (down // far)
                    self.visited.add((y, before.hero[1] + step * (right // far)))
        self.searches += action == 22
        apart = (abs(seen.hero[0] - self.anchor[0]), abs(seen.hero[1] - self.anchor[1]))
        self.linger += 1
        if max(apart) > 1:
            self.anchor, self.linger = seen.hero, 0

    def _look(self, seen: Seen) -> None:
        for y in range(21):
            for x in range(79):
                cell, glyph = (y, x), int(seen.glyphs[y, x])
                if kind(glyph) in CREATURES:
                    self.occupied.add(cell)
                    continue
                if cell == seen.hero:
                    continue
                if glyph != self.ground.get(cell, nethack.GLYPH_CMAP_OFF):
                    self._change(cell, glyph, seen.value("TIME"))
                self.occupied.discard(cell)

    def _change(self, cell: Cell, glyph: int, turn: int) -> None:
        if kind(glyph) in ITEMS | {"boulder", "statue"}:
            self.taken.discard(cell)
        if kind(glyph) != "closed door":
            self.locked.discard(cell)
        if kind(glyph) == "corpse" and cell in self.occupied:
            self.killed[cell] = turn
        self.ground[cell] = glyph

    def can_enter(self, cell: Cell, *, slant: bool) -> bool:
        what = self.under(cell)
        if cell in self.locked:
            return False
        if what in ("open door", "closed door"):
            return not slant
        return what in WALKABLE or (what == "blank" and cell in self.occupied)

    def reachable(self, seen: Seen) -> set[Cell]:
        """Return every cell a known path leads to, the hero's own left out."""
        found, queue = {seen.hero}, deque([seen.hero])
        while queue:
            here = queue.popleft()
            in_door = self.under(here) in ("open door", "closed door")
            for cell, slant in beside(here):
                creature = kind(int(seen.glyphs[cell]))
                if cell in found or creature in ("hostile", "peaceful") or (slant and in_door):
                    continue
                if self.can_enter(cell, slant=slant):
                    found.add(cell)
                    queue.append(cell)
        return found - {seen.hero}

    def _atoms(self, seen: Seen) -> dict[str, bool]:
        return {
            **self._of_body(seen),
            **self._of_pack(seen),
            **self._of_time(seen),
            **self._of_creatures(seen),
            **self._of_places(seen),
            **self._of_things(seen),
        }

    def _of_body(self, seen: Seen) -> dict[str, bool]:
        hp, most = seen.value("HP"), seen.value("HPMAX")
        trouble = hp <= 5 or hp <= most / 7
        share = hp / most
        lost = [now.value("HP") < was.value("HP") for was, now in pairwise(self.seen)]
        hunger, level, depth = seen.value("HUNGER"), seen.value("XP"), seen.value("DEPTH")
        bits = seen.value("CONDITION")
        dying = ("STONE", "SLIME", "STRNGL", "FOODPOIS", "TERMILL")
        return {
            "hp_full": share >= 0.8 and not trouble,
            "hp_good": 0.6 <= share < 0.8 and not trouble,
            "hp_medium": 0.4 <= share < 0.6 and not trouble,
            "hp_low": share < 0.4 and not trouble,
            "hp_critical": trouble,
            "recently_hurt": any(lost[-5:]),
            "hunger_satiated": hunger == 0,
            "hunger_none": hunger == 1,
            "hunger_hungry": hunger == 2,
            "hunger_weak": hunger >= 3,
            "recently_eaten": seen.value("TIME") - self.meal_turn < 50,
            "energy_ready": seen.value("ENE") >= 5,
            "gold_some": seen.value("GOLD") > 0,
            "ac_poor": seen.value("AC") >= 7,
            "ac_good": seen.value("AC") <= 2,
            "experience_novice": level <= 2,
            "experience_seasoned": 3 <= level <= 5,
            "experience_veteran": level >= 6,
            "encumbered": seen.value("CAP") > 0,
            "blind": bool(bits & nethack.BL_MASK_BLIND),
            "confused": bool(bits & nethack.BL_MASK_CONF),
            "stunned": bool(bits & nethack.BL_MASK_STUN),
            "hallucinating": bool(bits & nethack.BL_MASK_HALLU),
            "dying": any(bits & vars(nethack)[f"BL_MASK_{name}"] for name in dying),
            "depth_first": depth == 1,
            "depth_shallow": 2 <= depth <= 4,
            "depth_middle": 5 <= depth <= 10,
            "depth_deep": depth > 10,
            "in_mines": seen.value("DNUM") == 2,
            "in_sokoban": seen.value("DNUM") == 4,
        }

    def _of_pack(self, seen: Seen) -> dict[str, bool]:
        classes = {item for item, _, _ in seen.items}
        found = {
            f"{word}_in_pack": vars(nethack)[f"{word.upper()}_CLASS"] in classes
            for word in PACK.split()
        }
        names = [
            nethack.OBJ_NAME(nethack.objclass(nethack.glyph_to_obj(glyph)))
            for item, _, glyph in seen.items
            if item == nethack.WEAPON_CLASS
        ]
        food = [letter for item, letter, _ in seen.items if item == nethack.FOOD_CLASS]
        return found | {
            "book_in_pack": nethack.SPBOOK_CLASS in classes,
            "ranged_in_pack": any(name in named.PROJECTILES for name in names),
            "jewelry_in_pack": bool(classes & {nethack.RING_CLASS, nethack.AMULET_CLASS}),
            "food_key_ready": any(ord(letter) in KEYS for letter in food),
        }

    def _of_time(self, seen: Seen) -> dict[str, bool]:
        turns = [one.value("TIME") for one in self.seen]
        told = ["door is locked" in one.message for one in self.seen[1:]]
        asks_direction = "direction?" in seen.message
        asks_item = "want to eat" in seen.message and not asks_direction
        return {
            "prompt_direction": seen.waits and asks_direction,
            "prompt_item": seen.waits and asks_item,
            "prompt_confirm": seen.waits and not asks_direction and not asks_item,
            "stuck": len(turns) > 3 and len(set(turns[-4:])) == 1,
            "lingering": self.linger >= 20,
            "searched_here": self.searches >= 10,
            "newly_arrived": len(self.actions) - self.level_since < 20,
            "door_locked": any(told[-10:]),
        }

    def _of_creatures(self, seen: Seen) -> dict[str, bool]:
        y, x = seen.hero
        who: list[tuple[int, int, int, str]] = []
        for row in range(21):
            for column in range(79):
                glyph = int(seen.glyphs[row, column])
                if (row, column) != seen.hero and kind(glyph) in CREATURES - {"effect"}:
                    who.append((glyph, abs(row - y), abs(column - x), kind(glyph)))
        foes = [one for one in who if one[3] == "hostile"]
        near = [one for one in who if max(one[1], one[2]) == 1]
        adjacent = [one for one in near if one[3] == "hostile"]
        known = [one for one in who if one[3] in ("hostile", "peaceful")]
        return {
            "hostile_adjacent": bool(adjacent),
            "hostile_in_line": any(
                max(d, r) <= 8 and (d == 0 or r == 0 or d == r) for _, d, r, _ in foes
            ),
            "hostile_in_view": bool(foes),
            "hostiles_many": len(foes) >= 3,
            "hostiles_around": len(adjacent) >= 2,
            "strong_adjacent": any(
                monster(one[0]).mlevel > seen.value("XP") + 3 for one in adjacent
            ),
            "touch_danger_adjacent": any(
                monster(one[0]).mname in named.HARMS_WHO_HITS for one in adjacent
            ),
            "exploder_near": any(
                monster(one[0]).mname in named.EXPLODING and max(one[1], one[2]) <= 2
                for one in known
            ),
            "peaceful_adjacent": any(one[3] == "peaceful" for one in near),
            "pet_adjacent": any(one[3] == "pet" for one in near),
            "shopkeeper_in_view": any(monster(one[0]).mname == "shopkeeper" for one in known),
            "unseen_adjacent": any(one[3] == "unseen" for one in near),
        }

    def _of_places(self, seen: Seen) -> dict[str, bool]:
        here, near = self.under(seen.hero), list(beside(seen.hero))
        grounds = [self.under(cell) for cell, _ in near]
        rooms = {"floor", "up", "down", "altar", "fountain"}
        in_room, in_corridor = here in rooms, here == "corridor"
        if not in_room and not in_corridor and here not in ("doorway", "open door"):
            in_room = any(ground in rooms for ground in grounds)
            in_corridor = not in_room and "corridor" in grounds
        everywhere = set(map(kind, self.ground.values()))
        straight = [self.under(cell) for cell, slant in near if not slant]
        reached = self.reachable(seen)
        return {
            "on_stairs_down": here == "down",
            "on_stairs_up": here == "up",
            "stairs_down_seen": "down" in everywhere,
            "stairs_up_seen": "up" in everywhere,
            "stairs_down_reachable": any(self.under(cell) == "down" for cell in reached),
            "door_open_adjacent": "open door" in grounds,
            "door_closed_adjacent": "closed door" in straight,
            "on_doorway": here in ("doorway", "open door"),
            "on_trap": here == "trap",
            "trap_adjacent": "trap" in grounds,
            "in_corridor": in_corridor,
            "in_room": in_room,
            "dead_end": sum(self.can_enter(cell, slant=slant) for cell, slant in near) <= 1,
            "frontier_reachable": any(self.is_frontier(cell) for cell in reached),
            "altar_seen": "altar" in everywhere,
            "fountain_seen": "fountain" in everywhere,
        }

    def is_frontier(self, cell: Cell) -> bool:
        unknown = any(self.under(near) == "blank" for near, _ in beside(cell))
        return cell not in self.visited and (unknown or self.under(cell) == "closed door")

    def _of_things(self, seen: Seen) -> dict[str, bool]:
        here = self.under(seen.hero)
        grounds = [self.under(cell) for cell, _ in beside(seen.hero)]
        lying = [cell for cell in self.reachable(seen) if self.is_wanted(cell)]
        fresh = seen.value("TIME") - self.killed.get(seen.hero, -1000) <= 30
        return {
            "on_object": here in ITEMS,
            "on_safe_corpse": here == "corpse" and fresh and self.is_safe(seen.hero),
            "object_adjacent": any(ground in ITEMS for ground in grounds),
            "object_reachable": bool(lying),
            "gold_reachable": any(self.under(cell) == "gold" for cell in lying),
            "boulder_adjacent": "boulder" in grounds,
        }

    def is_wanted(self, cell: Cell) -> bool:
        glyph = self.ground.get(cell, nethack.GLYPH_CMAP_OFF)
        if cell in self.taken or kind(glyph) not in ("gold", "object"):
            return False
        what = ord(nethack.objclass(nethack.glyph_to_obj(glyph)).oc_class)
        wanted = ("COIN", "SCROLL", "POTION", "WAND")
        return what in [vars(nethack)[f"{name}_CLASS"] for name in wanted]

    def is_safe(self, cell: Cell) -> bool:
        dead = nethack.permonst(self.ground[cell] - nethack.GLYPH_BODY_OFF)
        taboo = named.M2_UNDEAD | named.M2_HUMAN | named.M2_DOMESTIC
        harmful = dead.mflags1 & (named.M1_ACID | named.M1_POISONOUS) or dead.mflags2 & taboo
        return not harmful and dead.mname not in named.NOT_FOOD

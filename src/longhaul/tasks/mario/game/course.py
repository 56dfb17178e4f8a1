"""The course of a game, step by step: which buttons are pressed, and what came of it."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from longhaul.core.env import Array
from longhaul.core.labor import Labor
from longhaul.core.native import entry, fetch, integer, kernel
from longhaul.tasks.mario.game import memory as ram_at
from longhaul.tasks.mario.game import reward as at
from longhaul.tasks.mario.game.maze import count_answer
from longhaul.tasks.mario.game.memory import game_stamp

POLE, WALK_OFF, DEAD, NORMAL, DYING = 4, 5, 6, 8, 11
"""Of the player's state, as the kernels compare them."""
PAGE_PIXELS = 256
"""A pipe that leads so far ahead of all ground in its area leads to a new part of it."""
LOOP_PIXELS = 1024
"""How far a maze puts Mario back when he took the wrong way: four pages."""
FASTEST = 8
"""Beyond this many pixels a frame it is no walk but a jump to another place."""
LAST_STAGE = (8, 4)
STAGES_PER_WORLD = 4


class Rules(NamedTuple):
    """What holds for all games of a batch."""

    choices: Array  # [actions] uint8: the buttons of each
    script: Array  # [steps] uint8: the buttons forced at the beginning of scripted episodes
    sticky: float
    frame_skip: int
    time_limit: int
    stagnation_limit: int
    ends_at_death: bool
    ends_at_clear: bool
    ends_at_warp: bool


class World(NamedTuple):
    """The state of N games that the native code works on."""

    consoles: Array  # [N, SIZE] uint8, whose memory comes first
    figures: Array  # [N, FIGURES] int32
    generator: Array  # [N] uint64
    buttons: Array  # [N, 2] uint8, of both pads


class CourseRows(NamedTuple):
    """The slots a step writes, one row per game."""

    terminated: Array
    truncated: Array
    forced: Array
    over: Array


class Course(NamedTuple):
    """What choosing buttons and judging what came of them take."""

    world: World
    rows: CourseRows
    rules: Rules
    wishes: Array  # [N] int64: the actions asked for


@kernel
def draw(generator: Array, env: int) -> float:
    """Return the next number in [0, 1) of this game's own stream (xorshift64*)."""
    word = generator[env]
    word ^= word >> np.uint64(12)
    word ^= word << np.uint64(25)
    word ^= word >> np.uint64(27)
    generator[env] = word
    return float((word * np.uint64(0x2545F4914F6CDD1D)) >> np.uint64(40)) / 16777216.0


@kernel
def _choose_one(own: Array, generator: Array, env: int, wished: int, rules: Rules) -> bool:
    """Set the buttons of one game; return whether they were forced."""
    action = min(max(wished, 0), len(rules.choices) - 1)
    # Drawn even where nothing depends on it: the stream must not know what is forced.
    if rules.sticky > 0.0 and draw(generator, env) < rules.sticky and own[at.ELAPSED] > 0:
        action = max(own[at.EXECUTED], 0)
    byte = integer(rules.choices[action])
    forced: bool = own[at.SCRIPTED] != 0 and own[at.ELAPSED] < len(rules.script)
    if forced:
        byte = integer(rules.script[own[at.ELAPSED]])
        action = -1
        for choice in range(len(rules.choices)):
            if rules.choices[choice] == byte:
                action = choice
    own[at.EXECUTED] = action
    own[at.BYTE] = byte
    return forced


@kernel
def _is_cleared(ram: Array) -> bool:
    """Whether the flagpole or the axe has been touched."""
    state = ram[ram_at.PLAYER_STATE]
    if ram[ram_at.MODE] == ram_at.WORLD_FINISHED:
        return True
    if ram[ram_at.MODE] != ram_at.PLAY:
        return False
    if state in (POLE, WALK_OFF):
        return True
    if ram[ram_at.FLOAT_STATE] != ram_at.ON_POLE:
        return False
    for slot in range(ram_at.ENEMY_SLOTS):
        kind = ram[ram_at.ENEMY_TYPE + slot]
        if kind in (ram_at.BOWSER, ram_at.STAGE_END_FLAG):
            return True
    return False


@kernel
def is_dying(ram: Array) -> bool:
    """Whether Mario is dead, dying or has fallen off the screen."""
    state = ram[ram_at.PLAYER_STATE]
    return bool(state in (DEAD, DYING) or ram[ram_at.SCREENS_DOWN] > 1)


@kernel
def is_playing(ram: Array) -> bool:
    """Whether the buttons move Mario."""
    running = ram[ram_at.MODE] == ram_at.PLAY and ram[ram_at.SUB_MODE] == ram_at.RUNNING
    return bool(running and ram[ram_at.PLAYER_STATE] >= NORMAL and not is_dying(ram))


@kernel
def _decimal(ram: Array, address: int, digits: int) -> int:
    """Return the number shown by decimal digits."""
    value = integer(0)
    for place in range(digits):
        value = value * 10 + integer(ram[address + place])
    return value


@kernel
def _enter_area(own: Array, key: int, x: int) -> bool:
    """Go on in the area of `key`; return whether it is new, or this place is far ahead in it."""
    for slot in range(own[at.AREA_COUNT]):
        if own[at.AREAS + slot] == key:
            is_ahead: bool = x > own[at.BESTS + slot] + PAGE_PIXELS
            own[at.AREA_SLOT] = slot
            own[at.BESTS + slot] = max(own[at.BESTS + slot], x)
            return is_ahead
    slot = own[at.AREA_COUNT]
    if slot == at.MOST_AREAS:
        slot = (own[at.AREA_SLOT] + 1) % at.MOST_AREAS
    else:
        own[at.AREA_COUNT] = slot + 1
    own[at.AREA_SLOT] = slot
    own[at.AREAS + slot] = key
    own[at.BESTS + slot] = x
    return True


@kernel
def _move(own: Array, ram: Array, limit: int) -> None:
    """Count new ground: what is farther than ever in this area, and was walked to."""
    x = integer(ram[ram_at.PAGE]) * 256 + integer(ram[ram_at.LOW_X])
    y = (integer(ram[ram_at.SCREENS_DOWN]) - 1) * 256 + integer(ram[ram_at.PLAYER_Y])
    stage = integer(ram[ram_at.WORLD_NUMBER]) * STAGES_PER_WORLD + integer(ram[ram_at.STAGE_NUMBER])
    key = stage * 128 + integer(ram[ram_at.AREA_TYPE]) * 32 + integer(ram[ram_at.AREA_OFFSET])
    change = x - own[at.X]
    own[at.X], own[at.Y] = x, y
    own[at.GAINED] = 0
    own[at.LOOPED] = 0
    own[at.NEW_AREA] = 0
    slot = own[at.AREA_SLOT]
    if own[at.AREA_COUNT] == 0 or own[at.AREAS + slot] != key:
        if _enter_area(own, key, x):
            own[at.STUCK] = 0
            own[at.NEW_AREA] = 1
    elif abs(change) > limit:
        # Somewhere else at once: not walked, so nothing is gained by it.
        own[at.NEW_AREA] = 1 if x > own[at.BESTS + slot] + PAGE_PIXELS else 0
        own[at.BESTS + slot] = max(own[at.BESTS + slot], x)
        own[at.LOOPED] = 1 if abs(change + LOOP_PIXELS) <= limit else 0
        own[at.LOOPS] += own[at.LOOPED]
    elif x > own[at.BESTS + slot]:
        own[at.GAINED] = x - own[at.BESTS + slot]
        own[at.BESTS + slot] = x
    own[at.BEST_X] = own[at.BESTS + own[at.AREA_SLOT]]
    own[at.PROGRESS] += own[at.GAINED]


@kernel
def _count(own: Array, ram: Array) -> None:
    """Take over the counters the game shows, and how they changed."""
    score = _decimal(ram, ram_at.SCORE_DIGITS, 6)
    own[at.SCORE_GAINED] = max(score - own[at.SCORE], 0)
    own[at.SCORE] = score
    coins = integer(ram[ram_at.COINS])
    # A hundred coins are a life and none.
    own[at.COINS_GAINED] = coins - own[at.COIN_COUNT] if coins >= own[at.COIN_COUNT] else coins
    own[at.COIN_COUNT] = coins
    clock = _decimal(ram, ram_at.CLOCK_DIGITS, 3)
    own[at.CLOCK_LOST] = max(own[at.CLOCK] - clock, 0)
    own[at.CLOCK] = clock
    power = min(integer(ram[ram_at.POWER]), 2)
    own[at.POWER_CHANGE] = power - own[at.POWER_NOW]
    own[at.POWER_NOW] = power
    own[at.LIVES_LEFT] = integer(ram[ram_at.LIVES])


@kernel
def _reason_to_end(own: Array, ram: Array, rules: Rules) -> int:
    """Return why the episode ends by what happened in the game, or GOES_ON."""
    own[at.CLEARED_NOW] = 0
    own[at.DIED_NOW] = 0
    if ram[ram_at.MODE] == ram_at.GAME_OVER:
        return at.OVER
    if _is_cleared(ram):
        own[at.CLEARED_NOW] = 1
        own[at.CLEARED] += 1
        is_last = own[at.WORLD] == LAST_STAGE[0] and own[at.STAGE] == LAST_STAGE[1]
        reason = at.AXE if ram[ram_at.AREA_TYPE] == ram_at.CASTLE else at.FLAG
        return reason if rules.ends_at_clear or is_last else at.GOES_ON
    if is_dying(ram):
        own[at.DIED_NOW] = 1
        own[at.DEATHS] += 1
        # Lives are counted down only when the music is over: 0 is the last one.
        is_last = own[at.LIVES_LEFT] == 0
        if not rules.ends_at_death and not is_last:
            return at.GOES_ON
        if ram[ram_at.CLOCK_RAN_OUT]:
            return at.TIME_UP
        return (
            at.PIT
            if ram[ram_at.SCREENS_DOWN] > 1 and ram[ram_at.PLAYER_STATE] != DYING
            else at.ENEMY
        )
    return _stage_left(own, ram, rules)


@kernel
def _stage_left(own: Array, ram: Array, rules: Rules) -> int:
    """Return WARP if the game went on with another stage than it may."""
    world, stage = integer(ram[ram_at.WORLD_NUMBER]) + 1, integer(ram[ram_at.STAGE_NUMBER]) + 1
    moved = (world - own[at.WORLD]) * STAGES_PER_WORLD + stage - own[at.STAGE]
    own[at.WORLD], own[at.STAGE] = world, stage
    if rules.ends_at_clear:
        return at.WARP if moved != 0 else at.GOES_ON
    return at.WARP if rules.ends_at_warp and moved not in (0, 1) else at.GOES_ON


@kernel
def _judge_one(own: Array, ram: Array, rules: Rules) -> None:
    """Take over what one game's step led to."""
    own[at.ELAPSED] += 1
    own[at.FRAMES] += rules.frame_skip
    own[at.STUCK] += 1
    _move(own, ram, FASTEST * rules.frame_skip)
    if own[at.GAINED] > 0:
        own[at.STUCK] = 0
    count_answer(own, ram)
    _count(own, ram)
    reason = _reason_to_end(own, ram, rules)
    if (
        reason == at.GOES_ON
        and rules.stagnation_limit > 0
        and own[at.STUCK] >= rules.stagnation_limit
    ):
        reason = at.STAGNATION
    if reason == at.GOES_ON and rules.time_limit > 0 and own[at.ELAPSED] >= rules.time_limit:
        reason = at.TIMEOUT
    own[at.REASON] = reason
    own[at.BUSY] = 1 if reason == at.GOES_ON and not is_playing(ram) else 0


def _build(stamp: int) -> tuple[Labor, Labor, Any]:
    def choose(pointer: Any, index: int, member: int) -> int:
        """Decide which buttons a game presses."""
        _ = stamp
        course = fetch(pointer)
        world, rules = course.world, course.rules
        own, wished = world.figures[index], course.wishes[index]
        course.rows.forced[index] = _choose_one(own, world.generator, index, wished, rules)
        world.buttons[index, 0] = own[at.BYTE]
        return 0

    def judge(pointer: Any, index: int, member: int) -> int:
        """Take over what the step led to; return 1 if a scene must be skipped to go on."""
        _ = stamp
        course = fetch(pointer)
        own, rows = course.world.figures[index], course.rows
        _judge_one(own, course.world.consoles[index], course.rules)
        reason = own[at.REASON]
        rows.truncated[index] = reason >= at.FIRST_TRUNCATION
        rows.terminated[index] = reason != at.GOES_ON and reason < at.FIRST_TRUNCATION
        rows.over[index] = reason != at.GOES_ON
        return integer(own[at.BUSY])

    @entry
    def settle(world: World, env: int) -> None:
        """Take over where a game is, without anything being gained or lost by it."""
        _ = stamp
        own, ram = world.figures[env], world.consoles[env]
        _move(own, ram, 0)
        own[at.PROGRESS] -= own[at.GAINED]
        own[at.GAINED] = 0
        own[at.LOOPS] -= own[at.LOOPED]
        own[at.LOOPED] = 0
        own[at.AHEAD_WAS] = 0
        count_answer(own, ram)
        _count(own, ram)
        own[at.SCORE_GAINED] = own[at.COINS_GAINED] = own[at.CLOCK_LOST] = own[at.POWER_CHANGE] = 0
        own[at.WORLD] = integer(ram[ram_at.WORLD_NUMBER]) + 1
        own[at.STAGE] = integer(ram[ram_at.STAGE_NUMBER]) + 1
        own[at.STUCK] = 0
        own[at.BUSY] = 0

    return choose, judge, settle


choose, judge, settle = _build(game_stamp())

"""The course of a game, step by step: which buttons are pressed, and what came of it."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from longhaul.core.env import Array
from longhaul.core.labor import Labor
from longhaul.core.native import entry, fetch, integer, kernel
from longhaul.tasks.mario.game.maze import count_answer
from longhaul.tasks.mario.game.memory import (
    AREA_OFFSET,
    AREA_TYPE,
    BOWSER,
    CASTLE,
    CLOCK_DIGITS,
    CLOCK_RAN_OUT,
    COINS,
    ENEMY_SLOTS,
    ENEMY_TYPE,
    FLOAT_STATE,
    GAME_OVER,
    LIVES,
    LOW_X,
    MODE,
    ON_POLE,
    PAGE,
    PLAY,
    PLAYER_STATE,
    PLAYER_Y,
    POWER,
    RUNNING,
    SCORE_DIGITS,
    SCREENS_DOWN,
    STAGE_END_FLAG,
    STAGE_NUMBER,
    SUB_MODE,
    WORLD_FINISHED,
    WORLD_NUMBER,
    game_stamp,
)
from longhaul.tasks.mario.game.reward import (
    AHEAD_WAS,
    AREA_COUNT,
    AREA_SLOT,
    AREAS,
    AXE,
    BEST_X,
    BESTS,
    BUSY,
    BYTE,
    CLEARED,
    CLEARED_NOW,
    CLOCK,
    CLOCK_LOST,
    COIN_COUNT,
    COINS_GAINED,
    DEATHS,
    DIED_NOW,
    ELAPSED,
    ENEMY,
    EXECUTED,
    FIRST_TRUNCATION,
    FLAG,
    FRAMES,
    GAINED,
    GOES_ON,
    LIVES_LEFT,
    LOOPED,
    LOOPS,
    MOST_AREAS,
    NEW_AREA,
    OVER,
    PIT,
    POWER_CHANGE,
    POWER_NOW,
    PROGRESS,
    REASON,
    SCORE,
    SCORE_GAINED,
    SCRIPTED,
    STAGE,
    STAGNATION,
    STUCK,
    TIME_UP,
    TIMEOUT,
    WARP,
    WORLD,
    X,
    Y,
)

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
    if rules.sticky > 0.0 and draw(generator, env) < rules.sticky and own[ELAPSED] > 0:
        action = max(own[EXECUTED], 0)
    byte = integer(rules.choices[action])
    forced: bool = own[SCRIPTED] != 0 and own[ELAPSED] < len(rules.script)
    if forced:
        byte = integer(rules.script[own[ELAPSED]])
        action = -1
        for choice in range(len(rules.choices)):
            if rules.choices[choice] == byte:
                action = choice
    own[EXECUTED] = action
    own[BYTE] = byte
    return forced


@kernel
def _is_cleared(ram: Array) -> bool:
    """Whether the flagpole or the axe has been touched."""
    state = ram[PLAYER_STATE]
    if ram[MODE] == WORLD_FINISHED:
        return True
    if ram[MODE] != PLAY:
        return False
    if state in (POLE, WALK_OFF):
        return True
    if ram[FLOAT_STATE] != ON_POLE:
        return False
    for slot in range(ENEMY_SLOTS):
        kind = ram[ENEMY_TYPE + slot]
        if kind in (BOWSER, STAGE_END_FLAG):
            return True
    return False


@kernel
def is_dying(ram: Array) -> bool:
    """Whether Mario is dead, dying or has fallen off the screen."""
    state = ram[PLAYER_STATE]
    return bool(state in (DEAD, DYING) or ram[SCREENS_DOWN] > 1)


@kernel
def is_playing(ram: Array) -> bool:
    """Whether the buttons move Mario."""
    running = ram[MODE] == PLAY and ram[SUB_MODE] == RUNNING
    return bool(running and ram[PLAYER_STATE] >= NORMAL and not is_dying(ram))


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
    for slot in range(own[AREA_COUNT]):
        if own[AREAS + slot] == key:
            is_ahead: bool = x > own[BESTS + slot] + PAGE_PIXELS
            own[AREA_SLOT] = slot
            own[BESTS + slot] = max(own[BESTS + slot], x)
            return is_ahead
    slot = own[AREA_COUNT]
    if slot == MOST_AREAS:
        slot = (own[AREA_SLOT] + 1) % MOST_AREAS
    else:
        own[AREA_COUNT] = slot + 1
    own[AREA_SLOT] = slot
    own[AREAS + slot] = key
    own[BESTS + slot] = x
    return True


@kernel
def _move(own: Array, ram: Array, limit: int) -> None:
    """Count new ground: what is farther than ever in this area, and was walked to."""
    x = integer(ram[PAGE]) * 256 + integer(ram[LOW_X])
    y = (integer(ram[SCREENS_DOWN]) - 1) * 256 + integer(ram[PLAYER_Y])
    stage = integer(ram[WORLD_NUMBER]) * STAGES_PER_WORLD + integer(ram[STAGE_NUMBER])
    key = stage * 128 + integer(ram[AREA_TYPE]) * 32 + integer(ram[AREA_OFFSET])
    change = x - own[X]
    own[X], own[Y] = x, y
    own[GAINED] = 0
    own[LOOPED] = 0
    own[NEW_AREA] = 0
    slot = own[AREA_SLOT]
    if own[AREA_COUNT] == 0 or own[AREAS + slot] != key:
        if _enter_area(own, key, x):
            own[STUCK] = 0
            own[NEW_AREA] = 1
    elif abs(change) > limit:
        # Somewhere else at once: not walked, so nothing is gained by it.
        own[NEW_AREA] = 1 if x > own[BESTS + slot] + PAGE_PIXELS else 0
        own[BESTS + slot] = max(own[BESTS + slot], x)
        own[LOOPED] = 1 if abs(change + LOOP_PIXELS) <= limit else 0
        own[LOOPS] += own[LOOPED]
    elif x > own[BESTS + slot]:
        own[GAINED] = x - own[BESTS + slot]
        own[BESTS + slot] = x
    own[BEST_X] = own[BESTS + own[AREA_SLOT]]
    own[PROGRESS] += own[GAINED]


@kernel
def _count(own: Array, ram: Array) -> None:
    """Take over the counters the game shows, and how they changed."""
    score = _decimal(ram, SCORE_DIGITS, 6)
    own[SCORE_GAINED] = max(score - own[SCORE], 0)
    own[SCORE] = score
    coins = integer(ram[COINS])
    # A hundred coins are a life and none.
    own[COINS_GAINED] = coins - own[COIN_COUNT] if coins >= own[COIN_COUNT] else coins
    own[COIN_COUNT] = coins
    clock = _decimal(ram, CLOCK_DIGITS, 3)
    own[CLOCK_LOST] = max(own[CLOCK] - clock, 0)
    own[CLOCK] = clock
    power = min(integer(ram[POWER]), 2)
    own[POWER_CHANGE] = power - own[POWER_NOW]
    own[POWER_NOW] = power
    own[LIVES_LEFT] = integer(ram[LIVES])


@kernel
def _reason_to_end(own: Array, ram: Array, rules: Rules) -> int:
    """Return why the episode ends by what happened in the game, or GOES_ON."""
    own[CLEARED_NOW] = 0
    own[DIED_NOW] = 0
    if ram[MODE] == GAME_OVER:
        return OVER
    if _is_cleared(ram):
        own[CLEARED_NOW] = 1
        own[CLEARED] += 1
        is_last = own[WORLD] == LAST_STAGE[0] and own[STAGE] == LAST_STAGE[1]
        reason = AXE if ram[AREA_TYPE] == CASTLE else FLAG
        return reason if rules.ends_at_clear or is_last else GOES_ON
    if is_dying(ram):
        own[DIED_NOW] = 1
        own[DEATHS] += 1
        # Lives are counted down only when the music is over: 0 is the last one.
        is_last = own[LIVES_LEFT] == 0
        if not rules.ends_at_death and not is_last:
            return GOES_ON
        if ram[CLOCK_RAN_OUT]:
            return TIME_UP
        return PIT if ram[SCREENS_DOWN] > 1 and ram[PLAYER_STATE] != DYING else ENEMY
    return _stage_left(own, ram, rules)


@kernel
def _stage_left(own: Array, ram: Array, rules: Rules) -> int:
    """Return WARP if the game went on with another stage than it may."""
    world, stage = integer(ram[WORLD_NUMBER]) + 1, integer(ram[STAGE_NUMBER]) + 1
    moved = (world - own[WORLD]) * STAGES_PER_WORLD + stage - own[STAGE]
    own[WORLD], own[STAGE] = world, stage
    if rules.ends_at_clear:
        return WARP if moved != 0 else GOES_ON
    return WARP if rules.ends_at_warp and moved not in (0, 1) else GOES_ON


@kernel
def _judge_one(own: Array, ram: Array, rules: Rules) -> None:
    """Take over what one game's step led to."""
    own[ELAPSED] += 1
    own[FRAMES] += rules.frame_skip
    own[STUCK] += 1
    _move(own, ram, FASTEST * rules.frame_skip)
    if own[GAINED] > 0:
        own[STUCK] = 0
    count_answer(own, ram)
    _count(own, ram)
    reason = _reason_to_end(own, ram, rules)
    if reason == GOES_ON and rules.stagnation_limit > 0 and own[STUCK] >= rules.stagnation_limit:
        reason = STAGNATION
    if reason == GOES_ON and rules.time_limit > 0 and own[ELAPSED] >= rules.time_limit:
        reason = TIMEOUT
    own[REASON] = reason
    own[BUSY] = 1 if reason == GOES_ON and not is_playing(ram) else 0


def _build(stamp: int) -> tuple[Labor, Labor, Any]:
    def choose(pointer: Any, index: int, member: int) -> int:
        """Decide which buttons a game presses."""
        _ = stamp
        course = fetch(pointer)
        world, rules = course.world, course.rules
        own, wished = world.figures[index], course.wishes[index]
        course.rows.forced[index] = _choose_one(own, world.generator, index, wished, rules)
        world.buttons[index, 0] = own[BYTE]
        return 0

    def judge(pointer: Any, index: int, member: int) -> int:
        """Take over what the step led to; return 1 if a scene must be skipped to go on."""
        _ = stamp
        course = fetch(pointer)
        own, rows = course.world.figures[index], course.rows
        _judge_one(own, course.world.consoles[index], course.rules)
        reason = own[REASON]
        rows.truncated[index] = reason >= FIRST_TRUNCATION
        rows.terminated[index] = reason != GOES_ON and reason < FIRST_TRUNCATION
        rows.over[index] = reason != GOES_ON
        return integer(own[BUSY])

    @entry
    def settle(world: World, env: int) -> None:
        """Take over where a game is, without anything being gained or lost by it."""
        _ = stamp
        own, ram = world.figures[env], world.consoles[env]
        _move(own, ram, 0)
        own[PROGRESS] -= own[GAINED]
        own[GAINED] = 0
        own[LOOPS] -= own[LOOPED]
        own[LOOPED] = 0
        own[AHEAD_WAS] = 0
        count_answer(own, ram)
        _count(own, ram)
        own[SCORE_GAINED] = own[COINS_GAINED] = own[CLOCK_LOST] = own[POWER_CHANGE] = 0
        own[WORLD] = integer(ram[WORLD_NUMBER]) + 1
        own[STAGE] = integer(ram[STAGE_NUMBER]) + 1
        own[STUCK] = 0
        own[BUSY] = 0

    return choose, judge, settle


choose, judge, settle = _build(game_stamp())

"""Where the game keeps what in its memory, and reading it as whole numbers.

Bytes are turned into integers of full width before anything is reckoned with: a page times 256 does
not fit a byte.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from longhaul.core.env import Array, Bools
from longhaul.core.native import kernel_stamp

Bytes = NDArray[np.uint8]
Integers = NDArray[np.int64]

HELD_BUTTONS = 0x000A
HELD_A, HELD_B = 0x80, 0x40
PLAYER_STATE = 0x000E
ENEMY_ACTIVE = 0x000F  # five slots, then the power-up's
ENEMY_TYPE = 0x0016
FLOAT_STATE = 0x001D
ENEMY_STATE = 0x001E
FIREBALL_STATE = 0x0024  # two slots
MISC_STATE = 0x002A  # nine slots: hammers have bit 7 set, coins jump out of blocks
FACING = 0x0033
POWER_UP_KIND = 0x0039
MOVING = 0x0045
SPEED_X = 0x0057
ENEMY_SPEED_X = 0x0058
PAGE = 0x006D
ENEMY_PAGE = 0x006E
MISC_PAGE = 0x007A
LOW_X = 0x0086
ENEMY_LOW_X = 0x0087
FIREBALL_LOW_X = 0x008D
MISC_LOW_X = 0x0093
SPEED_Y = 0x009F
ENEMY_SPEED_Y = 0x00A0
SCREENS_DOWN = 0x00B5
ENEMY_SCREENS_DOWN = 0x00B6
PLAYER_Y = 0x00CE
ENEMY_Y = 0x00CF
FIREBALL_Y = 0x00D5
MISC_Y = 0x00DB
SPRITES = 0x0200  # 64 of y, tile, attributes, x
TILES = 0x0500
TILE_PAGE = 208
TILE_ROWS, TILE_COLUMNS = 13, 16
FIRST_TILE_LINE = 32
MAZE_RIGHT, MAZE_PASSED = 0x06D9, 0x06DA  # checks answered rightly and checks passed, in world 7
CHANGE_TIMER = 0x06DE
SWIMMING = 0x0704
CROUCHING = 0x0714
EDGE_PAGE, EDGE_LOW_X = 0x071A, 0x071C
SCROLL_LOCK = 0x0723
DECODED_PAGE, DECODED_COLUMN = 0x0725, 0x0726  # the next column of tiles to be written
MAZE_AHEAD = 0x0745  # counts decoded columns since a maze's check came into sight; 0 without one
AREA_TYPE = 0x074E  # water, ground, underground, castle
AREA_OFFSET = 0x074F  # which area of its type; set when the area is loaded
AREA_POINTER = 0x0750  # where the next pipe leads, in the form of `Memory.area`
SIZE_FLAG, POWER = 0x0754, 0x0756
CLOCK_RAN_OUT = 0x0759
LIVES = 0x075A
STAGE_NUMBER, WORLD_NUMBER, AREA_NUMBER = 0x075C, 0x075F, 0x0760
COINS = 0x075E
MODE, SUB_MODE, PAUSED = 0x0770, 0x0772, 0x0776
INVULNERABLE, STAR = 0x079E, 0x079F
BLACK_SCREEN_TIMER = 0x07A0
SCORE_DIGITS = 0x07DE
CLOCK_DIGITS = 0x07F8

ENEMY_SLOTS = 5
POWER_UP_SLOT = 5
MISC_SLOTS = 9

TITLE, PLAY, WORLD_FINISHED, GAME_OVER = range(4)
"""Of `MODE`."""
RUNNING = 3
"""Of `SUB_MODE`."""
BOWSER, STAGE_END_FLAG = 0x2D, 0x31
ON_POLE = 3
"""Of `FLOAT_STATE`."""
WATER, GROUND, UNDERGROUND, CASTLE = range(4)
"""Of `AREA_TYPE`."""


class PlayerState(IntEnum):
    """What the game's engine does with the player."""

    LEFTMOST = 0
    VINE = 1
    SIDE_PIPE = 2
    DOWN_PIPE = 3
    POLE = 4
    WALK_OFF = 5
    DEAD = 6
    ENTERING = 7
    NORMAL = 8
    GROWING = 9
    SHRINKING = 10
    DYING = 11
    TURNING_FIERY = 12


def number(ram: Bytes, address: int, digits: int) -> Integers:
    """Return the number shown by decimal digits at `address`, of each console of `ram`."""
    shown = ram[..., address : address + digits].astype(np.int64)
    powers = 10 ** np.arange(digits - 1, -1, -1, dtype=np.int64)
    return np.asarray(shown @ powers)


def signed(bytes_: Array) -> Integers:
    """Return bytes as numbers from -128 to 127."""
    return np.asarray(bytes_).astype(np.int8).astype(np.int64)


@dataclass(frozen=True, slots=True)
class Memory:
    """Reads the memory of many consoles, [N, 2048], or of one, [2048].

    It is a live view: what a console writes later is what is read later. Each property holds int64
    of shape [N] (or [N, slots]); of one console, `facts` has all of them as Python's own numbers.
    """

    ram: Bytes

    def byte(self, address: int) -> Integers:
        """Return one byte of every console."""
        return np.asarray(self.ram[..., address]).astype(np.int64)

    def slots(self, address: int, count: int) -> Integers:
        """Return consecutive bytes of every console."""
        return self.ram[..., address : address + count].astype(np.int64)

    def pair(self, high: int, low: int) -> Integers:
        """Return a number kept in two bytes."""
        return self.byte(high) * 256 + self.byte(low)

    @property
    def x(self) -> Integers:
        """Mario's distance from the left end of the area, in pixels."""
        return self.pair(PAGE, LOW_X)

    @property
    def y(self) -> Integers:
        """Mario's line on the screen, downwards; negative above, beyond 255 below it."""
        return (self.byte(SCREENS_DOWN) - 1) * 256 + self.byte(PLAYER_Y)

    @property
    def speed_x(self) -> Integers:
        """Mario's speed to the right, -40 to 40, in sixteenths of a pixel per frame."""
        return signed(self.ram[..., SPEED_X])

    @property
    def score(self) -> Integers:
        """The score as shown."""
        return number(self.ram, SCORE_DIGITS, 6)

    @property
    def coins(self) -> Integers:
        """Coins, 0 to 99."""
        return self.byte(COINS)

    @property
    def clock(self) -> Integers:
        """What is left on the clock."""
        return number(self.ram, CLOCK_DIGITS, 3)

    @property
    def lives(self) -> Integers:
        """Lives left beside the present one; 255 when the game is over."""
        return self.byte(LIVES)

    @property
    def world(self) -> Integers:
        """The world, from 1 on."""
        return self.byte(WORLD_NUMBER) + 1

    @property
    def stage(self) -> Integers:
        """The stage within the world, from 1 on."""
        return self.byte(STAGE_NUMBER) + 1

    @property
    def power(self) -> Integers:
        """0 small, 1 big, 2 fiery."""
        return np.minimum(self.byte(POWER), 2)

    @property
    def area(self) -> Integers:
        """The present area: its type times 32 and its number among those of the type."""
        return self.byte(AREA_TYPE) * 32 + self.byte(AREA_OFFSET)

    @property
    def dying(self) -> Bools:
        """Whether Mario is dead, dying or has fallen off the screen."""
        state = self.byte(PLAYER_STATE)
        fallen = self.byte(SCREENS_DOWN) > 1
        return np.asarray((state == PlayerState.DEAD) | (state == PlayerState.DYING) | fallen)

    @property
    def cleared(self) -> Bools:
        """Whether the flagpole or the axe has been touched."""
        state = self.byte(PLAYER_STATE)
        types = self.slots(ENEMY_TYPE, ENEMY_SLOTS)
        ends = ((types == BOWSER) | (types == STAGE_END_FLAG)).any(axis=-1)
        on_pole = self.byte(FLOAT_STATE) == ON_POLE
        sliding = (state == PlayerState.POLE) | (state == PlayerState.WALK_OFF)
        finished = self.byte(MODE) == WORLD_FINISHED
        return np.asarray(finished | sliding | (ends & on_pole))

    @property
    def playing(self) -> Bools:
        """Whether the buttons move Mario."""
        running = (self.byte(MODE) == PLAY) & (self.byte(SUB_MODE) == RUNNING)
        state = self.byte(PLAYER_STATE)
        return np.asarray(running & (state >= PlayerState.NORMAL) & (state != PlayerState.DYING))


@dataclass(frozen=True, slots=True)
class Facts:
    """What an `info` holds of one console, in Python's own numbers."""

    x_pos: int
    y_pos: int
    score: int
    coins: int
    time: int
    life: int
    world: int
    stage: int
    area: int
    status: str
    flag_get: bool
    dying: bool
    playing: bool
    player_state: int


def facts(ram: Bytes) -> Facts:
    """Return the facts of one console's memory, [2048]."""
    memory = Memory(ram)
    return Facts(
        x_pos=int(memory.x),
        y_pos=int(memory.y),
        score=int(memory.score),
        coins=int(memory.coins),
        time=int(memory.clock),
        life=int(memory.lives),
        world=int(memory.world),
        stage=int(memory.stage),
        area=int(memory.byte(AREA_NUMBER)) + 1,
        status=("small", "tall", "fireball")[int(memory.power)],
        flag_get=bool(memory.cleared),
        dying=bool(memory.dying),
        playing=bool(memory.playing),
        player_state=int(memory.byte(PLAYER_STATE)),
    )


KERNEL_MODULES = ("memory", "course", "course_view", "maze", "tiles", "starts", "reward")
"""The modules of this folder that hold native code or the constants in it."""


def game_stamp() -> int:
    """Return a number that differs when any of the modules with native code does."""
    folder = Path(__file__).parent
    return kernel_stamp(folder / f"{module}.py" for module in KERNEL_MODULES)

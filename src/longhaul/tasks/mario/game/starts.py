"""Where episodes begin: the stages, made once by really playing into them, and hard starts."""

from __future__ import annotations

import base64
import binascii
import functools
import zlib
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from longhaul.core.env import Array, Start
from longhaul.core.errors import EnvError
from longhaul.core.labor import Labor, Link, bind
from longhaul.core.native import fetch, integer
from longhaul.core.settings import SettingValue
from longhaul.core.state import State
from longhaul.tasks.mario.console.consoles import Consoles
from longhaul.tasks.mario.console.game import Cartridge
from longhaul.tasks.mario.console.layout import SIZE
from longhaul.tasks.mario.game import memory as ram_at
from longhaul.tasks.mario.game.memory import Bytes, Memory, game_stamp
from longhaul.tasks.mario.game.reward import ELAPSED
from longhaul.tasks.mario.game.stages import Stage

START_BUTTON = 8
MOST_FRAMES = 3000
"""The slowest stage takes 248 frames."""
SNAPSHOT, STAGE = "snapshot", "stage"


@functools.lru_cache(maxsize=128)
def stage_start(cartridge: Cartridge, stage: Stage) -> Bytes:
    """Return the console's row at the beginning of a stage, when the clock first ticks.

    A start takes some ten milliseconds to make. It is kept for the life of the process and
    nowhere else. The title is left with the start button, as a player would, while the stage's
    number is written where the game keeps it; the black screen's timer is run down.
    """
    console = Consoles(cartridge, 1)
    press, release = np.array([[START_BUTTON, 0]], np.uint8), np.zeros((1, 2), np.uint8)
    memory, ram = Memory(console.ram), console.ram[0]
    clock = 0
    for _ in range(MOST_FRAMES // 2):
        console.step(press, draw=False)
        if clock == 0:
            ram[ram_at.WORLD_NUMBER] = stage.world - 1
            ram[ram_at.STAGE_NUMBER] = stage.number - 1
            ram[ram_at.AREA_NUMBER] = stage.area - 1
        console.step(release, draw=False)
        if clock == 0:
            ram[ram_at.BLACK_SCREEN_TIMER] = 0
        shown = int(memory.clock[0])
        if shown < clock and memory.playing[0]:
            row: Bytes = console.states[0].copy()
            row.flags.writeable = False
            return row
        clock = shown
    raise EnvError(f"the game did not reach stage {stage} within {MOST_FRAMES} frames")


class Opening(NamedTuple):
    """The way from switching on to the first stage."""

    row: Bytes
    """The console when the clock first ticks."""
    pressed: Bytes  # [frames] uint8


@functools.lru_cache(maxsize=4)
def game_opening(cartridge: Cartridge) -> Opening:
    """Return how the game is begun with the start button alone; nothing is written."""
    console = Consoles(cartridge, 1)
    press, release = np.array([[START_BUTTON, 0]], np.uint8), np.zeros((1, 2), np.uint8)
    memory, pressed = Memory(console.ram), []
    clock = 0
    for frame in range(MOST_FRAMES):
        # On the title the button is pressed again and again; in the game it would only pause.
        is_pressed = console.ram[0, ram_at.MODE] == ram_at.TITLE and frame % 2 == 0
        console.step(press if is_pressed else release, draw=False)
        pressed.append(START_BUTTON if is_pressed else 0)
        shown = int(memory.clock[0])
        if shown < clock and memory.playing[0]:
            row: Bytes = console.states[0].copy()
            row.flags.writeable = False
            return Opening(row, np.array(pressed, np.uint8))
        clock = shown
    raise EnvError(f"the game did not begin within {MOST_FRAMES} frames")


def snapshot_start(row: Bytes) -> SettingValue:
    """Return the hard start that begins with a console's row."""
    return (SNAPSHOT, base64.b64encode(zlib.compress(row.tobytes(), 9)).decode("ascii"))


@dataclass(frozen=True, slots=True)
class Begin:
    """How one episode begins: on a stage, or in the middle of one."""

    stage: Stage | None
    row: Bytes | None


def read_start(start: Start) -> Begin:
    """Return what a hard start stands for: `("stage", "1-2")` or `("snapshot", text)`."""
    match start:
        case ("stage", str() as name):
            return Begin(Stage.parse(name), None)
        case ("snapshot", str() as text):
            return Begin(None, _row(text))
        case _:
            raise EnvError(
                f"start {str(start)[:60]!r} is neither ('stage', '1-2') nor ('snapshot', text)"
            )


@functools.lru_cache(maxsize=1024)
def _row(text: str) -> Bytes:
    try:
        row = np.frombuffer(zlib.decompress(base64.b64decode(text, validate=True)), np.uint8)
    except (binascii.Error, zlib.error) as error:
        raise EnvError(f"a start's snapshot cannot be read: {error}") from error
    if len(row) != SIZE:
        raise EnvError(
            f"a start's snapshot has {len(row)} bytes, a console {SIZE}: it was made by another "
            "version of longhaul"
        )
    return row


NEVER = -1


@dataclass(frozen=True, slots=True)
class Footprint:
    """A console as it was after `step` decisions of its episode."""

    step: int
    row: Bytes


class Keeping(NamedTuple):
    """What keeping a snapshot takes."""

    states: Array  # [N, SIZE] uint8
    figures: Array  # [N, FIGURES] int32
    rows: Array  # [N, length, SIZE] uint8
    steps: Array  # [N, length] int32
    every: int


def _build(stamp: int) -> Labor:
    def keep(pointer: Any, index: int, member: int) -> int:
        """Keep a console if it is its turn."""
        _ = stamp
        keeping = fetch(pointer)
        elapsed = integer(keeping.figures[index, ELAPSED])
        if elapsed % keeping.every == 0:
            slot = elapsed // keeping.every % keeping.rows.shape[1]
            keeping.rows[index, slot] = keeping.states[index]
            keeping.steps[index, slot] = elapsed
        return 0

    return keep


keep = _build(game_stamp())


class Trail:
    """The latest `length` snapshots of every game, one in `every` decisions."""

    def __init__(self, count: int, length: int, every: int) -> None:
        self._length = length
        self._every = every
        self._rows: Bytes = np.zeros((count, length, SIZE), np.uint8)
        self._steps: NDArray[np.int32] = np.full((count, length), NEVER, np.int32)

    def bound(self, states: Bytes, figures: NDArray[np.int32]) -> Link:
        """Return, as a link of native work, the keeping of a game whose turn it is."""
        return bind(keep, Keeping(states, figures, self._rows, self._steps, self._every))

    def clear(self, env: int) -> None:
        """Forget an episode."""
        self._steps[env] = NEVER

    def footprints(self, env: int) -> tuple[Footprint, ...]:
        """Return what is kept of one game's episode, oldest first."""
        order = np.argsort(self._steps[env], kind="stable").tolist()
        return tuple(
            Footprint(int(self._steps[env, slot]), self._rows[env, slot].copy())
            for slot in order
            if self._steps[env, slot] != NEVER
        )

    def snapshot(self) -> State:
        """Return all of it."""
        return {"rows": self._rows.copy(), "steps": self._steps.copy()}

    def restore(self, state: State) -> None:
        """Go on from a snapshot."""
        self._rows[...] = state["rows"]
        self._steps[...] = state["steps"]

"""Where episodes begin: the stages, made once by really playing into them, and hard starts."""

from __future__ import annotations

import base64
import binascii
import functools
import zlib
from dataclasses import dataclass

import numpy as np

from longhaul.core.env import Start
from longhaul.core.errors import EnvError
from longhaul.core.settings import SettingValue
from longhaul.envs.nes.cartridge import Cartridge
from longhaul.envs.nes.consoles import Consoles
from longhaul.envs.nes.layout import SIZE
from longhaul.tasks.mario.game.memory import (
    AREA_NUMBER,
    BLACK_SCREEN_TIMER,
    STAGE_NUMBER,
    WORLD_NUMBER,
    Bytes,
    Memory,
)
from longhaul.tasks.mario.game.stages import Stage

START_BUTTON = 8
MOST_FRAMES = 3000
"""The slowest stage takes 248 frames."""
SNAPSHOT, STAGE = "snapshot", "stage"


@functools.lru_cache(maxsize=128)
def stage_start(cartridge: Cartridge, stage: Stage) -> Bytes:
    """Return the console's row at the beginning of a stage, when the clock first ticks.

    A start takes some ten milliseconds to make, so that it is kept for the life of the process and
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
            ram[WORLD_NUMBER] = stage.world - 1
            ram[STAGE_NUMBER] = stage.number - 1
            ram[AREA_NUMBER] = stage.area - 1
        console.step(release, draw=False)
        if clock == 0:
            ram[BLACK_SCREEN_TIMER] = 0
        shown = int(memory.clock[0])
        if shown < clock and memory.playing[0]:
            row: Bytes = console.states[0].copy()
            row.flags.writeable = False
            return row
        clock = shown
    raise EnvError(f"the game did not reach stage {stage} within {MOST_FRAMES} frames")


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

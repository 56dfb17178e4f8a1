"""Many consoles with one cartridge, stepped together."""

from __future__ import annotations

import threading
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from longhaul.core.env import Array
from longhaul.core.errors import ConfigError
from longhaul.core.labor import Labor, Link, bind
from longhaul.core.native import fetch, kernel
from longhaul.envs.native.thread_pool import Chain, run_alone
from longhaul.tasks.mario.console.frame import run_frame
from longhaul.tasks.mario.console.game import Cartridge, Machine, decode, new_canvases
from longhaul.tasks.mario.console.layout import (
    CONSOLE,
    CONTROL,
    DOT,
    FINE_X,
    HEIGHT,
    JAMMED,
    MASK,
    NMI,
    ODD_FRAME,
    PAD_1,
    PAD_2,
    PC,
    RAM,
    READ_BUFFER,
    SECOND_WRITE,
    SIZE,
    SP,
    WIDTH,
    P,
    T,
    console_stamp,
)
from longhaul.tasks.mario.console.picture import (
    Picture,
    PictureKind,
    color_view,
    colors,
    keep_picture,
    make_view,
)

Bytes = NDArray[np.uint8]

STACK_AFTER_RESET = 0xFD
STATUS_AFTER_RESET = 0x24
RESET_VECTOR = 0x7FFC
RESET_CYCLES = 7


class Batch(NamedTuple):
    """The arrays of N consoles."""

    consoles: Array  # [N] of `CONSOLE`
    previous: Array  # [N, SIZE] uint8: the states a frame ago
    pictures: Array  # [N, planes, height, width] uint8


class Desks(NamedTuple):
    """What the threads work with."""

    games: Array  # [1] of `GAME`
    canvases: Array  # [members, 2] of `CANVAS`: for the last frame and the one before


class Spell(NamedTuple):
    """How consoles are to run."""

    buttons: Array  # [N, 2] uint8, of both pads
    span: Array  # [2] int64: for how many frames, and whether a picture is kept of the last


class Running(NamedTuple):
    """All that running a console takes."""

    batch: Batch
    desks: Desks
    look: PictureKind
    spell: Spell


@kernel
def _run_console(running: Running, index: int, member: int) -> None:
    """Run one console for some frames; keep a picture of the last one."""
    batch, view = running.batch, running.look
    game = running.desks.games[0]
    now = Machine(game, running.desks.canvases[member, 0])
    before = Machine(game, running.desks.canvases[member, 1])
    now.canvas.shades[:] = view.shades
    before.canvas.shades[:] = view.shades
    before.canvas.drawing[0] = False
    frames, draw = running.spell.span[0], running.spell.span[1] != 0
    console = batch.consoles[index]
    row, registers = console.row, console.registers
    pad_1, pad_2 = running.spell.buttons[index, 0], running.spell.buttons[index, 1]
    for frame in range(frames - 1):
        before.canvas.drawing[0] = draw and view.two_frames and frame == frames - 2
        run_frame(row, registers, before, pad_1, pad_2)
    batch.previous[index] = row
    now.canvas.drawing[0] = draw
    run_frame(row, registers, now, pad_1, pad_2)
    if draw:
        keep_picture(now.canvas, before.canvas, view, batch.pictures[index])


def _build(stamp: int) -> Labor:
    def run_console(pointer: Any, index: int, member: int) -> int:
        """Run one console."""
        _ = stamp
        _run_console(fetch(pointer), index, member)
        return 0

    return run_console


run_console = _build(console_stamp())


class _Own:
    """What a thread that steps consoles by itself has for that."""

    def __init__(self, consoles: Consoles) -> None:
        count = len(consoles)
        self.buttons: Bytes = np.zeros((count, 2), np.uint8)
        self.span = np.zeros(2, np.int64)
        self.left = np.zeros(count, np.int64)
        self.chain = Chain(consoles.bound(Spell(self.buttons, self.span)))


class Consoles:
    """N consoles; `states` is all of them, `ram` and `pictures` are what agents look at."""

    def __init__(self, cartridge: Cartridge, count: int, picture: Picture | None = None) -> None:
        if count < 1:
            raise ConfigError(f"there must be at least 1 console, not {count}")
        self.cartridge = cartridge
        self.picture = picture or Picture()
        self.states: Bytes = np.zeros((count, SIZE), np.uint8)  # everything a console is
        self.ram: Bytes = self.states[:, RAM : RAM + 2048]  # [N, 2048], a live view
        self.registers: NDArray[np.int32] = self.states.view(np.int32)
        self._previous = np.zeros_like(self.states)
        pictures = np.zeros((count, *self.picture.shape), np.uint8)
        self._batch = Batch(self.states.view(CONSOLE)[:, 0], self._previous, pictures)
        self._games = decode(cartridge)
        self._own = threading.local()
        self._view = make_view(self.picture)
        self._color_view = color_view()
        self.power_on(np.arange(count))

    def __len__(self) -> int:
        """Return the number of consoles."""
        return len(self.states)

    @property
    def pictures(self) -> Bytes:
        """The latest pictures of every console, [N, planes, height, width]."""
        pictures: Bytes = self._batch.pictures
        return pictures

    def draw_into(self, pictures: Bytes) -> None:
        """Keep pictures in this array from here on; those there are move along."""
        pictures[...] = self._batch.pictures
        self._batch = self._batch._replace(pictures=pictures)
        self._own = threading.local()

    def power_on(self, rows: NDArray[np.int64]) -> None:
        """Switch some consoles off and on: all their memory is zero."""
        self.states[rows] = 0
        self._restart(rows)
        self.registers[rows, SP] = STACK_AFTER_RESET
        self.registers[rows, P] = STATUS_AFTER_RESET
        self._previous[rows] = self.states[rows]

    def reset(self, rows: NDArray[np.int64]) -> None:
        """Press the reset button of some consoles: their memory stays."""
        self._restart(rows)
        self.registers[rows, SP] = (self.registers[rows, SP] - 3) & 0xFF
        self.registers[rows, P] |= 0x04

    def _restart(self, rows: NDArray[np.int64]) -> None:
        prg = self._games[0]["prg"]
        for register in (CONTROL, MASK, JAMMED, NMI, ODD_FRAME, READ_BUFFER, SECOND_WRITE):
            self.registers[rows, register] = 0
        for register in (T, FINE_X):
            self.registers[rows, register] = 0
        self.registers[rows, PC] = int(prg[RESET_VECTOR]) | int(prg[RESET_VECTOR + 1]) << 8
        self.registers[rows, DOT] = RESET_CYCLES * 3

    def step(
        self,
        buttons: Bytes,
        *,
        frames: int = 1,
        begin: int = 0,
        end: int | None = None,
        draw: bool = True,
    ) -> None:
        """Hold `buttons`, [N] or [N, 2] for two pads, for some frames; then keep a picture.

        Bits are A, B, select, start, up, down, left, right, from the lowest on. Disjoint ranges may
        be stepped at once by several threads; `buttons` is of all consoles.
        """
        if buttons.shape not in ((len(self),), (len(self), 2)) or buttons.dtype != np.uint8:
            raise ConfigError(
                f"step takes uint8 buttons for {len(self)} consoles, "
                f"not {buttons.dtype} {buttons.shape}"
            )
        last = len(self) if end is None else end
        if not 0 <= begin <= last <= len(self) or frames < 1:
            raise ConfigError(
                f"there are consoles 0 to {len(self)} to run for at least 1 frame, "
                f"not {begin} to {last} for {frames}"
            )
        own = self._mine()
        own.buttons[begin:last] = buttons[begin:last].reshape(last - begin, -1)
        if buttons.ndim == 1:
            own.buttons[begin:last, 1] = 0
        own.span[:] = frames, draw
        run_alone(own.chain, own.left, begin, last)

    def bound(self, spell: Spell, *, members: int = 1) -> Link:
        """Return the running of one console as a link of native work, for the threads of a crew."""
        return self._bound(self._batch, self._view, spell, members)

    def _bound(self, batch: Batch, view: PictureKind, spell: Spell, members: int) -> Link:
        desks = Desks(self._games, new_canvases(members))
        return bind(run_console, Running(batch, desks, view, spell))

    def _mine(self) -> _Own:
        """Return this thread's buffers: threads may step disjoint ranges at once."""
        own: _Own | None = getattr(self._own, "own", None)
        if own is None:
            own = self._own.own = _Own(self)
        return own

    def color_numbers(self, row: int) -> Bytes:
        """Return the last frame of a console as numbers of colors, [240, 256]."""
        state = self._previous[row : row + 1].copy()
        numbers: Bytes = np.zeros((1, 1, HEIGHT, WIDTH), np.uint8)
        pads = self.registers[row : row + 1, [PAD_1, PAD_2]].astype(np.uint8)
        batch = Batch(state.view(CONSOLE)[:, 0], state.copy(), numbers)
        part = self._bound(batch, self._color_view, Spell(pads, np.ones(2, np.int64)), 1)
        run_alone(Chain(part), np.zeros(1, np.int64), 0, 1)
        picture: Bytes = numbers[0, 0]
        return picture

    def screen(self, row: int) -> Bytes:
        """Return the last frame of a console in red, green and blue, [240, 256, 3]."""
        screen: Bytes = colors()[self.color_numbers(row)]
        return screen

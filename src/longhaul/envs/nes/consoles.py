"""Many consoles with one cartridge, stepped together."""

from __future__ import annotations

import threading
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from longhaul.core.env import Array
from longhaul.core.errors import ConfigError
from longhaul.envs.nes.cartridge import Cartridge
from longhaul.envs.nes.frame import run_frame
from longhaul.envs.nes.game import Machine, decode, new_canvases
from longhaul.envs.nes.layout import (
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
)
from longhaul.envs.nes.native import entry, kernel_stamp
from longhaul.envs.nes.palette import colours
from longhaul.envs.nes.picture import Picture, View, colour_view, keep_picture, make_view

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


class Desk(NamedTuple):
    """What one thread works with."""

    games: Array  # [1] of `GAME`
    canvases: Array  # [2] of `CANVAS`


class Spell(NamedTuple):
    """Which consoles run for how many frames, and whether a picture is kept."""

    begin: int
    end: int
    frames: int
    draw: bool


def _build_step(stamp: int) -> Any:
    @entry
    def step(batch: Batch, desk: Desk, view: View, buttons: Array, spell: Spell) -> None:
        """Run some consoles for some frames; keep a picture of the last one."""
        _ = stamp
        now = Machine(desk.games[0], desk.canvases[0])
        before = Machine(desk.games[0], desk.canvases[1])
        now.canvas.shades[:] = view.shades
        before.canvas.shades[:] = view.shades
        before.canvas.drawing[0] = False
        for index in range(spell.begin, spell.end):
            console = batch.consoles[index]
            row, registers = console.row, console.registers
            pad_1, pad_2 = buttons[index, 0], buttons[index, 1]
            for frame in range(spell.frames - 1):
                is_seen = spell.draw and view.two_frames and frame == spell.frames - 2
                before.canvas.drawing[0] = is_seen
                run_frame(row, registers, before, pad_1, pad_2)
            batch.previous[index] = row
            now.canvas.drawing[0] = spell.draw
            run_frame(row, registers, now, pad_1, pad_2)
            if spell.draw:
                keep_picture(now.canvas, before.canvas, view, batch.pictures[index])

    return step


step_consoles = _build_step(kernel_stamp())
"""Step a range of consoles."""


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
        self._colour_view = colour_view()
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
        pads = buttons
        if buttons.ndim == 1:
            pads = np.zeros((len(buttons), 2), np.uint8)
            pads[:, 0] = buttons
        if pads.shape != (len(self), 2) or pads.dtype != np.uint8 or frames < 1:
            raise ConfigError(
                f"step takes uint8 buttons for {len(self)} consoles and at least 1 frame, "
                f"not {buttons.dtype} {buttons.shape} and {frames}"
            )
        last = len(self) if end is None else end
        if not 0 <= begin <= last <= len(self):
            raise ConfigError(f"there are consoles 0 to {len(self)}, not {begin} to {last}")
        spell = Spell(begin, last, frames, draw)
        step_consoles(self._batch, self._desk(), self._view, np.ascontiguousarray(pads), spell)

    def _desk(self) -> Desk:
        """Return this thread's own desk: threads may step disjoint ranges at once."""
        desk: Desk | None = getattr(self._own, "desk", None)
        if desk is None:
            desk = self._own.desk = Desk(self._games, new_canvases())
        return desk

    def colour_numbers(self, row: int) -> Bytes:
        """Return the last frame of a console as numbers of colours, [240, 256]."""
        state = self._previous[row : row + 1].copy()
        numbers: Bytes = np.zeros((1, 1, HEIGHT, WIDTH), np.uint8)
        pads = self.registers[row : row + 1, [PAD_1, PAD_2]].astype(np.uint8)
        batch = Batch(state.view(CONSOLE)[:, 0], state.copy(), numbers)
        spell = Spell(begin=0, end=1, frames=1, draw=True)
        step_consoles(batch, self._desk(), self._colour_view, pads, spell)
        picture: Bytes = numbers[0, 0]
        return picture

    def screen(self, row: int) -> Bytes:
        """Return the last frame of a console in red, green and blue, [240, 256, 3]."""
        screen: Bytes = colours()[self.colour_numbers(row)]
        return screen

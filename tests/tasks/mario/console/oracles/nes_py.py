"""The compiled core of nes-py as an oracle: driven with ctypes, its Python code never imported."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from ctypes import c_int, c_void_p, c_wchar_p
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tests.tasks.mario.console.oracles.libretro import bytes_at

SHIFT = 53_800
"""Steps after which a step ends a thousand cycles before the vertical blank, when the game has done
its work of the frame. A player's 2,100 frames bring it to the blank."""


class NesPyConsole:
    """One console; `ram` is a live view of its memory.

    A step is always 29,781 CPU cycles, half a cycle longer than a frame, and the first one begins
    behind the vertical blank. So the moment at which steps end moves slowly through the frame.
    """

    first_line = 1
    lines_shown = 220

    def __init__(self, library: Path, cartridge: Path) -> None:
        core = ctypes.CDLL(str(library))
        core.Initialize.restype = core.Memory.restype = c_void_p
        core.Controller.restype = core.Screen.restype = c_void_p
        core.Initialize.argtypes = [c_wchar_p]
        core.Controller.argtypes = [c_void_p, c_int]
        for name in ("Memory", "Screen", "Reset", "Step", "Backup", "Restore", "Close"):
            getattr(core, name).argtypes = [c_void_p]
        self._core = core
        self._console = core.Initialize(str(cartridge))
        core.Reset(self._console)
        self.ram = bytes_at(core.Memory(self._console), 2048)
        self._pads = [bytes_at(core.Controller(self._console, port), 1) for port in range(2)]
        self._screen = bytes_at(core.Screen(self._console), 240 * 256 * 4)

    def step(self, pad_1: int, pad_2: int = 0) -> None:
        """Run one step."""
        self._pads[0][0], self._pads[1][0] = pad_1, pad_2
        self._core.Step(self._console)

    def screen(self) -> NDArray[np.uint32]:
        """Return the picture in the core's own colors, [240, 256]."""
        return self._screen.view(np.uint32).reshape(240, 256).copy()

    def keep(self) -> Callable[[], None]:
        """Return what brings the console back to this moment; there is room for one."""
        self._core.Backup(self._console)
        return functools.partial(self._core.Restore, self._console)

    def close(self) -> None:
        """Free the console."""
        self._core.Close(self._console)

"""A libretro core as an oracle: loaded with ctypes, one private copy of the library per console."""

from __future__ import annotations

import ctypes
import functools
import shutil
import tempfile
from collections.abc import Callable
from ctypes import CFUNCTYPE, POINTER, byref, c_bool, c_char_p, c_int16, c_size_t, c_uint, c_void_p
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

SET_PIXEL_FORMAT = 10
GET_VARIABLE = 15
GET_VARIABLE_UPDATE = 17
GET_CAN_DUPE = 3
SYSTEM_RAM = 2
# From the bits of a console's controller to libretro's numbering of buttons.
BUTTONS = (8, 0, 2, 3, 4, 5, 6, 7)
SETTINGS = {b"fceumm_region": b"NTSC", b"fceumm_overscan": b"disabled"}
"""A console of the kind sold in America, whose whole screen is shown."""

Environment = CFUNCTYPE(c_bool, c_uint, c_void_p)
VideoRefresh = CFUNCTYPE(None, c_void_p, c_uint, c_uint, c_size_t)
AudioSample = CFUNCTYPE(None, c_int16, c_int16)
AudioBatch = CFUNCTYPE(c_size_t, c_void_p, c_size_t)
InputPoll = CFUNCTYPE(None)
InputState = CFUNCTYPE(c_int16, c_uint, c_uint, c_uint, c_uint)


class Variable(ctypes.Structure):
    _fields_ = (("key", c_char_p), ("value", c_char_p))


class GameInfo(ctypes.Structure):
    _fields_ = (("path", c_char_p), ("data", c_char_p), ("size", c_size_t), ("meta", c_char_p))


def bytes_at(address: int, count: int) -> NDArray[np.uint8]:
    """Return a live view of foreign memory."""
    memory: Any = (ctypes.c_uint8 * count).from_address(address)
    return np.frombuffer(memory, np.uint8)


class LibretroConsole:
    """One console; `ram` is a live view of its memory."""

    first_line = 0
    lines_shown = 240

    def __init__(self, library: Path, image: bytes) -> None:
        self._pads = [0, 0]
        self._frame: tuple[int, int, int, int] | None = None
        self._keep: list[Any] = []
        # Cores keep their state in globals: two consoles need two copies of the library.
        with tempfile.TemporaryDirectory() as folder:
            copy = Path(folder) / "core.so"
            shutil.copy(library, copy)
            self._core = ctypes.CDLL(str(copy))
        self._register(image)
        self._core.retro_get_memory_data.restype = c_void_p
        self._core.retro_serialize_size.restype = c_size_t
        address = self._core.retro_get_memory_data(SYSTEM_RAM)
        self.ram = bytes_at(address, 2048)
        self._size = int(self._core.retro_serialize_size())

    def _register(self, image: bytes) -> None:
        core = self._core
        for name, kind, function in (
            ("retro_set_environment", Environment, self._environment),
            ("retro_set_video_refresh", VideoRefresh, self._video),
            ("retro_set_audio_sample", AudioSample, lambda _left, _right: None),
            ("retro_set_audio_sample_batch", AudioBatch, lambda _data, count: count),
            ("retro_set_input_poll", InputPoll, lambda: None),
            ("retro_set_input_state", InputState, self._input),
        ):
            callback = kind(function)
            self._keep.append(callback)
            if name == "retro_set_video_refresh":
                core.retro_init()
            getattr(core, name)(callback)
        self._keep.append(image)
        game = GameInfo(b"game.nes", image, len(image), None)
        core.retro_load_game.restype = c_bool
        if not core.retro_load_game(byref(game)):
            raise RuntimeError("the core does not take this cartridge")

    def _environment(self, command: int, data: Any) -> bool:
        command &= 0xFFFF
        if command == GET_VARIABLE:
            variable = ctypes.cast(data, POINTER(Variable)).contents
            variable.value = SETTINGS.get(variable.key)
            return variable.key in SETTINGS
        if command == GET_VARIABLE_UPDATE:
            ctypes.cast(data, POINTER(c_bool))[0] = False
            return True
        if command == GET_CAN_DUPE:
            ctypes.cast(data, POINTER(c_bool))[0] = True
            return True
        return command == SET_PIXEL_FORMAT

    def _video(self, data: int | None, width: int, height: int, pitch: int) -> None:
        if data:
            self._frame = (data, width, height, pitch)

    def _input(self, port: int, _device: int, _index: int, button: int) -> int:
        if port > 1 or button not in BUTTONS:
            return 0
        return self._pads[port] >> BUTTONS.index(button) & 1

    def step(self, pad_1: int, pad_2: int = 0) -> None:
        """Run one frame."""
        self._pads = [pad_1, pad_2]
        self._core.retro_run()

    def screen(self) -> NDArray[np.uint16]:
        """Return the last frame in the core's own 16-bit colors, [lines, pixels]."""
        assert self._frame is not None
        data, width, height, pitch = self._frame
        pixels: NDArray[np.uint16] = bytes_at(data, pitch * height).view(np.uint16)
        return pixels.reshape(height, pitch // 2)[:, :width].copy()

    def save(self) -> bytes:
        """Return the state of the console."""
        state = ctypes.create_string_buffer(self._size)
        assert self._core.retro_serialize(state, c_size_t(self._size))
        return state.raw

    def load(self, state: bytes) -> None:
        """Continue from a saved state."""
        assert self._core.retro_unserialize(state, c_size_t(len(state)))

    def keep(self) -> Callable[[], None]:
        """Return what brings the console back to the present moment."""
        return functools.partial(self.load, self.save())

"""The 64 colours of the console, computed from the signal it sends to a television."""

from __future__ import annotations

import functools

import numpy as np
from numpy.typing import NDArray

LOW_LEVELS = (0.350, 0.518, 0.962, 1.550)
"""Volts of the lower half of the colour wave, for the four levels of brightness."""
HIGH_LEVELS = (1.094, 1.506, 1.962, 1.962)
BLACK = 0.518
WHITE = 1.962
PHASES = 12
HUE = 3.9
"""Twelfths by which a television's hue knob turns the colours."""
SATURATION = 1.0
LUMA = (0.299, 0.587, 0.114)


def _signal(colour: int, phase: int) -> float:
    """Return the voltage of a colour at one twelfth of the colour wave, black 0 and white 1."""
    hue, level = colour & 0x0F, colour >> 4
    if hue > 13:
        level = 1
    low, high = LOW_LEVELS[level], HIGH_LEVELS[level]
    if hue == 0:
        low = high
    if hue > 12:
        high = low
    volts = high if (hue + phase) % PHASES < PHASES // 2 else low
    return (volts - BLACK) / (WHITE - BLACK)


@functools.cache
def _colours() -> NDArray[np.uint8]:
    phases = np.arange(PHASES)
    angle = np.pi * (phases + HUE) / 6
    wave = np.array([[_signal(colour, int(phase)) for phase in phases] for colour in range(64)])
    y = wave.mean(axis=1)
    i = (wave * np.cos(angle)).mean(axis=1) * 2 * SATURATION
    q = (wave * np.sin(angle)).mean(axis=1) * 2 * SATURATION
    rgb = np.stack(
        [y + 0.956 * i + 0.621 * q, y - 0.272 * i - 0.647 * q, y - 1.106 * i + 1.703 * q], axis=1
    )
    levels: NDArray[np.uint8] = np.round(np.clip(rgb, 0, 1) * 255).astype(np.uint8)
    return levels


def colours() -> NDArray[np.uint8]:
    """Return red, green and blue of each colour, [64, 3]."""
    return _colours().copy()


def greys() -> NDArray[np.uint8]:
    """Return how bright each colour is, [64]."""
    levels: NDArray[np.uint8] = np.round(_colours() @ np.array(LUMA)).astype(np.uint8)
    return levels

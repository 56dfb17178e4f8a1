"""Which of the buttons that matter for jumping and running are held, which no picture shows."""

from __future__ import annotations

from typing import Any, NamedTuple

from longhaul.core.env import Array
from longhaul.envs.crew.chain import Labour
from longhaul.envs.crew.words import fetch
from longhaul.tasks.mario.game.memory import HELD_A, HELD_B, HELD_BUTTONS
from longhaul.tasks.mario.game.native import kernel_stamp

HELD_SIZE = 2
"""A and B."""


class Holding(NamedTuple):
    """What is read and written to tell of buttons."""

    consoles: Array  # [N, SIZE] uint8, whose memory comes first
    held: Array  # [N, HELD_SIZE] float32


def _build(stamp: int) -> Labour:
    def show_held(pointer: Any, index: int, member: int) -> int:
        """Write 1 for a button that was held in the last frame, 0 for one that was not."""
        _ = stamp
        holding = fetch(pointer)
        buttons = holding.consoles[index, HELD_BUTTONS]
        holding.held[index, 0] = 1.0 if buttons & HELD_A else 0.0
        holding.held[index, 1] = 1.0 if buttons & HELD_B else 0.0
        return 0

    return show_held


show_held = _build(kernel_stamp())

"""Where everything is in a console's row, and when everything happens in a frame.

A console is one row of `SIZE` bytes: its memories, then its registers as 32-bit integers. Copying
the row is a snapshot; writing it back is a restore.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from longhaul.core.native import kernel_stamp

RAM = 0
"""2048 bytes of work memory, $0000-$07FF for the program."""
NAMETABLES = 2048
"""2048 bytes: two screens of 32x30 tiles, each with 64 bytes of color attributes."""
OAM = 4096
"""256 bytes: 64 sprites of y, tile, attributes, x."""
PALETTE = 4352
"""32 bytes: the colors of the background, then of the sprites."""
REGISTERS = 4384
"""The registers below, four bytes each."""
FIRST_REGISTER = REGISTERS // 4
"""Registers are counted from the beginning of the row, taken as 32-bit integers."""

(
    A,
    X,
    Y,
    SP,
    PC,
    P,
    JAMMED,  # the CPU met an instruction it never comes back from; only a reset helps
    DOT,  # time since the vertical blank began, in dots of the picture; three make a CPU cycle
    DEADLINE,  # the dot at which the CPU must look up
    NMI,  # what is due: NOTHING, AT_ONCE or AFTER_NEXT
    ORIGIN,  # the dot the first instruction of the frame began at
    PARITY,  # whether that was an odd CPU cycle
    FRAME_END,  # the dot of the next vertical blank, once it is known
    LINE_ZERO,  # the dot at which the first pixel of the picture is put out
    ODD_FRAME,
    FRAMES,  # since power on
    CONTROL,  # as last written to $2000
    MASK,  # as last written to $2001
    VBLANK,  # the flag in $2002
    BLANK_SEEN,  # $2002 was read as the vertical blank began: UNSEEN, HIDDEN or TAKEN
    OLD_FLAGS,  # sprite 0 and overflow flags of the frame before, until they are cleared
    SPRITE_ZERO_DOT,  # when sprite 0 meets the background in this frame, or NEVER
    OVERFLOW_DOT,  # when a line with too many sprites is met; UNKNOWN until it is read
    V,  # the address in video memory, which is also the scroll position while drawing
    T,  # where V begins in the next picture
    FINE_X,
    SECOND_WRITE,  # the next write to $2005 or $2006 is the second of two
    READ_BUFFER,  # what the next read of $2007 answers
    OAM_ADDRESS,
    OPEN_BUS,  # the last byte that was on the video bus
    LINE,  # the next line of the picture to be put out
    PIXEL,  # how much of that line has been drawn
    STROBE,
    PAD_1,
    PAD_2,
    SHIFT_1,  # what the program has not yet read of the pads
    SHIFT_2,
) = range(FIRST_REGISTER, FIRST_REGISTER + 37)
REGISTER_COUNT = 37

SIZE = REGISTERS + 4 * REGISTER_COUNT
"""Bytes of a row."""

CONSOLE = np.dtype(
    {
        "names": ["row", "registers"],
        "formats": [(np.uint8, (SIZE,)), (np.int32, (SIZE // 4,))],
        "offsets": [0, 0],
        "itemsize": SIZE,
    }
)
"""A row as a record: its bytes, and the same memory as registers."""

NOTHING, AT_ONCE, AFTER_NEXT = range(3)

UNSEEN, HIDDEN, TAKEN = range(3)
"""Whether a read kept the program from the next blank's flag and interrupt, or from the flag."""

NEVER = 1 << 30
UNKNOWN = -1

LINE_DOTS = 341
FRAME_DOTS = 262 * LINE_DOTS
"""From one vertical blank to the next; every other frame is a dot shorter while drawing."""
FLAGS_CLEARED = 20 * LINE_DOTS
"""When the vertical blank is over."""
SCROLL_TAKEN = FLAGS_CLEARED + 303
"""When the line before the first has copied T into V."""
FIRST_PIXEL = 21 * LINE_DOTS
LINE_FETCHED = 256
"""Dots after its first pixel at which a line is done with V, which then moves to the next line."""

HEIGHT = 240
WIDTH = 256

VERTICAL, HORIZONTAL = range(2)
"""How the two screens are mirrored: side by side, or one above the other."""


def console_stamp() -> int:
    """Return a number that differs when the text of any module of this folder does."""
    return kernel_stamp(sorted(Path(__file__).parent.glob("*.py")))

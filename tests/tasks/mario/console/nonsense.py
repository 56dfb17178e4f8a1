"""Random cartridges and random states: consoles that do nobody knows what.

`python -m tests.tasks.mario.console.nonsense CARTRIDGES STATES` runs many in a
separate process.
"""

from __future__ import annotations

import functools
import resource
import sys

import numpy as np

from longhaul.tasks.mario.console.consoles import Consoles
from longhaul.tasks.mario.console.game import Cartridge
from longhaul.tasks.mario.console.picture import Picture

ROWS = 8
FIRST, LAST = 3, 5
"""The rows that are run; those around them must stay as they are."""
CANARY = 123
MOST_GROWTH = 16 * 1024
"""KiB of memory, of a process that does nothing else."""


@functools.cache
def cartridge(number: int) -> Cartridge:
    """Return one of the random cartridges; compiled code of each stays, so they are not many."""
    random = np.random.default_rng(number)
    size = (16384, 32768)[number % 2]
    program = random.integers(0, 256, size, dtype=np.uint8)
    if number % 3:
        # Instructions that touch ports are rare by chance: sow them.
        places = random.integers(0, size - 16, size // 24)
        program[places] = random.choice([0x8D, 0xAD, 0x8E, 0x2C, 0xEE, 0x9D], len(places))
        program[places + 1] = random.integers(0, 8, len(places))
        program[places + 2] = random.choice([0x20, 0x20, 0x20, 0x3F, 0x40], len(places))
    # All three vectors lead into the cartridge, where code is found and made native.
    program[-5::2] |= 0x80
    patterns = random.integers(0, 256, 8192, dtype=np.uint8).tobytes()
    return Cartridge(program.tobytes(), patterns, "horizontal" if number % 4 < 2 else "vertical")


def run_nonsense(number: int, seed: int, *, draw: bool) -> None:
    """Run random states on a random cartridge twice; nothing else may change, both must agree."""
    random = np.random.default_rng(seed)
    picture = Picture(
        two_frames=bool(random.integers(2)),
        color=bool(random.integers(2)),
        first_line=int(random.integers(0, 100)),
    )
    consoles = Consoles(cartridge(number), ROWS, picture)
    begin = random.integers(0, 256, consoles.states.shape, dtype=np.uint8)
    buttons = random.integers(0, 256, (3, ROWS, 2), dtype=np.uint8)
    outside = np.r_[0:FIRST, LAST:ROWS]
    ends = []
    for _ in range(2):
        consoles.states[:] = begin
        consoles.pictures[:] = CANARY
        for held in buttons:
            consoles.step(held, frames=2, begin=FIRST, end=LAST, draw=draw)
        np.testing.assert_array_equal(consoles.states[outside], begin[outside])
        assert (consoles.pictures[outside] == CANARY).all()
        assert (consoles.states[FIRST:LAST] != begin[FIRST:LAST]).any()
        ends.append((consoles.states.copy(), consoles.pictures.copy()))
    for first, again in zip(*ends, strict=True):
        np.testing.assert_array_equal(first, again)


def run_much_nonsense(cartridges: int, states: int) -> None:
    """Run several states on each of several cartridges; fail if memory grows meanwhile."""
    used = 0
    for seed in range(states):
        for number in range(cartridges):
            run_nonsense(number, seed, draw=(seed + number) % 2 == 0)
        if seed == states // 10:
            used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - used
    assert grown < MOST_GROWTH, f"{grown} KiB more"


if __name__ == "__main__":
    run_much_nonsense(int(sys.argv[1]), int(sys.argv[2]))

"""How this folder's kernels are compiled, and when they have to be compiled again."""

from __future__ import annotations

import hashlib
from pathlib import Path

KERNEL_MODULES = ("figures", "memory", "course", "tiles", "reward")
"""The modules of this folder that hold native code or the constants in it."""


def kernel_stamp() -> int:
    """Return a number that differs when any of the modules with native code does.

    Numba looks only at the file of the function it is asked for: constants and code from another
    file would stay as they were when first compiled. Entry points hold this number, which is part
    of their cache's key.
    """
    digest = hashlib.blake2b(digest_size=7)
    for module in KERNEL_MODULES:
        digest.update((Path(__file__).parent / f"{module}.py").read_bytes())
    return int.from_bytes(digest.digest(), "little")

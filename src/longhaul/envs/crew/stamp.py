"""When native code has to be compiled again."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

WORDS = Path(__file__).with_name("words.py")
"""What all native code gets its arguments by."""


def text_stamp(modules: Iterable[Path]) -> int:
    """Return a number that differs when the text of one of these modules does.

    Numba looks only at the file of the function it is asked for: constants and code from another
    file would stay as they were when first compiled. Functions that are kept compiled hold this
    number, which is part of their cache's key.
    """
    digest = hashlib.blake2b(digest_size=7)
    for module in (*modules, WORDS):
        digest.update(module.read_bytes())
    return int.from_bytes(digest.digest(), "little")

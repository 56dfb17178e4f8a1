"""Standard streams that the caller has closed."""

from __future__ import annotations

import os
import sys


def open_closed_streams() -> None:
    """Open the null device in place of standard streams the process was started without.

    Otherwise the next file that is opened gets the number of such a stream, and what any library
    prints goes into it.
    """
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(number)
        except OSError:
            opened = os.open(os.devnull, os.O_RDWR)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(number, mode, closefd=False))

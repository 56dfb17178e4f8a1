"""How Python becomes native code here: without the GIL, and cached where Python calls it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
import numpy as np

from longhaul.envs.crew.stamp import text_stamp

F = TypeVar("F", bound=Callable[..., Any])

integer = cast("type[int]", np.int64)
"""What bytes are turned into before they are reckoned with: `int` would leave them bytes."""


def entry(function: F) -> F:
    """Return native code that Python calls; compiled once per machine."""
    return cast(F, numba.njit(nogil=True, cache=True, error_model="numpy")(function))


def kernel(function: F) -> F:
    """Return native code that is called by native code only.

    A wrapper for calls from Python would take as long to compile as the function itself.
    """
    # These two options work as any other but are missing in Numba's types.
    compile_inner = cast(Any, numba.njit)(
        nogil=True, error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True
    )
    return cast(F, compile_inner(function))


def kernel_stamp() -> int:
    """Return a number that differs when the text of any module of this folder does."""
    return text_stamp(sorted(Path(__file__).parent.glob("*.py")))

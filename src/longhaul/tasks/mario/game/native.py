"""How this folder's kernels are compiled, and when they have to be compiled again."""

from __future__ import annotations

from pathlib import Path

from longhaul.envs.crew.stamp import text_stamp

KERNEL_MODULES = ("figures", "memory", "course", "tiles", "trail", "reward")
"""The modules of this folder that hold native code or the constants in it."""


def kernel_stamp() -> int:
    """Return a number that differs when any of the modules with native code does."""
    folder = Path(__file__).parent
    return text_stamp(folder / f"{module}.py" for module in KERNEL_MODULES)

"""Choosing where the network runs and fixing how torch computes."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import torch
import torch.utils.deterministic

from longhaul.core.errors import ConfigError

TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3  # as <malloc.h> numbers them
KEPT_BYTES = 2**30
LARGEST_KEPT_BLOCK = 2**25
"""The most glibc allows."""


def choose_device(
    asked: str, *, require_gpu: bool, tell: Callable[[str], None] = lambda text: None
) -> torch.device:
    """Return the device the user asked for; falling back to the CPU is said, or is an error."""
    if asked == "auto":
        if torch.cuda.is_available():
            return torch.device("cuda")
        if require_gpu:
            raise ConfigError("--require-gpu: torch finds no CUDA device on this machine")
        return torch.device("cpu")
    try:
        device = torch.device(asked)
    except RuntimeError:
        raise ConfigError(
            f"device = {asked!r} is not known; use auto, cpu, cuda or cuda:N"
        ) from None
    if device.type == "cuda" and not torch.cuda.is_available():
        if require_gpu:
            raise ConfigError(f"device = {asked!r}: torch finds no CUDA device on this machine")
        tell(f"device {asked!r} is not there: training on the CPU instead")
        return torch.device("cpu")
    if device.type not in ("cpu", "cuda"):
        raise ConfigError(f"device = {asked!r} is not supported; use auto, cpu, cuda or cuda:N")
    if require_gpu and device.type == "cpu":
        raise ConfigError("--require-gpu cannot be had with device = 'cpu'")
    return device


def fix_torch(*, threads: int, deterministic: bool) -> None:
    """Make torch repeatable, with a fixed number of threads, and keep the memory it frees."""
    torch.set_num_threads(threads)
    keep_freed_memory()
    # The same switch as `use_deterministic_algorithms`, which imports the compiler: seconds.
    torch.set_deterministic_debug_mode("error" if deterministic else "default")
    # Filling new tensors with NaN finds reads of uninitialised memory; it costs 5 % on images and
    # makes nothing more repeatable.
    # The module is given this property at run time, where a type checker cannot see it.
    options: Any = torch.utils.deterministic
    options.fill_uninitialized_memory = False


def keep_freed_memory() -> bool:
    """Let freed memory be used again instead of being given back; tell if that can be asked for.

    Networks over images free tens of megabytes after every minibatch. By default they go back to
    the system and come anew, zeroed page by page: a tenth of the time of training on pixels.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    return bool(mallopt(TRIM_THRESHOLD, KEPT_BYTES) and mallopt(MMAP_THRESHOLD, LARGEST_KEPT_BLOCK))

"""How torch is set up."""

from __future__ import annotations

import resource

import pytest
import torch

from longhaul.app.device import keep_freed_memory


def test_freed_memory_is_used_again() -> None:
    if not keep_freed_memory():
        pytest.skip("this C library cannot be asked to keep memory")
    pages = 16 * 2**20 // resource.getpagesize()

    def faults() -> int:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        for _ in range(4):
            torch.ones(4 * 2**20)
        return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

    faults()
    assert faults() < pages

"""How torch is set up."""

from __future__ import annotations

import subprocess
import sys

import pytest

FREES_AND_TAKES = """
import resource
import torch
from longhaul.core.system import keep_freed_memory

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(64):
        torch.ones(4 * 2**20)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

print(faults(), int(keep_freed_memory()), faults())
"""


def test_freed_memory_is_used_again() -> None:
    # In a process of its own: what a heap does depends on everything that used it before. Tensors
    # are aligned, so some blocks are taken anew before the freed ones fit.
    told = subprocess.run(
        [sys.executable, "-c", FREES_AND_TAKES], capture_output=True, text=True, check=True
    ).stdout
    before, asked, after = map(int, told.split())
    if not asked:
        pytest.skip("this C library cannot be asked to keep memory")
    assert after < before / 2

"""Torch as the tests before and after find it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from tests.app.toys import register_toys


@pytest.fixture(autouse=True)
def _torch_as_it_was() -> Iterator[None]:
    threads, mode = torch.get_num_threads(), torch.get_deterministic_debug_mode()
    yield
    torch.set_num_threads(threads)
    torch.set_deterministic_debug_mode(mode)


@pytest.fixture(scope="session", autouse=True)
def _toys() -> None:
    register_toys()

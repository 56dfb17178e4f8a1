from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what plays the game, and leave it out where there is none."""
    missing = importlib.util.find_spec("nle") is None
    for item in items:
        if HERE in item.path.parents and item.get_closest_marker("nethack") and missing:
            item.add_marker(pytest.mark.skip(reason="NLE is not installed: make test installs it"))

"""Trackers on the command line."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from longhaul.app.session.tracking import TRACKERS
from tests.cli.conftest import Longhaul


@pytest.mark.parametrize("name", ["wandb", "mlflow"])
def test_a_missing_package_is_named_with_its_extra(
    name: str, longhaul: Longhaul, tmp_path: Path
) -> None:
    package, extra = TRACKERS[name].package, TRACKERS[name].extra
    if importlib.util.find_spec(package) is not None:
        pytest.skip(f"{package} is installed")
    outcome = longhaul("train", "gym:CartPole-v1", "--track", name, "--runs-root", tmp_path)
    assert outcome.code == 2
    assert f"longhaul-rl[{extra}]" in outcome.err
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_tracker_is_refused(longhaul: Longhaul, tmp_path: Path) -> None:
    outcome = longhaul("train", "gym:CartPole-v1", "--track", "tensorbord", "--runs-root", tmp_path)
    assert outcome.code == 2
    assert "track.to" in outcome.err

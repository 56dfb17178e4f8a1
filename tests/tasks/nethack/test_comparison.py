"""Arms of an experiment are compared on the same games, beside those that learned nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from longhaul.app.experiments.compare import compare_runs
from longhaul.core.errors import ConfigError
from longhaul.runs.directory import RunDirectory
from longhaul.tasks.nethack.players import ANCHORS, SCRIPT
from tests.tasks.nethack.policy.test_training import scaled, trained

pytestmark = [pytest.mark.nethack, pytest.mark.thorough]


def arm(root: Path, name: str, *, cap: int = 40) -> RunDirectory:
    tiny = scaled(2, cap, 2)
    return trained(root, *tiny, "options.eval_episodes=3", f"name={name}", example=name)


def test_arms_are_compared_beside_random_and_scripted_games(tmp_path: Path) -> None:
    baseline, full = (arm(tmp_path, name) for name in ("baseline", "full"))
    found = compare_runs([baseline.path, full.path])
    assert [one.arm for one in found.comparison.arms] == ["baseline", "full"]
    assert {anchor.name for anchor in found.comparison.anchors} == set(ANCHORS)
    assert SCRIPT in found.as_text()
    (kept,) = full.evaluations.glob("step-*-held-out-*.json")
    assert SCRIPT not in kept.read_text(), "the same games were played twice"


def test_games_of_another_cap_are_not_compared(tmp_path: Path) -> None:
    short, long = arm(tmp_path, "baseline"), arm(tmp_path, "full", cap=50)
    with pytest.raises(ConfigError, match="cap 50"):
        compare_runs([short.path, long.path])

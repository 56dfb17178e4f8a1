"""A run and an exported policy of every released format can be read, resumed and reported."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

import longhaul as package
from longhaul.runs.directory import FORMAT
from tests.cli.conftest import Longhaul

STORED = sorted((Path(__file__).parents[1] / "stored").glob("format-*"))
QUIET = package.SessionOptions(quiet=True, report=False)


@pytest.fixture(params=STORED, ids=lambda path: path.name)
def stored(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Return a copy of what a version stored."""
    copied = tmp_path / "stored"
    shutil.copytree(request.param, copied)
    return copied


def test_the_present_format_is_stored() -> None:
    assert f"format-{FORMAT}" in [path.name for path in STORED]


def test_agents_of_the_run_and_of_the_export_act_alike(stored: Path) -> None:
    observations = np.random.default_rng(1).normal(size=(64, 4)).astype(np.float32)
    ours = package.load(stored / "run").act(observations)
    assert np.array_equal(ours, package.load(stored / "export").act(observations))
    assert set(ours) == {0, 1}


def test_the_run_goes_on_for_longer(stored: Path) -> None:
    before = package.Run(stored / "run").metrics("rollout/ep_len_mean")
    run = package.resume(stored / "run", total_timesteps=256, session=QUIET)
    assert run is not None
    after = run.metrics("rollout/ep_len_mean")
    assert after["env_steps"][-1] == 256
    steps = len(before["env_steps"])
    assert np.array_equal(
        after["rollout/ep_len_mean"][:steps], before["rollout/ep_len_mean"], equal_nan=True
    )


@pytest.mark.parametrize("command", ["inspect", "report", "metrics", "hints", "evaluate", "repair"])
def test_commands_read_the_run(longhaul: Longhaul, stored: Path, command: str) -> None:
    outcome = longhaul(command, stored / "run")
    assert outcome.code == 0, outcome.err

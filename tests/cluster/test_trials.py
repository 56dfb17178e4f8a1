"""Searches and experiments whose runs are trained on a real cluster of this machine."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

pytestmark = [
    pytest.mark.ray,
    pytest.mark.thorough,
    # Not imported here: what it listens on is settled by then.
    pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="needs Ray"),
]

PATIENCE = 600.0  # on a machine with other work to do
SMALL = (
    "--set", "num_envs=4", "--set", "collect.num_steps=16", "--set", "learn.n_epochs=1",
    "--set", "policy.hidden=[8]", "--set", "evaluate.episodes=2",
)  # fmt: skip
SEARCH = (
    "search", "probe:chase", *SMALL, "--timesteps", "4096", "--trials", "2",
    "--space", "learn.learning_rate=choice:1e-3,1e-2", "--pruner", "none", "--json",
)  # fmt: skip


def begin(root: Path, *words: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "longhaul", *words, "--runs-root", str(root)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def result(process: subprocess.Popen[str]) -> Any:
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, err
    return json.loads(out)


def found(told: Any) -> list[tuple[Any, ...]]:
    """Return what must not depend on where trials are trained."""
    return [(t["number"], t["state"], t["params"], t["value"]) for t in told["trials"]]


def test_trials_on_a_cluster_find_what_they_find_here_even_if_one_is_killed(
    tmp_path: Path,
) -> None:
    here = begin(tmp_path / "here", *SEARCH)
    there = begin(tmp_path / "there", *SEARCH, "--cluster", "local", "--jobs", "2")
    until = time.monotonic() + PATIENCE
    while not (logs := list((tmp_path / "there").glob("*/*-search-0001-*/metrics.jsonl"))):
        assert there.poll() is None
        assert time.monotonic() < until
        time.sleep(0.01)
    lock = json.loads((logs[0].parent / "lock").read_text())
    (actor,) = psutil.Process(lock["pid"]).parents()[:1]
    assert actor.name().startswith("ray::")
    os.kill(actor.pid, signal.SIGKILL)
    assert found(result(there)) == found(result(here))


def test_the_arms_of_an_experiment_are_trained_side_by_side_on_a_cluster(tmp_path: Path) -> None:
    words = (
        "compare", "probe:chase", "--arms", "plain:learn.gamma=0.9,other:learn.gamma=0.5",
        "--seeds", "1", *SMALL, "--set", "total_timesteps=1024",
        "--set", "evaluate.final_episodes=2", "--json",
    )  # fmt: skip
    told = result(begin(tmp_path, *words, "--cluster", "local", "--jobs", "2"))
    assert [run["arm"] for run in told["runs"]] == ["compare-plain", "compare-other"]
    assert len(list(tmp_path.glob("probe-chase/2*/run.json"))) == 2

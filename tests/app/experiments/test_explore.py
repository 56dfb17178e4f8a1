from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from longhaul.app.build.components import build_task
from longhaul.app.build.paths import build_path_dealer
from longhaul.app.diagnose.verify import Interruption, verify
from longhaul.app.experiments.explore.explore import ExploreReport, ExploreRequest, run_explore
from longhaul.app.session.run import run_session
from longhaul.app.session.start import begin_run
from longhaul.core.errors import CheckpointError, ConfigError
from longhaul.engine.demo import load_demo
from longhaul.runs.checkpoints.inspect import list_checkpoints
from longhaul.runs.logs.jsonl import read_rows
from tests.app.small import QUIET, small_config

LONG = ("options.positions=400",)


def request(root: Path, **changes: object) -> ExploreRequest:
    given = {"task": "probe:lock", "count": 4, "root": root, "quiet": True, **changes}
    return ExploreRequest(**given)  # type: ignore[arg-type]


def explored(root: Path, **changes: object) -> ExploreReport:
    return run_explore(request(root, **changes))


def test_a_demonstration_is_written_verified_and_not_searched_again(tmp_path: Path) -> None:
    report = explored(tmp_path)
    (status,) = report.goals
    assert status.solved
    assert status.verified
    demo = load_demo(Path(status.demo))
    assert len(demo.decisions) == status.decisions == 20
    assert demo.found["steps"] == status.steps
    assert "1 of 1 solved" in report.as_text()
    assert json.loads(report.as_json())["solved"] == 1
    assert explored(tmp_path).goals == report.goals


def test_a_search_out_of_budget_goes_on_with_a_larger_one(tmp_path: Path) -> None:
    first = explored(tmp_path, overrides=LONG, budget_seconds=0.05)
    assert not first.goals[0].solved
    second = explored(tmp_path, overrides=LONG, budget_seconds=600.0)
    assert second.goals[0].verified
    whole = explored(tmp_path / "whole", overrides=LONG, budget_seconds=600.0)
    assert second.goals[0].digest == whole.goals[0].digest
    assert second.goals[0].steps == whole.goals[0].steps > first.goals[0].steps


PROGRAM = """
import sys
from pathlib import Path
from longhaul.app.experiments.explore.explore import ExploreRequest, run_explore
run_explore(ExploreRequest("probe:lock", count=4, root=Path(sys.argv[1]), quiet=True,
    overrides=("options.positions=400",), budget_seconds=600.0, save_seconds=0.02))
"""


def test_a_search_that_is_killed_comes_to_the_same_archive(tmp_path: Path) -> None:
    state = tmp_path / "probe-lock" / "seed-0.explore" / "state" / "start"
    kills = 0
    while kills < 3:
        process = subprocess.Popen([sys.executable, "-c", PROGRAM, str(tmp_path)])
        before = list_checkpoints(state) if state.is_dir() else []
        while process.poll() is None and (not state.is_dir() or list_checkpoints(state) == before):
            time.sleep(0.005)
        if process.poll() is not None:
            break
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        kills += 1
    assert kills >= 1
    killed = explored(tmp_path, overrides=LONG, budget_seconds=600.0)
    whole = explored(tmp_path / "whole", overrides=LONG, budget_seconds=600.0)
    assert killed.goals[0].digest == whole.goals[0].digest
    assert killed.goals[0].steps == whole.goals[0].steps


def test_a_search_of_other_options_is_refused_to_continue(tmp_path: Path) -> None:
    explored(tmp_path, overrides=LONG, budget_seconds=0.05)
    with pytest.raises(CheckpointError, match="was made with options"):
        explored(tmp_path, overrides=("options.positions=401",))


def test_unknown_goals_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no goal '9-9'"):
        explored(tmp_path, goals="9-9")


def test_a_task_without_snapshots_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be searched"):
        explored(tmp_path, task="gym:CartPole-v1")


def test_a_demonstration_of_another_lock_is_refused(tmp_path: Path) -> None:
    demo = explored(tmp_path).goals[0].demo
    config = small_config("probe:lock", f"env.path.demos=['{demo}']", "options.positions=21")
    with pytest.raises(ConfigError, match="was found with env = lock-20-4, here it is lock-21-4"):
        build_path_dealer(config, build_task(config))


@pytest.mark.parametrize(
    ("task", "count", "goals", "overrides"),
    [
        ("probe:lock", 4, "all", ("env.path.every=1",)),
        ("probe:lock", 4, "all", ("env.path.every=1", "env.runtime=processes")),
        pytest.param(
            "mario:standin", 64, "1-1", ("collect.num_steps=64",), marks=pytest.mark.thorough
        ),
    ],
)
def test_a_run_along_a_path_that_is_interrupted_ends_with_the_same_bytes(
    tmp_path: Path, task: str, count: int, goals: str, overrides: tuple[str, ...]
) -> None:
    demo = explored(tmp_path, task=task, count=count, goals=goals, films=False).goals[0].demo
    config = small_config(
        task,
        f"env.path.demos=['{demo}']",
        "collect.overlap=true",
        "evaluate.every_iterations=0",
        *overrides,
    )
    result = verify(config, Interruption(iterations=8, interruptions=3))
    assert result.equal, result.as_text()
    assert len(result.interruptions) == 3


def test_training_along_a_path_measures_it(tmp_path: Path) -> None:
    demo = explored(tmp_path).goals[0].demo
    config = small_config("probe:lock", f"env.path.demos=['{demo}']", "env.path.every=1")
    run = begin_run(config, tmp_path).directory
    assert run_session(run, config, QUIET).exit_code == 0
    rows = read_rows(run.metrics).rows
    assert any("path/success" in row for row in rows)
    assert all(0 <= row["path/true_rate"] <= 1 for row in rows if "path/true_rate" in row)

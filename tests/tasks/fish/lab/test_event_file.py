"""Row 28 of the fish checklist: every tag of the original in an event file, as it is read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from longhaul.app.session.run import run_session
from longhaul.runs.reader import read_metrics
from longhaul.tasks.fish.lab.exports import TAGS
from longhaul.tasks.fish.lab.timeline import NAMES
from tests.app.small import QUIET, small_config, stopped_run

accumulators = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")

ITERATIONS = 4


def flags(folder: Path) -> tuple[str, ...]:
    path = folder / "ne.json"
    path.write_text(json.dumps({"velocities": [[0.5, 1.9], [-0.8, 1.7], [0.1, 2.4]]}))
    return (
        "options.fish=5",
        "options.time_limit=20",
        "collect.num_steps=24",
        f"total_iterations={ITERATIONS}",
        "evaluate.every_iterations=1",
        "evaluate.suite=v38-8",
        f"options.tail.stages=[{{iterations=2, path='{path}', type='ne'}}, "
        f"{{iterations=1, path='{path}', type='main'}}, "
        f"{{iterations=1, path='{path}', type='ne'}}]",
        "options.tail.force_reset_steps=6",
        "track.to=['tensorboard']",
        "track.histogram_seconds=0.000001",
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("fish")
    overrides = flags(root)
    run = stopped_run(root, *overrides, iterations=2, task="fish")
    assert run_session(run, small_config("fish", *overrides), QUIET).exit_code == 0
    return run.path


@pytest.fixture(scope="module")
def board(folder: Path) -> Any:
    return accumulators.EventAccumulator(str(folder / "tensorboard"), size_guidance={}).Reload()


def test_row_28_every_tag_of_the_original_is_in_the_event_file(board: Any) -> None:
    found = set(board.Tags()["scalars"])
    by_type = {f"custom/{tag}_{kind}" for tag in NAMES["curves_by_type"] for kind in ("ne", "main")}
    assert {*TAGS, *by_type} - found == set()


def test_the_tags_hold_the_metrics_of_the_run(board: Any, folder: Path) -> None:
    from longhaul.runs.directory import RunDirectory

    rows = read_metrics(RunDirectory(folder)).rows
    assert len(rows) == ITERATIONS
    for tag, metric in TAGS.items():
        if "/" not in metric:
            continue
        logged = [(row["env_steps"], row[metric]) for row in rows if metric in row]
        drawn = [(one.step, one.value) for one in board.Scalars(tag)]
        assert drawn == [(step, pytest.approx(value)) for step, value in logged], tag


def test_the_restart_left_one_curve_and_histograms(board: Any) -> None:
    assert [one.value for one in board.Scalars("iteration")] == [1.0, 2.0, 3.0, 4.0]
    names = board.Tags()["histograms"]
    assert any(name.startswith("weights/") for name in names)
    assert "rollout/ep_rew" in names


def test_settings_are_drawn_under_the_original_names(board: Any) -> None:
    drawn = [one.value for one in board.Scalars("custom/entropy_coef")]
    own = [one.value for one in board.Scalars("setting/learn.ent_coef")]
    assert drawn == own
    assert len(drawn) == ITERATIONS

"""Rows 21, 22, 23 and 25 of the fish's checklist, by the commands a user gives."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from longhaul.runs.checkpoints.inspect import list_checkpoints
from longhaul.runs.directory import RunDirectory
from longhaul.runs.logs.jsonl import read_rows
from tests.app.small import finished_run
from tests.cli.conftest import Longhaul

SUITE = "v38-8"
FISH = (
    "total_iterations=3",
    "evaluate.every_iterations=1",
    f"evaluate.suite={SUITE}",
    "checkpoint.every_iterations=1",
    "checkpoint.keep_last=9",
)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    return finished_run(tmp_path_factory.mktemp("fish"), *FISH, task="fish")


@pytest.fixture
def run(trained: RunDirectory, tmp_path: Path) -> RunDirectory:
    return RunDirectory(shutil.copytree(trained.path, tmp_path / "run"))


EVALUATE = ("--suite", SUITE, "--no-references", "--json")


def test_row_25_the_same_seed_twice_gives_the_same_parameters(
    trained: RunDirectory, tmp_path: Path
) -> None:
    again = finished_run(tmp_path, *FISH, task="fish")
    for name in ("learner.safetensors", "collector.safetensors", "state.json"):
        first, second = (
            (list_checkpoints(run.checkpoints)[0] / name).read_bytes() for run in (trained, again)
        )
        assert first == second, name
    assert read_rows(trained.metrics).rows == read_rows(again.metrics).rows


def test_row_21_an_evaluation_repeats_to_the_digit_with_its_bound(
    longhaul: Longhaul, run: RunDirectory
) -> None:
    first, second = (longhaul("evaluate", run.path, *EVALUATE) for _ in range(2))
    assert first.code == 0
    assert first.out == second.out
    (suite,) = json.loads(first.out)["suites"]
    assert len(suite["episodes"]) == 12
    name = "eval/avg_final_survival_rate"
    low, high = suite["intervals"][name]
    assert low <= suite["metrics"][name] <= high
    assert suite["metrics"][name] <= suite["bounds"][name] < 1.0
    assert suite["metrics"][name] == pytest.approx(suite["metrics"]["eval/survival_rate"])


def test_row_23_the_best_checkpoint_reproduces_its_figure(
    longhaul: Longhaul, run: RunDirectory
) -> None:
    scores = {
        path.name: json.loads(longhaul("inspect", path, "--json").out)["score"]
        for path in list_checkpoints(run.checkpoints)
    }
    found = json.loads(longhaul("evaluate", run.path, "--checkpoint", "best", *EVALUATE).out)
    best = scores[found["checkpoint"]]
    assert best["metric"] == "eval/score"
    assert best["value"] == max(score["value"] for score in scores.values())
    assert found["suites"][0]["metrics"]["eval/score"] == best["value"]


def test_row_22_two_checkpoints_are_compared_case_by_case(
    longhaul: Longhaul, run: RunDirectory
) -> None:
    oldest, newest = list_checkpoints(run.checkpoints)[-1], list_checkpoints(run.checkpoints)[0]
    outcome = longhaul("evaluate", run.path, *EVALUATE, "--against", oldest.name)
    (paired,) = json.loads(outcome.out)["suites"][0]["paired"]
    assert (paired["against"], paired["cases"]) == (oldest.name, 12)
    assert paired["low"] <= paired["difference"] <= paired["high"]
    same = longhaul("evaluate", run.path, *EVALUATE, "--against", newest.name)
    (none,) = json.loads(same.out)["suites"][0]["paired"]
    assert (none["difference"], none["better"], none["worse"]) == (0.0, 0, 0)


def test_a_wrong_suite_is_named(longhaul: Longhaul, run: RunDirectory) -> None:
    wrong = longhaul("evaluate", run.path, "--suite", "v83", "--no-references")
    assert (wrong.code, "did you mean 'v38'" in wrong.problem) == (2, True)


@pytest.mark.slow
def test_row_7_a_report_shows_the_references_and_the_bound(
    longhaul: Longhaul, run: RunDirectory
) -> None:
    text = longhaul("evaluate", run.path, "--suite", SUITE, "--against", "brake").out
    for part in ("trained minus brake: ", "planner, safe side", "bound", "95 % interval"):
        assert part in text
    nobody = longhaul("evaluate", run.path, "--suite", SUITE, "--against", "shark")
    assert nobody.code == 2
    assert "reference policies: forward" in nobody.problem


def test_evaluations_of_a_run_are_in_its_events(trained: RunDirectory) -> None:
    rows = [row for row in read_rows(trained.events).rows if row["event"] == "evaluated"]
    assert [row["iteration"] for row in rows] == [1, 2, 3]
    assert all(row["suite"] == SUITE and len(row["episodes"]) == 12 for row in rows)

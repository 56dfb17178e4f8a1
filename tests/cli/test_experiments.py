"""`longhaul search` as people call it: mistakes, real small searches, interruptions."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from longhaul.app.experiments.search.space import parse_dimension
from longhaul.app.experiments.search.study import SearchStudy, TrialRecord
from longhaul.runs.directory import RunDirectory
from longhaul.runs.reader import read_checkpoints
from tests.cli.conftest import Longhaul, everything_in

PATIENCE = 1200.0  # on a machine with other work to do
RATE = "learn.learning_rate=choice:1e-3,1e-2"
SMALL = (
    "--timesteps", "2048",
    "--set", "num_envs=4", "--set", "collect.num_steps=16", "--set", "learn.n_epochs=1",
    "--set", "policy.hidden=[8]", "--set", "evaluate.episodes=2",
)  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("probe:chase", "--space", "learn.learnig_rate=log:1e-5..1e-2"), "'learn.learning_rate'"),
        (("probe:chase", "--space", "learn.learning_rate=log:1e-2..1e-5"), "the range is empty"),
        (("probe:chase", "--space", "learn.learning_rate"), "KEY=KIND:VALUES"),
        (("probe:chase", "--objective", "eval/mean_rewrd"), "did you mean 'eval/mean_reward'"),
        (("probe:chase", "--pruner", "mdian"), "did you mean 'median'"),
        (("probe:chase", "--direction", "up"), "choices: maximize, minimize"),
        (("probe:chase", "--take", "lst"), "did you mean 'last'"),
        (("probe:chase", "--budget", "2 hours"), "invalid duration"),
        (("probe:chase", "--trials", "0"), "--trials must be at least 1"),
        (("probe:chase", "--space-file", "nowhere.toml"), "does not exist"),
        (("probe:chase", "--preset", "chse"), "has no preset 'chse'"),
        (("probe:chasing",), "chasing"),
        (("prbe:chase",), "did you mean 'probe:chase'"),
    ],
)
def test_a_mistake_is_one_line_and_leaves_nothing_behind(
    longhaul: Longhaul, tmp_path: Path, arguments: tuple[str, ...], complaint: str
) -> None:
    outcome = longhaul("search", *arguments, "--runs-root", tmp_path)
    assert outcome.code == 2
    assert complaint in outcome.problem
    assert everything_in(tmp_path) == {}


def test_without_optuna_one_line_names_the_extra(
    longhaul: Longhaul, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    outcome = longhaul("search", "probe:chase", "--runs-root", tmp_path)
    assert outcome.code == 2
    assert "pip install 'longhaul-rl[search]'" in outcome.problem
    assert everything_in(tmp_path) == {}


@pytest.mark.thorough
def test_a_real_search_tells_what_it_found(longhaul: Longhaul, tmp_path: Path) -> None:
    command = ("search", "probe:chase", *SMALL, "--space", RATE, "--trials", "2", "--jobs", "2")
    outcome = longhaul(*command, "--runs-root", tmp_path, "--json")
    assert outcome.code == 0, outcome.err
    told = json.loads(outcome.out)
    assert [trial["state"] for trial in told["trials"]] == ["complete", "complete"]
    assert told["trials"][0]["params"] == {"learn.learning_rate": "1e-3"}
    for trial in told["trials"]:
        assert trial["value"] == logged(Path(trial["notes"]["run"]))
    assert Path(told["best_file"]).is_file()
    assert "trial 1 of 2" in outcome.err


def logged(run: Path) -> float:
    """Return the objective as a reader of the log would work it out."""
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    values = [
        row["eval/mean_reward"]
        for row in rows
        if "eval/mean_reward" in row and row["env_steps"] > 0.75 * 2048
    ]
    return float(sum(values) / len(values))


def begin(root: Path, *arguments: str) -> subprocess.Popen[str]:
    """Start a search as a process of its own."""
    command = [sys.executable, "-m", "longhaul", "search", *arguments, "--runs-root", str(root)]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, encoding="utf-8"
    )


def records(root: Path, task: str, space: tuple[str, ...]) -> tuple[TrialRecord, ...]:
    """Return what a search remembers."""
    dimensions = {one.key: one for one in map(parse_dimension, space)}
    journal = root / task / "search.search" / "journal.jsonl"
    study = SearchStudy(
        journal, dimensions, name="search", direction="maximize", pruner="none", seed=1
    )
    return study.records()


def comparable(found: tuple[TrialRecord, ...]) -> list[tuple[Any, ...]]:
    """Return what interruptions must not change."""
    return [(r.number, r.state, r.params, r.value, r.stages) for r in found]


@pytest.mark.thorough
@pytest.mark.parametrize("blow", [signal.SIGKILL, signal.SIGINT])
def test_an_interrupted_search_goes_on_as_if_nothing_had_been(
    tmp_path: Path, blow: signal.Signals
) -> None:
    space = ("learn.learning_rate=log:1e-4..1e-2",)
    arguments = ("probe:chase", *SMALL, "--space", *space, "--trials", "4", "--pruner", "none")
    whole = begin(tmp_path / "whole", *arguments)
    cut = begin(tmp_path / "cut", *arguments)
    assert cut.stdout is not None
    while not cut.stdout.readline().startswith("trial 2 of 4 starts"):
        assert cut.poll() is None
    folder = tmp_path / "cut" / "probe-chase"
    while not list(folder.glob("*-search-0002-s3/metrics.jsonl")):
        assert cut.poll() is None
        time.sleep(0.01)
    cut.send_signal(blow)
    cut.communicate(timeout=PATIENCE)
    assert cut.returncode == (-signal.SIGKILL if blow == signal.SIGKILL else 130)
    again = begin(tmp_path / "cut", *arguments)
    out, _ = again.communicate(timeout=PATIENCE)
    assert again.returncode == 0, out
    assert "trial 2 of 4 continues" in out
    whole.communicate(timeout=PATIENCE)
    expected = records(tmp_path / "whole", "probe-chase", space)
    found = records(tmp_path / "cut", "probe-chase", space)
    assert comparable(found) == comparable(expected)
    assert [record.number for record in found] == [0, 1, 2, 3]
    assert len(list(folder.glob("*-search-0002-s3*"))) == 1


@pytest.mark.thorough
def test_a_trial_whose_numbers_break_is_typed_and_the_search_goes_on(
    longhaul: Longhaul, tmp_path: Path
) -> None:
    outcome = longhaul(
        "search", "gym:CartPole-v1", *SMALL, "--set", "schedule=[]", "--trials", "4",
        "--space", "learn.learning_rate=choice:1e-3,1e30", "--runs-root", tmp_path, "--json",
    )  # fmt: skip
    assert outcome.code == 0, outcome.err
    told = json.loads(outcome.out)
    broken = [t for t in told["trials"] if t["params"]["learn.learning_rate"] == "1e30"]
    assert broken
    assert {trial["failure"] for trial in broken} == {"numbers"}
    assert all(trial["words"] for trial in broken)
    assert {t["state"] for t in told["trials"] if t not in broken} == {"complete"}


@pytest.mark.thorough
def test_a_pruned_trial_leaves_a_sound_run(longhaul: Longhaul, tmp_path: Path) -> None:
    outcome = longhaul(
        "search", "probe:chase", *SMALL[2:], "--timesteps", "60000", "--trials", "8",
        "--space", "learn.learning_rate=choice:1e-3,3e-3,1e-7", "--runs-root", tmp_path, "--json",
    )  # fmt: skip
    assert outcome.code == 0, outcome.err
    pruned = [t for t in json.loads(outcome.out)["trials"] if t["state"] == "pruned"]
    assert pruned, "a rate of 1e-7 learns nothing"
    run = RunDirectory(Path(pruned[0]["notes"]["run"]))
    assert all(entry.manifest is not None for entry in read_checkpoints(run))
    assert read_checkpoints(run)
    assert run.read_record().status.value in ("stopped", "finished")

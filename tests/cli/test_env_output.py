"""What environments print never gets into what longhaul prints."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.app.zoo import GARBAGE, NATIVE, task
from tests.cli.conftest import Longhaul

pytestmark = [pytest.mark.thorough, pytest.mark.filterwarnings("ignore:an odd step")]

SMALL = (
    "--no-report", "--num-envs", "2", "--total-timesteps", "200", "--set", "collect.num_steps=32",
    "--set", "evaluate.final_episodes=2", "--set", "env.processes.workers=2",
)  # fmt: skip


def run_apart(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a command in a process of its own, whose descriptors are real."""
    return subprocess.run(
        [sys.executable, "-m", "longhaul", *map(str, arguments)], capture_output=True, text=True
    )


def train(root: Path, runtime: str, *more: str) -> tuple[subprocess.CompletedProcess[str], Path]:
    ended = run_apart(
        "train",
        task("Noisy"),
        "--runs-root",
        root,
        *SMALL,
        "--set",
        f"env.runtime={runtime}",
        *more,
    )
    assert ended.returncode == 0, ended.stderr
    (run,) = root.glob("*/*")
    return ended, run


def logs(run: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in (run / "env-output").iterdir()}


@pytest.mark.parametrize("runtime", ["serial", "processes"])
def test_json_stays_json_however_an_environment_prints(tmp_path: Path, runtime: str) -> None:
    ended, run = train(tmp_path, runtime, "--json")
    rows = [json.loads(line) for line in ended.stdout.splitlines()]
    assert ended.stderr == ""
    texts = [row["text"] for row in rows if row["event"] == "notice"]
    told = [text for text in texts if "prints; see " in text]
    assert len(told) == 1
    assert Path(told[0].partition("; see ")[2]).is_file()
    kept = logs(run)
    names = {"trainer.log"} if runtime == "serial" else {"worker-0.log", "worker-1.log"}
    assert names <= kept.keys()
    for name in names:
        for where in ("construct", "reset", "step"):
            assert f"{where}: {GARBAGE}" in kept[name]
        assert NATIVE.decode() in kept[name]
        assert "an odd step" in kept[name]
    if runtime == "processes":
        assert f"import: {GARBAGE}" in kept["worker-0.log"]
    measured = run_apart("evaluate", run, "--episodes", "2", "--json")
    assert json.loads(measured.stdout)["greedy"] is True
    assert measured.stderr == ""
    filmed = run_apart("watch", run, "--json", "--gif")
    assert len(json.loads(filmed.stdout)) == 1
    assert filmed.stderr == ""
    assert {"evaluate.log", "watch.log"} <= logs(run).keys()


def test_the_doctor_says_once_that_an_environment_prints() -> None:
    ended = run_apart("doctor", task("Noisy"), "--json")
    found = {one["what"]: one for one in json.loads(ended.stdout)["findings"]}
    assert "the environment prints" in found["output"]["detail"]
    assert "\x1b" not in found["output"]["detail"]
    assert ended.stderr == ""


def test_a_dry_run_prints_the_plan_alone() -> None:
    ended = run_apart("train", task("Noisy"), "--dry-run", "--json")
    assert json.loads(ended.stdout)["config"]["task"] == task("Noisy")
    assert ended.stderr == ""


def test_an_environment_that_does_not_print_leaves_no_folder(
    longhaul: Longhaul, tmp_path: Path
) -> None:
    ended = longhaul("train", "gym:Toy/Walk-v0", "--runs-root", tmp_path, *SMALL, "--json")
    assert ended.code == 0
    (run,) = tmp_path.glob("*/*")
    assert not (run / "env-output").exists()
    assert all(json.loads(line) for line in ended.out.splitlines())


def test_prints_are_kept_apart_where_the_streams_are_not_real(
    longhaul: Longhaul, tmp_path: Path
) -> None:
    ended = longhaul("train", task("Noisy"), "--runs-root", tmp_path, *SMALL, "--json")
    assert all(json.loads(line) for line in ended.out.splitlines())
    (run,) = tmp_path.glob("*/*")
    assert f"step: {GARBAGE}" in logs(run)["trainer.log"]

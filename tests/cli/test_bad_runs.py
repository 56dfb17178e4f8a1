"""Runs that cannot go on: locked, damaged, foreign, or with an environment that breaks."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from longhaul.core.errors import EXIT_CODES, LonghaulError
from longhaul.runs.checkpoints.inspect import list_checkpoints
from longhaul.runs.directory import Status
from longhaul.runs.lock import Clocks, RunLock
from longhaul.runs.reader import list_runs
from tests.app.small import CARTPOLE, finished_run, flags, stopped_run
from tests.cli.conftest import Longhaul, everything_in

TRAIN = ("train", CARTPOLE, *flags("checkpoint.every_iterations=1"))


def flip(file: Path) -> None:
    """Change one bit in the middle of a file."""
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


def test_a_run_in_use_is_left_to_its_trainer(longhaul: Longhaul, tmp_path: Path) -> None:
    run = stopped_run(tmp_path)
    with RunLock(run.lock, Clocks()):
        before = everything_in(tmp_path)
        for command in (("resume", run.path), (*TRAIN, "--runs-root", tmp_path)):
            outcome = longhaul(*command)
            assert outcome.code == 7
            assert f"{run.path} is in use by process" in outcome.problem
        assert everything_in(tmp_path) == before


def test_a_damaged_checkpoint_is_named_and_the_one_before_it_used(
    longhaul: Longhaul, tmp_path: Path
) -> None:
    run = stopped_run(tmp_path)
    newest, older = list_checkpoints(run.checkpoints)
    flip(newest / "learner.safetensors")
    damaged = everything_in(newest)
    outcome = longhaul("resume", run.path)
    assert outcome.code == 0
    assert f"checkpoint {newest.name} is damaged (learner.safetensors does not" in outcome.err
    assert f"continuing from {older.name}" in outcome.err
    assert everything_in(newest) == damaged


def test_a_run_without_any_usable_checkpoint_is_not_started_afresh(
    longhaul: Longhaul, tmp_path: Path
) -> None:
    run = stopped_run(tmp_path)
    for path in list_checkpoints(run.checkpoints):
        flip(path / "state.json")
    before = everything_in(run.checkpoints)
    logs = run.metrics.read_bytes()
    for command in (("resume", run.path), (*TRAIN, "--runs-root", tmp_path)):
        outcome = longhaul(*command, "--quiet")
        assert outcome.code == 5
        assert "state.json does not match its hash" in outcome.problem
        assert "backup" in outcome.problem
    assert everything_in(run.checkpoints) == before
    assert run.metrics.read_bytes() == logs


COMMANDS = (("resume",), (*TRAIN, "--runs-root"), (*TRAIN, "--resume", "auto", "--runs-root"))


@pytest.mark.parametrize("command", COMMANDS, ids=("resume", "train", "auto"))
@pytest.mark.parametrize("gone", ["the folder", "what is in it"])
def test_a_run_whose_checkpoints_are_gone_is_not_started_afresh(
    longhaul: Longhaul, tmp_path: Path, command: tuple[str, ...], gone: str
) -> None:
    run = stopped_run(tmp_path)
    shutil.rmtree(run.checkpoints)
    if gone == "what is in it":
        run.checkpoints.mkdir()
    before = everything_in(tmp_path)
    outcome = longhaul(*command, run.path if command == COMMANDS[0] else tmp_path)
    assert outcome.code == 5
    assert f"{run.checkpoints} holds no checkpoint, but this run has saved some" in outcome.problem
    assert "restore the folder from a backup, or start a new run" in outcome.problem
    assert everything_in(tmp_path) == before


def test_a_finished_run_whose_checkpoints_are_gone_is_not_started_afresh(
    longhaul: Longhaul, tmp_path: Path
) -> None:
    run = finished_run(tmp_path, "checkpoint.every_iterations=1")
    shutil.rmtree(run.checkpoints)
    before = everything_in(tmp_path)
    for command in (
        ("resume", run.path),
        ("resume", run.path, "--total-timesteps", "960"),
        (*COMMANDS[2], tmp_path),
    ):
        outcome = longhaul(*command)
        assert outcome.code == 5
        assert str(run.checkpoints) in outcome.problem
    assert everything_in(tmp_path) == before


def test_a_run_of_an_earlier_format_is_refused_in_one_line(
    longhaul: Longhaul, tmp_path: Path
) -> None:
    run = stopped_run(tmp_path)
    record = json.loads(run.record.read_text())
    run.record.write_text(json.dumps({**record, "format": 1}))
    for command in ("resume", "evaluate", "inspect", "report"):
        outcome = longhaul(command, run.path)
        assert outcome.code == 2
        assert "has format 1, and this version reads 2; use longhaul 0.1" in outcome.problem


def test_a_run_that_never_came_to_a_checkpoint_starts_from_the_beginning(
    longhaul: Longhaul, tmp_path: Path
) -> None:
    whole = finished_run(tmp_path / "whole")
    run = stopped_run(tmp_path / "killed")
    # As SIGKILL leaves it in its second iteration, before the first checkpoint.
    shutil.rmtree(run.checkpoints)
    run.checkpoints.mkdir()
    record = json.loads(run.record.read_text())
    run.record.write_text(json.dumps({**record, "first_checkpoint": "", "status": "running"}))
    run.sessions.write_text('{"event":"started"}\n')
    assert longhaul("resume", run.path, "--quiet").code == 0
    assert run.metrics.read_bytes() == whole.metrics.read_bytes()


def test_a_checkpoint_of_another_run_is_refused(longhaul: Longhaul, tmp_path: Path) -> None:
    run = stopped_run(tmp_path)
    other = stopped_run(tmp_path / "other", "policy.hidden=[4]", iterations=3)
    foreign = list_checkpoints(other.checkpoints)[0]
    shutil.copytree(foreign, run.checkpoints / foreign.name)
    outcome = longhaul("resume", run.path, "--quiet")
    assert outcome.code == 5
    assert foreign.name in outcome.problem
    assert (run.checkpoints / foreign.name).is_dir()


def test_a_pickle_in_place_of_a_checkpoint_runs_nothing(longhaul: Longhaul, tmp_path: Path) -> None:
    run = stopped_run(tmp_path)
    witness = tmp_path / "ran"
    payload = f"cos\nsystem\n(S'touch {witness}'\ntR.".encode()
    for path in list_checkpoints(run.checkpoints):
        for part in path.iterdir():
            part.write_bytes(payload)
    for command in ("resume", "evaluate"):
        outcome = longhaul(command, run.path)
        assert outcome.code == 5
        assert "Traceback" not in outcome.err
    run.config.write_bytes(payload)
    assert longhaul("resume", run.path).code == 2
    assert not witness.exists()


def test_evaluating_or_inspecting_a_damaged_checkpoint_names_it(
    longhaul: Longhaul, tmp_path: Path
) -> None:
    run = stopped_run(tmp_path)
    newest, older = list_checkpoints(run.checkpoints)
    flip(newest / "learner.safetensors")
    steps = int(newest.name.partition("-")[2])
    for command in (("evaluate", run.path, "--checkpoint", str(steps)), ("inspect", newest)):
        outcome = longhaul(*command)
        assert outcome.code == 5
        assert str(newest) in outcome.problem
        assert "learner.safetensors does not match its hash" in outcome.problem
    outcome = longhaul("evaluate", run.path, "--episodes", "1")
    assert outcome.code == 0
    assert older.name in outcome.out
    assert f"{newest.name} is damaged" in outcome.out


def test_a_checkpoint_that_does_not_fit_the_config_is_refused(
    longhaul: Longhaul, tmp_path: Path
) -> None:
    run = finished_run(tmp_path)
    run.config.write_text(run.config.read_text().replace("hidden = [8]", "hidden = [9]"))
    outcome = longhaul("evaluate", run.path)
    assert outcome.code == 5
    assert "does not match" in outcome.problem


@pytest.mark.parametrize("check", ["true", "false"])
@pytest.mark.parametrize(
    ("toy", "code", "says"),
    [
        ("BrokenReset", 3, "the simulator did not start"),
        ("BrokenStep", 3, "the simulator fell over"),
        ("NanReward", 4, "reward is nan"),
        ("NanObservation", 4, "observation 'obs' is nan"),
    ],
)
def test_an_environment_that_breaks_too_often_ends_the_run(
    longhaul: Longhaul, tmp_path: Path, toy: str, code: int, says: str, check: str
) -> None:
    task = f"gym:Toy/{toy}-v0"
    setup = flags(f"env.check_seeds={check}", "env.most_dropped=2")
    outcome = longhaul("train", task, *setup, "--quiet", "--runs-root", tmp_path / "runs")
    assert outcome.code == code
    assert says in outcome.problem
    assert task.partition(":")[2] in outcome.problem
    for run in list_runs(tmp_path / "runs"):
        assert run.record.status is Status.FAILED
        assert says in run.record.reason


def test_an_environment_that_breaks_beside_the_learner_ends_the_run_too(
    longhaul: Longhaul, tmp_path: Path
) -> None:
    task, setup = "gym:Toy/BrokenStep-v0", flags("collect.overlap=true")
    outcome = longhaul("train", task, *setup, "--quiet", "--runs-root", tmp_path)
    assert outcome.code == 3
    assert "the simulator fell over" in outcome.problem


def test_an_evaluation_that_cannot_be_kept_is_refused(longhaul: Longhaul, tmp_path: Path) -> None:
    run = finished_run(tmp_path)
    run.evaluations.write_text("a file where the folder has to be")
    outcome = longhaul("evaluate", run.path, "--episodes", "1")
    assert outcome.code == 6
    assert str(run.evaluations) in outcome.problem


def test_a_liar_about_seeds_is_told_of_and_trained_all_the_same(
    longhaul: Longhaul, tmp_path: Path
) -> None:
    task = "gym:Toy/Unseeded-v0"
    outcome = longhaul("train", task, *flags("env.check_seeds=true"), "--runs-root", tmp_path)
    assert outcome.code == 0
    assert "differ in observation 'obs' at step 1" in outcome.err
    assert "tier none" in outcome.err


def kinds(error: type[LonghaulError]) -> set[type[LonghaulError]]:
    return {error}.union(*(kinds(one) for one in error.__subclasses__()))


def test_every_error_ends_with_an_exit_code_that_is_explained() -> None:
    codes = {kind.exit_code for kind in kinds(LonghaulError) - {LonghaulError}}
    assert codes == {code for code in EXIT_CODES if 1 < code < 128}

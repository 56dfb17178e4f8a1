"""Making, continuing and proving runs from the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from longhaul.app.build.sources import from_values, read_toml
from longhaul.app.session.run import run_session
from longhaul.app.session.start import begin_run
from longhaul.engine.stop import after_iterations
from longhaul.runs.directory import RunDirectory, Status
from longhaul.runs.reader import list_runs, read_metrics, read_sessions
from tests.app.small import CARTPOLE, QUIET, flags, small_config, stopped_run
from tests.cli.conftest import Longhaul, everything_in

TRAIN = ("train", CARTPOLE, *flags("checkpoint.every_iterations=1"))


def env_steps(run: RunDirectory) -> list[int]:
    return [row["env_steps"] for row in read_metrics(run).rows]


def test_the_same_command_continues_an_unfinished_run(longhaul: Longhaul, tmp_path: Path) -> None:
    run = stopped_run(tmp_path)
    outcome = longhaul(*TRAIN, "--runs-root", tmp_path)
    assert outcome.code == 0
    assert "continuing from step-000000000064" in outcome.err
    assert [found.directory for found in list_runs(tmp_path)] == [run]
    assert env_steps(run) == [32, 64, 96]
    assert run.read_record().status is Status.FINISHED


def test_the_same_command_starts_a_new_run_once_the_old_one_is_finished(
    longhaul: Longhaul, tmp_path: Path
) -> None:
    assert longhaul(*TRAIN, "--runs-root", tmp_path).code == 0
    assert longhaul(*TRAIN, "--runs-root", tmp_path).code == 0
    first, second = (found.directory for found in list_runs(tmp_path))
    assert env_steps(first) == env_steps(second) == [32, 64, 96]
    assert first.metrics.read_bytes() == second.metrics.read_bytes()


def test_another_name_or_seed_is_another_run(longhaul: Longhaul, tmp_path: Path) -> None:
    stopped_run(tmp_path)
    for other in (("--name", "other"), ("--seed", "7")):
        assert longhaul(*TRAIN, *other, "--quiet", "--runs-root", tmp_path).code == 0
    assert len(list_runs(tmp_path)) == 3


def test_a_changed_config_for_an_unfinished_run_is_refused_with_the_keys(
    longhaul: Longhaul, tmp_path: Path
) -> None:
    run = stopped_run(tmp_path)
    before = everything_in(tmp_path)
    change = ("--set", "learn.n_epochs=2", "--set", "policy.hidden=[9]")
    for command in ((*TRAIN, *change, "--runs-root", tmp_path), ("resume", run.path, *change)):
        outcome = longhaul(*command)
        assert outcome.code == 2
        assert "learn.n_epochs: 1 -> 2, policy.hidden: [8] -> [9]" in outcome.problem
        assert "--name" in outcome.problem
    assert everything_in(tmp_path) == before


def test_a_config_from_before_a_key_existed_means_its_default(
    longhaul: Longhaul, tmp_path: Path
) -> None:
    run = stopped_run(tmp_path)
    lines = run.config.read_text().splitlines(keepends=True)
    run.config.write_text("".join(line for line in lines if not line.startswith("noise_scale")))
    assert longhaul(*TRAIN, "--quiet", "--runs-root", tmp_path).code == 0
    assert env_steps(run) == [32, 64, 96]


def test_a_finished_run_can_be_made_longer(longhaul: Longhaul, tmp_path: Path) -> None:
    run = stopped_run(tmp_path, iterations=3)
    assert longhaul("resume", run.path, "--total-timesteps", "160", "--quiet").code == 0
    assert env_steps(run) == [32, 64, 96, 128, 160]


def test_a_longer_run_stays_longer_when_it_is_interrupted(
    longhaul: Longhaul, tmp_path: Path
) -> None:
    run = stopped_run(tmp_path, iterations=3)
    longer = from_values({**read_toml(run.config), "total_timesteps": 160})
    run_session(run, longer, QUIET, also_until=after_iterations(4))
    assert longhaul("resume", run.path, "--quiet").code == 0
    assert env_steps(run) == [32, 64, 96, 128, 160]


def test_resuming_a_finished_run_changes_nothing_in_its_course(
    longhaul: Longhaul, tmp_path: Path
) -> None:
    run = stopped_run(tmp_path, iterations=3)
    before = run.metrics.read_bytes(), everything_in(run.checkpoints)
    assert longhaul("resume", run.path, "--quiet").code == 0
    assert (run.metrics.read_bytes(), everything_in(run.checkpoints)) == before
    assert run.read_record().status is Status.FINISHED


def test_a_run_without_a_checkpoint_begins_again_in_its_directory(
    longhaul: Longhaul, tmp_path: Path
) -> None:
    config = small_config(CARTPOLE, "checkpoint.every_iterations=1")
    run = begin_run(config, tmp_path).directory  # and its process was killed at once
    assert longhaul(*TRAIN, "--quiet", "--runs-root", tmp_path).code == 0
    assert [found.directory for found in list_runs(tmp_path)] == [run]
    assert [row["event"] for row in read_sessions(run).rows] == ["started", "finished"]


def test_a_dry_run_shows_config_and_memory_and_makes_nothing(
    longhaul: Longhaul, tmp_path: Path
) -> None:
    outcome = longhaul(*TRAIN, "--dry-run", "--runs-root", tmp_path)
    assert outcome.code == 0
    assert 'task = "gym:CartPole-v1"' in outcome.out
    assert "network: 107 parameters, 176 FLOP a decision" in outcome.out
    assert "\ntotal  " in outcome.out
    shown = longhaul(*TRAIN, "--dry-run", "--json", "--runs-root", tmp_path)
    plan = json.loads(shown.out)
    assert plan["config"]["num_envs"] == 2
    # Two networks of 4 x 8, with a head of 8 x 2 and one of 8 x 1; each weight is used once.
    assert plan["network"]["flop"] == 2 * (4 * 8 + 4 * 8 + 8 * 2 + 8 * 1)
    # Two rows of 16 steps: observation 16, action 8, three float32 and five flags.
    assert plan["memory_bytes"]["rollouts"] == 2 * 16 * (16 + 8 + 12 + 5)
    assert everything_in(tmp_path) == {}


def test_a_dry_run_finds_the_mistakes_a_run_would_find(longhaul: Longhaul) -> None:
    schedule = "schedule=[{kind='ramp', name='x', setting='learn.speed', start=1.0}]"
    outcome = longhaul(*TRAIN, "--dry-run", "--set", schedule)
    assert outcome.code == 2
    assert "learn.speed" in outcome.problem


def test_json_output_is_one_object_a_line(longhaul: Longhaul, tmp_path: Path) -> None:
    final = ("--set", "evaluate.final_episodes=1")
    outcome = longhaul(*TRAIN, *final, "--json", "--runs-root", tmp_path)
    assert outcome.code == 0
    assert outcome.err == ""
    rows = [json.loads(line) for line in outcome.out.splitlines()]
    assert rows[0]["event"] == "begin"
    assert {row["event"] for row in rows} == {"begin", "iteration", "notice"}
    last = [row for row in rows if row["event"] == "iteration"][-1]
    assert last["env_steps"] == 96
    assert last["metrics"]["time/total_timesteps"] == 96


def test_a_quiet_run_says_nothing(longhaul: Longhaul, tmp_path: Path) -> None:
    outcome = longhaul(*TRAIN, "--quiet", "--runs-root", tmp_path)
    assert (outcome.code, outcome.out, outcome.err) == (0, "", "")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device to train on")
@pytest.mark.parametrize("device", ["auto", "cuda"])
def test_falling_back_to_the_cpu_is_announced_once_and_recorded(
    longhaul: Longhaul, tmp_path: Path, device: str
) -> None:
    outcome = longhaul(*TRAIN, "--device", device, "--runs-root", tmp_path)
    assert outcome.code == 0
    assert (outcome.out + outcome.err).count("training on the CPU") == 1
    (run,) = list_runs(tmp_path)
    assert "no CUDA device found" in run.directory.read_record().device
    (started,) = [row for row in read_sessions(run.directory).rows if row["event"] == "started"]
    assert started["device"] == run.directory.read_record().device


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device to train on")
def test_a_required_gpu_that_is_missing_is_refused(longhaul: Longhaul, tmp_path: Path) -> None:
    refused = longhaul(*TRAIN, "--require-gpu", "--name", "gpu", "--runs-root", tmp_path)
    assert refused.code == 2
    assert "no CUDA device" in refused.problem
    assert not list_runs(tmp_path)


def test_verify_resume_tells_its_verdict_by_exit_code(longhaul: Longhaul) -> None:
    trial = ("--iterations", "4", "--interruptions", "2", *flags())
    outcome = longhaul("verify-resume", CARTPOLE, *trial)
    assert outcome.code == 0
    assert "bit for bit the same run" in outcome.out
    broken = ("gym:Toy/Forgetful-v0", *trial, "--set", "collect.num_steps=12", "--json")
    outcome = longhaul("verify-resume", *broken)
    assert outcome.code == 1
    verdict = json.loads(outcome.out)
    assert verdict["equal"] is False
    assert len(verdict["interruptions"]) == 2

"""The evaluation that ends a run: what it leaves, and that stopping it changes nothing."""

from __future__ import annotations

import json
import os
import signal
import threading
from pathlib import Path

import pytest

from longhaul.app.session.display import Display
from longhaul.app.session.run import run_session
from longhaul.app.session.start import begin_run
from longhaul.core.errors import EnvError
from longhaul.runs.directory import RunDirectory, Status
from longhaul.runs.lock import is_locked
from longhaul.runs.logs.jsonl import read_rows
from longhaul.runs.monitor.heartbeat import Heartbeat
from longhaul.runs.score import Score, Source, read_final_score
from tests.app.small import CARTPOLE, QUIET, finished_run, small_config
from tests.cli.conftest import everything_in

FINAL = "evaluate.final_episodes=12"


def final_score(run: RunDirectory) -> Score:
    score = read_final_score(run)
    assert score is not None
    return score


def test_it_leaves_the_score_the_run_is_judged_by(tmp_path: Path) -> None:
    score = final_score(finished_run(tmp_path, FINAL))
    assert score.metric == "eval/mean_reward"
    assert score.source is Source.FINAL
    assert (score.env_steps, score.episodes, score.target) == (96, 12, 475.0)
    assert score.checkpoint == "step-000000000096"
    assert score.low is not None
    assert score.high is not None
    assert score.low < score.value < score.high
    assert score.is_solved is False


def test_one_episode_has_no_confidence_interval(tmp_path: Path) -> None:
    score = final_score(finished_run(tmp_path, "evaluate.final_episodes=1"))
    assert (score.low, score.high) == (None, None)


def test_a_task_with_suites_is_judged_by_its_first(tmp_path: Path) -> None:
    run = finished_run(
        tmp_path,
        "evaluate.final_episodes=1",
        "evaluate.final_suites=['v38-8']",
        "num_envs=4",
        task="fish",
    )
    score = final_score(run)
    assert (score.metric, score.suite, score.episodes) == ("eval/score", "v38-8", 12)
    (kept,) = run.evaluations.glob("step-*.json")
    assert score.value == json.loads(kept.read_text())["suites"][0]["metrics"]["eval/score"]


def test_a_run_that_is_not_measured_leaves_no_score(tmp_path: Path) -> None:
    assert read_final_score(finished_run(tmp_path)) is None


def test_nothing_of_it_is_in_the_logs_of_training(tmp_path: Path) -> None:
    plain, measured = finished_run(tmp_path / "plain"), finished_run(tmp_path / "measured", FINAL)
    for name in ("metrics.jsonl", "episodes.jsonl", "events.jsonl"):
        assert (plain.path / name).read_bytes() == (measured.path / name).read_bytes()


def test_one_that_was_stopped_gives_the_same_digits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = finished_run(tmp_path / "whole", FINAL)
    config = small_config(CARTPOLE, FINAL)
    run = begin_run(config, tmp_path / "stopped").directory
    seen: list[tuple[int, int]] = []

    def stop(self: Display, stage: str, done: int, total: int) -> None:
        seen.append((done, total))
        if done == 5:
            os.kill(os.getpid(), signal.SIGTERM)

    with monkeypatch.context() as patch:
        patch.setattr(Display, "advance", stop)
        assert run_session(run, config, QUIET).exit_code == 143
    assert seen[0] == (0, 12)
    assert seen[-1] == (5, 12)
    assert run.read_record().status is Status.STOPPED
    assert not run.evaluations.exists()
    assert run_session(run, config, QUIET).exit_code == 0
    assert everything_in(run.evaluations) == everything_in(whole.evaluations)
    assert run.metrics.read_bytes() == whole.metrics.read_bytes()


def test_the_run_is_held_watched_and_running_while_it_lasts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = small_config(CARTPOLE, "evaluate.final_episodes=2")
    run = begin_run(config, tmp_path).directory
    stages: list[str] = []
    entered = Heartbeat.enter_stage

    def watched(self: Heartbeat, stage: str) -> None:
        stages.append(stage)
        if stage.startswith("final evaluation:"):
            assert is_locked(run.lock)
            assert run.read_record().status is Status.RUNNING
        entered(self, stage)

    monkeypatch.setattr(Heartbeat, "enter_stage", watched)
    assert run_session(run, config, QUIET).exit_code == 0
    assert "final evaluation" in stages
    assert "final evaluation: 0 of 2 episodes" in stages
    assert stages[-1] == "final evaluation: 2 of 2 episodes"
    assert run.read_record().status is Status.FINISHED
    assert not is_locked(run.lock)


def test_one_that_hangs_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    impatient = ("watch.least_seconds=0.6", "watch.first_seconds=0.6", "watch.factor=1")
    config = small_config(CARTPOLE, *impatient, "evaluate.final_episodes=2")
    run = begin_run(config, tmp_path).directory

    def hang(self: Display, stage: str, done: int, total: int) -> None:
        patience = threading.Event()
        for _ in range(400):
            if [*run.crash.glob("stall-final*")]:
                return
            patience.wait(0.05)

    monkeypatch.setattr(Display, "advance", hang)
    assert run_session(run, config, QUIET).exit_code == 0
    stalls = [row for row in read_rows(run.sessions).rows if row["event"] == "stall"]
    where = [row["where"] for row in stalls if row["stage"] == "final evaluation"]
    assert any("test_final_evaluation.py" in place for place in where)


def test_one_that_fails_is_written_down_and_made_by_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = small_config(CARTPOLE, FINAL)
    run = begin_run(config, tmp_path).directory

    def fail(self: Display, stage: str, done: int, total: int) -> None:
        raise EnvError("the simulator is gone")

    with monkeypatch.context() as patch:
        patch.setattr(Display, "advance", fail)
        with pytest.raises(EnvError):
            run_session(run, config, QUIET)
    assert run.read_record().status is Status.FAILED
    assert read_rows(run.sessions).rows[-1]["reason"] == "the simulator is gone"
    assert run_session(run, config, QUIET).exit_code == 0
    assert final_score(run).episodes == 12


def test_trackers_show_it_at_the_last_step(tmp_path: Path) -> None:
    events = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    run = finished_run(tmp_path, FINAL, "track.to=['tensorboard']")
    board = events.EventAccumulator(str(run.tensorboard), size_guidance={}).Reload()
    (point,) = board.Scalars("eval/mean_reward")
    assert point.step == 96
    assert point.value == pytest.approx(final_score(run).value)
    assert [one.step for one in board.Scalars("iteration")] == [32, 64, 96]

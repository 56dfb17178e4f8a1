"""Which run `train --resume auto` goes on with, and which it leaves alone."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from longhaul.app.build.config import RunConfig, SessionOptions
from longhaul.app.build.sources import from_values
from longhaul.app.session.run import run_session
from longhaul.app.session.start import begin_run, find_match, fingerprint, start_or_resume
from longhaul.core.errors import ConfigError, LockedError
from longhaul.runs.directory import RunDirectory, Status, write_status
from longhaul.runs.lock import Clocks, RunLock


@pytest.fixture
def config() -> RunConfig:
    return from_values({"task": "probe:recall", "name": "mine", "total_timesteps": 4096})


@pytest.fixture
def run(config: RunConfig, tmp_path: Path) -> RunDirectory:
    return begin_run(config, tmp_path).directory


def test_a_run_of_the_same_name_and_config_goes_on(
    config: RunConfig, run: RunDirectory, tmp_path: Path
) -> None:
    match = find_match(tmp_path, replace(config, total_timesteps=9999))
    assert match.run == run
    assert not match.is_over
    assert f"matches name and config ({fingerprint(config)}), is continued" in match.reasons[-1]


def test_without_any_run_a_new_one_begins(config: RunConfig, tmp_path: Path) -> None:
    match = find_match(tmp_path, config)
    assert match.run is None
    assert "starting a new one" in match.reasons[-1]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"seed": 7}, "seed is 1 there and 7 here"),
        ({"num_envs": 3}, "num_envs is 16 there and 3 here"),
    ],
)
def test_a_run_of_another_config_is_not_taken_and_the_difference_is_told(
    config: RunConfig, run: RunDirectory, tmp_path: Path, change: dict[str, int], words: str
) -> None:
    match = find_match(tmp_path, replace(config, **change))  # type: ignore[arg-type]
    assert match.run is None
    assert run.path.name in match.reasons[0]
    assert words in match.reasons[0]


def test_runs_of_other_names_and_tasks_are_not_even_looked_at(
    config: RunConfig, run: RunDirectory, tmp_path: Path
) -> None:
    begin_run(replace(config, name="theirs"), tmp_path)
    other = find_match(tmp_path, replace(config, name="fresh"))
    assert other.run is None
    assert len(other.reasons) == 1
    assert find_match(tmp_path, replace(config, task="probe:chase")).run is None


def test_a_run_of_another_task_in_this_tasks_folder_is_not_taken(
    config: RunConfig, run: RunDirectory, tmp_path: Path
) -> None:
    record = json.loads(run.record.read_text())
    run.record.write_text(json.dumps({**record, "task": "probe:chase"}))
    match = find_match(tmp_path, config)
    assert match.run is None
    assert "its task is probe:chase" in match.reasons[0]


def test_the_newest_of_several_is_taken(
    config: RunConfig, run: RunDirectory, tmp_path: Path
) -> None:
    second = begin_run(config, tmp_path).directory
    assert find_match(tmp_path, config).run == second


def test_a_run_that_is_being_trained_is_never_taken_nor_doubled(
    config: RunConfig, run: RunDirectory, tmp_path: Path
) -> None:
    with RunLock(run.lock, Clocks()), pytest.raises(LockedError, match="is training it") as raised:
        find_match(tmp_path, config)
    assert raised.value.exit_code == 7
    assert find_match(tmp_path, config).run == run


@pytest.mark.parametrize(("age", "is_taken"), [(10.0, False), (1000.0, True)])
def test_a_heart_that_beats_on_another_machine_counts_as_a_trainer(
    config: RunConfig, run: RunDirectory, tmp_path: Path, age: float, *, is_taken: bool
) -> None:
    holder = {"pid": 1, "host": "elsewhere", "boot_id": "x", "since": "then"}
    run.lock.write_text(json.dumps(holder))
    beat = {
        "stage": "learn", "stage_seconds": 1.0, "rates": {}, "pid": 1, "host": "elsewhere",
        "wall": 5000.0, "monotonic": 1.0,
        "progress": {"iteration": 1, "env_steps": 1, "episodes": 0},
    }  # fmt: skip
    run.heartbeat.write_text(json.dumps(beat))
    if is_taken:
        assert find_match(tmp_path, config, wall=lambda: 5000.0 + age).run == run
    else:
        with pytest.raises(LockedError, match="elsewhere"):
            find_match(tmp_path, config, wall=lambda: 5000.0 + age)


def test_a_run_of_another_user_is_not_taken(
    config: RunConfig, run: RunDirectory, tmp_path: Path
) -> None:
    if os.getuid() != 0:
        pytest.skip("only root can give a folder to somebody else")
    os.chown(run.path, 54321, -1)
    match = find_match(tmp_path, config)
    assert match.run is None
    assert "it belongs to user number 54321" in match.reasons[0]


def test_a_link_that_leads_out_of_the_root_is_not_followed(
    config: RunConfig, tmp_path: Path
) -> None:
    theirs = begin_run(config, tmp_path / "theirs").directory
    mine = tmp_path / "mine" / "probe-recall"
    mine.mkdir(parents=True)
    (mine / theirs.path.name).symlink_to(theirs.path)
    match = find_match(tmp_path / "mine", config)
    assert match.run is None
    assert "outside" in match.reasons[0]


def test_a_finished_run_is_left_alone_unless_it_is_to_be_longer(
    config: RunConfig, run: RunDirectory, tmp_path: Path
) -> None:
    (run.checkpoints / "step-000000004096").mkdir()
    write_status(run.record, Status.FINISHED, "done")
    match = find_match(tmp_path, config)
    assert match.is_over
    assert "already finished" in match.reasons[-1]
    assert start_or_resume(config, tmp_path, choice="auto", notify=print).is_over
    longer = find_match(tmp_path, replace(config, total_timesteps=8192))
    assert longer.run == run
    assert not longer.is_over


def test_a_damaged_record_is_told_and_not_hidden_by_a_new_run(
    config: RunConfig, run: RunDirectory, tmp_path: Path
) -> None:
    run.record.write_text("{")
    with pytest.raises(ConfigError, match="damaged"):
        find_match(tmp_path, config)


def test_another_word_than_the_known_ones_is_refused(config: RunConfig, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="did you mean 'auto'"):
        start_or_resume(config, tmp_path, choice="atuo", notify=print)


def test_auto_trains_a_run_to_its_end_in_two_sittings(config: RunConfig, tmp_path: Path) -> None:
    small = replace(
        config, total_timesteps=512, num_envs=2, evaluate=replace(config.evaluate, final_episodes=0)
    )
    asked = SessionOptions(quiet=True)
    for longer in (small, replace(small, total_timesteps=1024)):
        start = start_or_resume(longer, tmp_path, choice="auto", notify=print)
        assert run_session(start.directory, longer, asked, task=start.task).exit_code == 0
    folder = tmp_path / "probe-recall"
    assert len(list(folder.iterdir())) == 1
    shutil.rmtree(folder)

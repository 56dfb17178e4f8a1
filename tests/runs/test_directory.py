from __future__ import annotations

import os
import resource
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longhaul.core.errors import ConfigError, ResourceError
from longhaul.runs.directory import (
    RunDirectory,
    RunEntry,
    RunRecord,
    Status,
    begin_record,
    create_run,
    find_unfinished,
    slug,
    write_status,
)
from tests.runs.conftest import NOON

TASK = "gym:CartPole-v1"


def record(name: str = "first", seed: int = 3, later: int = 0) -> RunRecord:
    now = NOON + timedelta(seconds=later)
    return begin_record(TASK, name, seed, now=now, command=["longhaul", "train", TASK])


def test_a_run_lies_under_its_task_with_time_name_and_seed(tmp_path: Path) -> None:
    run = create_run(tmp_path, record(), "seed = 3\n")
    assert run.path == tmp_path / "gym-cartpole-v1" / "20260102-120000-first-s3"
    assert sorted(path.name for path in run.path.iterdir()) == [
        "checkpoints",
        "config.toml",
        "run.json",
    ]
    assert tomllib.loads(run.config.read_text()) == {"seed": 3}


def test_the_record_says_what_the_run_is(tmp_path: Path) -> None:
    found = create_run(tmp_path, record(), "").read_record()
    assert (found.task, found.name, found.seed) == (TASK, "first", 3)
    assert found.created_at == NOON
    assert found.command == ("longhaul", "train", TASK)
    assert found.status is Status.RUNNING
    assert {"python", "torch", "numpy", "gymnasium", "longhaul"} <= found.versions.keys()
    assert found.versions["python"] == ".".join(map(str, sys.version_info[:3]))
    assert found.host["name"] == os.uname().nodename


def test_two_runs_of_one_second_do_not_collide(tmp_path: Path) -> None:
    first, second = (create_run(tmp_path, record(), "") for _ in range(2))
    assert second.path.name == first.path.name + ".2"
    assert find_unfinished(tmp_path, TASK, "first", 3) == second


@given(st.text(max_size=100))
def test_a_slug_is_a_safe_folder_name_or_an_error(text: str) -> None:
    try:
        name = slug(text)
    except ConfigError:
        return
    assert 1 <= len(name) <= 80
    assert set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789._-")
    assert name[0] not in ".-"
    assert slug(name) == name


@pytest.mark.parametrize(
    ("text", "name"),
    [("größe", "grosse"), ("Été 2026", "ete-2026"), ("../../x", "x"), ("a 🚀 b", "a-b")],
)
def test_a_slug_keeps_letters_without_their_accents(text: str, name: str) -> None:
    assert slug(text) == name


@pytest.mark.parametrize("text", ["", "..", "/", "日本", "v1-日本", "x" * 81])
def test_a_name_nothing_is_left_of_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="cannot name a folder"):
        slug(text)


def test_a_name_that_makes_the_id_too_long_is_refused_and_makes_nothing(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="too long"):
        create_run(tmp_path / "runs", record("x" * 70), "")
    assert list(tmp_path.iterdir()) == []


def test_a_negative_seed_is_refused() -> None:
    with pytest.raises(ConfigError, match="seed = -1"):
        record(seed=-1)


def test_an_unfinished_run_is_found_by_task_name_and_seed(tmp_path: Path) -> None:
    assert find_unfinished(tmp_path / "none", TASK, "first", 3) is None
    create_run(tmp_path, record("first", 33), "")
    create_run(tmp_path, record("other", 3, later=1), "")
    assert find_unfinished(tmp_path, TASK, "first", 3) is None
    create_run(tmp_path, record(), "")
    newer = create_run(tmp_path, record(later=5), "")
    assert find_unfinished(tmp_path, TASK, "first", 3) == newer


@pytest.mark.parametrize("status", list(Status))
def test_only_a_finished_run_is_not_taken_up_again(tmp_path: Path, status: Status) -> None:
    run = create_run(tmp_path, record(), "")
    write_status(run.record, status, "because")
    found = find_unfinished(tmp_path, TASK, "first", 3)
    assert (found is None) == (status is Status.FINISHED)
    assert run.read_record() == replace(record(), status=status, reason="because")


def test_names_that_share_a_slug_stay_apart(tmp_path: Path) -> None:
    create_run(tmp_path, record("A b"), "")
    assert find_unfinished(tmp_path, TASK, "a-b", 3) is None
    assert find_unfinished(tmp_path, TASK, "A b", 3) is not None


def test_a_damaged_record_is_an_error_and_no_fresh_start(tmp_path: Path) -> None:
    run = create_run(tmp_path, record(), "")
    create_run(tmp_path, record("other"), "").record.write_text("{")
    assert find_unfinished(tmp_path, TASK, "first", 3) == run
    for content in ("{", "[]", '{"format": 2}', '{"format": 1}', '{"format": 1, "task": 3}'):
        run.record.write_text(content)
        with pytest.raises(ConfigError, match=r"run\.json"):
            find_unfinished(tmp_path, TASK, "first", 3)


def test_a_folder_without_a_record_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="not a run directory"):
        RunDirectory(tmp_path).read_record()


def test_a_root_that_is_a_file_is_refused_with_a_remedy(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("")
    with pytest.raises(ConfigError, match="choose another one"):
        create_run(tmp_path / "runs", record(), "")
    assert (tmp_path / "runs").read_text() == ""


def test_a_root_nobody_may_write_to_is_refused() -> None:
    # Not even the superuser can make folders there.
    with pytest.raises(ConfigError, match="cannot create a run in /proc/runs"):
        create_run(Path("/proc/runs"), record(), "")


FULL_DISK = """
import resource, sys
from datetime import datetime
from pathlib import Path
from longhaul.core.errors import LonghaulError
from longhaul.runs.directory import create_run
from longhaul.runs.directory import begin_record
resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))
try:
    record = begin_record("t", "n", 0, now=datetime.now(), command=[])
    create_run(Path(sys.argv[1]), record, "#" * 9999)
except LonghaulError as error:
    sys.exit(error.exit_code)
"""


def test_a_run_that_cannot_be_written_leaves_nothing_behind(tmp_path: Path) -> None:
    command = [sys.executable, "-c", FULL_DISK, str(tmp_path / "a" / "runs")]
    assert subprocess.run(command, check=False).returncode == ResourceError.exit_code
    assert list(tmp_path.iterdir()) == []
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] != 2000


def test_every_file_of_a_run_lies_inside_it(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path)
    names = [name for name, value in vars(RunDirectory).items() if isinstance(value, RunEntry)]
    paths = {name: getattr(run, name) for name in names}
    assert len(set(paths.values())) == len(names) == 23
    nested = {run.final_score: run.evaluations, run.film_notes: run.media}
    assert all(path.parent == nested.get(path, tmp_path) for path in paths.values())


def test_a_run_is_read_while_its_trainer_replaces_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = create_run(tmp_path, record(), "")
    temporary, walk = run.path / ".heartbeat.json.tmp", os.walk
    temporary.touch()

    def walk_and_replace(top: Path) -> Iterator[tuple[str, list[str], list[str]]]:
        for found in walk(top):
            temporary.unlink(missing_ok=True)
            yield found

    monkeypatch.setattr(os, "walk", walk_and_replace)
    run.check_plain()
    assert not temporary.exists()

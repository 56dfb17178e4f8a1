"""A run directory from elsewhere cannot direct what is written to another file."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from longhaul.core.errors import ConfigError
from longhaul.runs.directory import RunDirectory, RunEntry
from longhaul.runs.durable import replace_file, storage_errors
from longhaul.runs.lock import Clocks, RunLock
from longhaul.runs.logs.jsonl import LogWriter
from longhaul.runs.logs.segments import cut_log
from tests.app.small import stopped_run
from tests.cli.conftest import Longhaul, everything_in

PROPERTIES = sorted(
    name for name, value in vars(RunDirectory).items() if isinstance(value, RunEntry)
)
OTHERS = (
    "metrics.jsonl.000001",
    "events.jsonl.000001-20.gz",
    ".heartbeat.json.tmp",
    ".run.json.tmp",
    ".metrics.parquet.tmp",
    "checkpoints/latest",
    "checkpoints/.latest.tmp",
    "checkpoints/.tmp-0123456789abcdef",
    "checkpoints/step-000000000064/state.json",
    "checkpoints/step-000000000064/$(touch pwned).safetensors",
    "crash/traceback.txt",
    "crash/metrics-1.jsonl",
    "crash/interpreter-held-1.txt",
    "evaluations/final.json",
    "media/step-000000000064-best-seed1.mp4",
    "media/snapshots",
    "plots/learning.svg",
    "tensorboard/events.out.tfevents.1",
    "export/step-000000000064",
    "wandb",
    "anything-else",
)
COMMANDS = (
    ("resume",),
    ("resume", "--total-timesteps", "200"),
    ("evaluate", "--episodes", "1"),
    ("report",),
    ("watch",),
    ("export", "--no-onnx"),
    ("repair", "--apply"),
)


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    return stopped_run(tmp_path_factory.mktemp("links"))


@pytest.fixture
def run(stopped: RunDirectory, tmp_path: Path) -> RunDirectory:
    return RunDirectory(shutil.copytree(stopped.path, tmp_path / "runs" / "foreign"))


def put_link(run: RunDirectory, name: str, victim: Path) -> Path:
    """Replace a file or folder of the run by a link to something outside that has its content."""
    path = run.path / name
    if path.is_dir():
        shutil.copytree(path, victim)
        shutil.rmtree(path)
    elif path.exists():
        shutil.copy(path, victim)
        path.unlink()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(victim)
    return path


def paths_of(run: RunDirectory) -> dict[str, str]:
    return {str(getattr(run, name).relative_to(run.path)): name for name in PROPERTIES}


def test_every_name_of_a_run_is_refused_as_a_link(
    longhaul: Longhaul, run: RunDirectory, tmp_path: Path
) -> None:
    names = [*paths_of(run), *OTHERS]
    assert len(names) > 40
    for name in names:
        elsewhere = tmp_path / "elsewhere"
        elsewhere.mkdir()
        copy = RunDirectory(shutil.copytree(run.path, tmp_path / "copy"))
        link = put_link(copy, name, elsewhere / "victim")
        before = everything_in(elsewhere)
        outcome = longhaul("resume", copy.path)
        assert outcome.code == 2, name
        assert f"{link} is a symbolic link" in outcome.problem
        assert everything_in(elsewhere) == before, name
        shutil.rmtree(copy.path)
        shutil.rmtree(elsewhere)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
@pytest.mark.parametrize("name", ["sessions.jsonl", "crash", "media", "evaluations", ".x.tmp"])
def test_no_command_writes_through_a_link(
    command: tuple[str, ...], name: str, longhaul: Longhaul, run: RunDirectory, tmp_path: Path
) -> None:
    victim = tmp_path / "victim"
    link = put_link(run, name, victim)
    before = everything_in(tmp_path)
    outcome = longhaul(command[0], run.path, *command[1:])
    assert outcome.code == 2
    assert f"{link} is a symbolic link" in outcome.problem
    assert everything_in(tmp_path) == before


def test_a_pipe_in_a_run_directory_is_refused_instead_of_read(
    longhaul: Longhaul, run: RunDirectory
) -> None:
    run.timings.unlink()
    os.mkfifo(run.timings)
    outcome = longhaul("resume", run.path)
    assert outcome.code == 2
    assert "special file" in outcome.problem


def test_a_run_may_be_reached_through_a_link_and_keep_the_links_of_wandb(
    longhaul: Longhaul, run: RunDirectory, tmp_path: Path
) -> None:
    (run.path / "wandb" / "run-1").mkdir(parents=True)
    (run.path / "wandb" / "latest-run").symlink_to("run-1")
    (run.path / "wandb" / "run-1" / "debug-core.log").symlink_to(tmp_path / "cache.log")
    reached = tmp_path / "reached"
    reached.symlink_to(run.path)
    assert longhaul("resume", reached).code == 0


def test_logs_locks_and_replaced_files_are_opened_without_following_links(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine\n")
    for name in ("log.jsonl", "lock", ".file.tmp"):
        (tmp_path / name).symlink_to(victim)
    with pytest.raises(ConfigError, match="symbolic link"):
        LogWriter(tmp_path / "log.jsonl")
    with pytest.raises(ConfigError, match="symbolic link"):
        RunLock(tmp_path / "lock", Clocks())
    with pytest.raises(ConfigError, match="symbolic link"), storage_errors(tmp_path):
        replace_file(tmp_path / "file", b"theirs")
    with pytest.raises(ConfigError, match="symbolic link"), storage_errors(tmp_path):
        cut_log(tmp_path / "log.jsonl", 0)
    assert victim.read_text() == "mine\n"


def test_escape_codes_in_names_are_shown_instead_of_obeyed(
    longhaul: Longhaul, run: RunDirectory
) -> None:
    (run.path / "\x1b[2Jcleared").symlink_to("/dev/null")
    outcome = longhaul("resume", run.path)
    assert outcome.code == 2
    assert "\\x1b[2Jcleared is a symbolic link" in outcome.problem

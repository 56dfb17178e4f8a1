"""Signals sent to a real trainer."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from longhaul.runs.checkpoints.inspect import list_checkpoints, verify
from longhaul.runs.directory import RunDirectory, Status
from longhaul.runs.reader import list_runs, read_metrics, read_sessions
from longhaul.runs.score import read_final_score
from tests.app.small import CARTPOLE, flags
from tests.cli.conftest import Longhaul

ROOT = Path(__file__).resolve().parents[2]
ENDLESS = flags("total_timesteps=1000000000", "checkpoint.every_seconds=0")


@contextmanager
def trainer(*arguments: str | Path, module: str = "longhaul") -> Iterator[subprocess.Popen[str]]:
    """Start a trainer; whatever the test does, it is gone in the end."""
    with subprocess.Popen(
        [sys.executable, "-m", module, "train", *map(str, arguments)],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def wait_until(condition: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    """Look at the files the trainer writes until they are as wanted."""
    while not condition():
        try:
            process.wait(timeout=0.05)
        except subprocess.TimeoutExpired:
            continue
        raise AssertionError(f"the trainer ended early: {process.communicate()[1]}")


def rows(root: Path) -> int:
    """Return the number of iterations the only run has recorded."""
    return sum(log.read_bytes().count(b"\n") for log in root.glob("*/*/metrics.jsonl"))


def end(process: subprocess.Popen[str], number: signal.Signals) -> tuple[int, str]:
    """Send a signal and return the exit code and what was said."""
    process.send_signal(number)
    said = process.communicate(timeout=60)[1]
    return process.returncode, said


def assert_clean_stop(run: RunDirectory, reason: str) -> None:
    """Check that the newest checkpoint is whole and holds everything that was recorded."""
    newest = list_checkpoints(run.checkpoints)[0]
    assert verify(newest).progress.iteration == len(read_metrics(run).rows)
    record = run.read_record()
    assert (record.status, record.reason) == (Status.STOPPED, reason)


def test_signals_save_and_stop_and_the_same_command_goes_on(tmp_path: Path) -> None:
    command = [CARTPOLE, *ENDLESS, "--runs-root", str(tmp_path)]
    with trainer(*command) as process:
        wait_until(lambda: rows(tmp_path) > 0, process)
        run = list_runs(tmp_path)[0].directory
        assert list_checkpoints(run.checkpoints) == []
        process.send_signal(signal.SIGUSR1)
        wait_until(lambda: len(list_checkpoints(run.checkpoints)) == 1, process)
        verify(list_checkpoints(run.checkpoints)[0])
        seen = rows(tmp_path)
        wait_until(lambda: rows(tmp_path) > seen, process)
        code, said = end(process, signal.SIGINT)
    assert code == 130
    assert f"stopped by SIGINT; `longhaul resume {run.path}` continues this run" in said
    assert "Traceback" not in said
    assert_clean_stop(run, "stopped by SIGINT")
    stopped_at = rows(tmp_path)

    with trainer(*command) as process:
        wait_until(lambda: rows(tmp_path) > stopped_at, process)
        code, said = end(process, signal.SIGTERM)
    assert code == 143
    assert "continuing from step-" in said
    assert "Traceback" not in said
    assert_clean_stop(run, "stopped by SIGTERM")
    events = [row["event"] for row in read_sessions(run).rows]
    assert events == ["started", "stopped", "resumed", "stopped"]


def test_a_second_interrupt_stops_at_once(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    option = f"options.kwargs.folder={str(tmp_path)!r}"
    task = "gym:tests.cli.blocking:Blocking-v0"
    with trainer(task, *ENDLESS, "--set", option, "--runs-root", runs) as process:
        wait_until((tmp_path / "heard-0").exists, process)
        process.send_signal(signal.SIGINT)
        wait_until((tmp_path / "heard-1").exists, process)
        code, said = end(process, signal.SIGINT)
    assert code == 130
    assert "Traceback" not in said
    assert "stopped at once by a second SIGINT; `longhaul resume " in said
    record = list_runs(runs)[0].record
    assert record.status is Status.STOPPED
    assert "second SIGINT" in record.reason


STAGES = {
    "set-up": "set-up",
    "final evaluation": "the final evaluation",
    "films": "the films",
    "report": "the report",
}
"""The stages beside training in which a run may be stopped, and how they are called."""


def staged(stage: str, folder: Path) -> list[str]:
    """Return the arguments of a run that waits in a stage."""
    runs = ("--runs-root", str(folder / "runs"))
    options = (f"options.kwargs.folder={str(folder)!r}", f"options.kwargs.stage={stage!r}")
    ending = ("evaluate.final_episodes=2", "report.at_end=true", "report.films=['worst']")
    return ["gym:tests.cli.blocking:Staged-v0", *flags(*options, *ending), *runs]


CODES = {signal.SIGINT: 130, signal.SIGTERM: 143}


@pytest.mark.parametrize(
    ("stage", "number"),
    [
        pytest.param(
            stage,
            number,
            id=f"{stage}-{number.name}",
            marks=[] if (stage == "final evaluation") or turn % 2 else [pytest.mark.thorough],
        )
        for turn, (stage, number) in enumerate(itertools.product(STAGES, CODES))
    ],
)
def test_every_stage_ends_by_its_code_and_the_same_command_goes_on(
    stage: str, number: signal.Signals, longhaul: Longhaul, tmp_path: Path
) -> None:
    command = staged(stage, tmp_path)
    module = "tests.cli.blocking" if stage == "report" else "longhaul"
    with trainer(*command, module=module) as process:
        wait_until((tmp_path / "reached").exists, process)
        (run,) = [one.directory for one in list_runs(tmp_path / "runs")]
        # The report says that the run is finished, which it is but for the report.
        expected = Status.FINISHED if stage == "report" else Status.RUNNING
        assert run.read_record().status is expected
        ended, said = end(process, number)
    reason = f"stopped by {number.name} during {STAGES[stage]}"
    assert ended == CODES[number]
    assert said.splitlines()[-1] == f"{reason}; `longhaul resume {run.path}` continues this run"
    assert "Traceback" not in said
    record = run.read_record()
    assert (record.status, record.reason) == (Status.STOPPED, reason)
    assert read_sessions(run).rows[-1]["reason"] == reason
    trained = run.metrics.read_bytes() if run.metrics.exists() else b""

    (tmp_path / "go").touch()
    outcome = longhaul("train", *command)
    assert outcome.code == 0, outcome.err
    assert [one.directory for one in list_runs(tmp_path / "runs")] == [run]
    assert run.read_record().status is Status.FINISHED
    assert run.metrics.read_bytes().startswith(trained)
    assert len(read_metrics(run).rows) == 3
    assert read_final_score(run) is not None
    assert run.report.exists()
    assert sorted(path.suffix for path in run.media.iterdir()) == [".json", ".mp4"]


def test_a_second_interrupt_ends_an_evaluation_at_once(tmp_path: Path) -> None:
    with trainer(*staged("careless evaluation", tmp_path)) as process:
        wait_until((tmp_path / "reached").exists, process)
        process.send_signal(signal.SIGINT)
        wait_until((tmp_path / "heard").exists, process)
        code, said = end(process, signal.SIGINT)
    assert code == 130
    assert "Traceback" not in said
    assert "stopped at once by a second SIGINT; `longhaul resume " in said
    record = list_runs(tmp_path / "runs")[0].record
    assert (record.status, record.reason) == (Status.STOPPED, "stopped at once by a second SIGINT")


ENDING = """
import atexit, sys, time

def end_slowly(self=None):
    sys.stdout.write("ending\\n")
    sys.stdout.flush()
    time.sleep(3)

{ending}

from longhaul.cli.main import main
sys.argv = ["longhaul", "train", "no-such-task"]
main()
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize(
    "ending",
    [
        pytest.param("atexit.register(end_slowly)", id="exit handlers"),
        # Python has given up its own handlers by then; native libraries end still later.
        pytest.param("last = type('Last', (), {'__del__': end_slowly})()", id="last objects"),
    ],
)
def test_a_signal_to_an_ending_command_does_not_change_its_exit_code(
    number: signal.Signals, ending: str
) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", ENDING.format(ending=ending)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        preexec_fn=hear_interrupts,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ending\n"
        process.send_signal(number)
        assert process.wait() == 2


SLOW_IMPORT = """
import pathlib, time
pathlib.Path({reached!r}).touch()
time.sleep(60)
"""


def hear_interrupts() -> None:
    """Undo what a shell does to jobs in its background: they and their children ignore SIGINT."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_the_command_is_imported_ends_it_by_its_code(
    number: signal.Signals, tmp_path: Path
) -> None:
    modules, reached, runs = tmp_path / "modules", tmp_path / "reached", tmp_path / "runs"
    modules.mkdir()
    (modules / "typer.py").write_text(SLOW_IMPORT.format(reached=str(reached)))
    with subprocess.Popen(
        [sys.executable, "-m", "longhaul", "train", CARTPOLE, "--runs-root", str(runs)],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(modules), *sys.path])},
        preexec_fn=hear_interrupts,
    ) as process:
        try:
            wait_until(reached.exists, process)
            code, said = end(process, number)
        finally:
            process.kill()
    assert code == CODES[number]
    assert said == ""
    assert not runs.exists()

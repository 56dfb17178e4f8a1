from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest

from longhaul.runs.checkpoints.inspect import read_latest, verify
from longhaul.runs.directory import RunDirectory, begin_record, create_run
from longhaul.runs.logs.jsonl import read_rows
from tests.runs.conftest import NOON
from tests.runs.saver import ITERATIONS, count_on


class Nursery:
    """The running saver."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        self.stdin: IO[bytes] = process.stdin
        self.stdout: IO[bytes] = process.stdout
        self.stderr: IO[bytes] = process.stderr

    def start(self, run: RunDirectory, *, kill_at: int | None, iterations: int) -> int:
        command = {"run": str(run.path), "kill_at": kill_at, "iterations": iterations}
        self.stdin.write(json.dumps(command).encode() + b"\n")
        self.stdin.flush()
        return int(self.stdout.readline())

    def exit_code(self) -> int:
        return int(self.stdout.readline())


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    # Unbuffered, so that each event is read when it happens.
    with subprocess.Popen(
        [sys.executable, "-m", "tests.runs.saver"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=Path(__file__).parents[2],
        bufsize=0,
    ) as process:
        yield Nursery(process)


def new_run(root: Path) -> RunDirectory:
    return create_run(root, begin_record("count", "it", 0, now=NOON, command=[]), "")


def assert_goes_on(run: RunDirectory) -> int:
    """Resume the run, check that nothing is lost or doubled, and return where it began."""
    recorder = count_on(run, 1)
    assert recorder.restoration.damaged == ()
    assert recorder.restoration.problems == ()
    rows = read_rows(run.metrics)
    count = len(rows.rows)
    assert rows.skipped == 0
    assert [row["iteration"] for row in rows.rows] == list(range(1, count + 1))
    assert all(row["train/updates"] == row["iteration"] for row in rows.rows)
    names = sorted(path.name for path in run.checkpoints.iterdir())
    assert not [name for name in names if name.startswith(".tmp")]
    newest = run.checkpoints / str(read_latest(run.checkpoints))
    assert verify(newest).progress.iteration == count
    begun = recorder.restoration.checkpoint
    return 0 if begun is None else int(begun.name.split("-")[1]) // 10


def test_a_kill_at_any_step_of_saving_loses_at_most_that_save(
    nursery: Nursery, tmp_path: Path
) -> None:
    iterations, reached = 3, []
    kill_at = 1
    while True:
        run = new_run(tmp_path / str(kill_at))
        nursery.start(run, kill_at=kill_at, iterations=iterations)
        code = nursery.exit_code()
        reached.append(assert_goes_on(run))
        if code == 0:
            break
        assert code == -signal.SIGKILL
        # Deaths of the first save are all tried; later ones look alike, so some are left out.
        kill_at += 1 if reached[-1] < 1 else 4
    assert reached == sorted(reached)
    assert set(reached) == set(range(iterations + 1))


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(10))
def test_a_kill_from_outside_at_any_moment_is_survived(
    nursery: Nursery, tmp_path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    run = new_run(tmp_path)
    reached = 0
    for _ in range(2):
        pid = nursery.start(run, kill_at=None, iterations=ITERATIONS)
        left = chance.randrange(1, 80)
        while left:
            left -= len(nursery.stderr.read(left))
        os.kill(pid, signal.SIGKILL)
        assert nursery.exit_code() == -signal.SIGKILL
        begun = assert_goes_on(run)
        assert begun >= reached
        reached = begun + 1

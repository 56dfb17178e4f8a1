from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from longhaul.core.control import Progress, View
from longhaul.core.env import Episode
from longhaul.core.errors import CheckpointError, ConfigError, NumericalError
from longhaul.core.parts import Recorded, RunListener
from longhaul.core.settings import Setting, Settings
from longhaul.core.state import State
from longhaul.runs.checkpoints.manifest import ForeignError, Stamp
from longhaul.runs.checkpoints.store import CheckpointStore
from longhaul.runs.config import CheckpointConfig
from longhaul.runs.directory import RunDirectory, Status
from longhaul.runs.lock import RunLock
from longhaul.runs.logs.jsonl import SessionLog, read_rows
from longhaul.runs.recorder import Recorder
from tests.runs.conftest import LEVELS, RATE, FakeClock
from tests.runs.sessions import Counter, Session

LOGS = ("metrics.jsonl", "episodes.jsonl", "events.jsonl")


Open = Callable[..., Session]


@pytest.fixture
def session(run: RunDirectory, clock: FakeClock) -> Iterator[Open]:
    opened: list[Session] = []

    def start(**options: Any) -> Session:
        if opened:
            opened[-1].end()
        opened.append(Session(run, clock, **options))
        return opened[-1]

    yield start
    for last in opened[-1:]:
        last.end()


def sessions(run: RunDirectory) -> list[dict[str, Any]]:
    return read_rows(run.sessions).rows


def test_an_iteration_is_one_row_per_thing_that_happened(run: RunDirectory, session: Open) -> None:
    session().iterate(2)
    assert read_rows(run.metrics).rows == [
        {
            "iteration": 1,
            "env_steps": 8,
            "episodes": 0,
            "train/loss": 1.0,
            "rollout/count": 1.0,
        },
        {
            "iteration": 2,
            "env_steps": 16,
            "episodes": 1,
            "train/loss": 0.5,
            "rollout/count": 2.0,
        },
    ]
    assert read_rows(run.episodes).rows[1] == {
        "iteration": 2,
        "env": 0,
        "number": 2,
        "seed": 7,
        "length": 8,
        "episode_return": 1.5,
        "reason": "end",
        "metrics": {"x": 2.0},
    }
    assert read_rows(run.events).rows == [
        {"iteration": 1, "env_steps": 8, "setting": "rate", "why": "it was due"}
    ]
    assert [row["iteration"] for row in read_rows(run.timings).rows] == [1, 2]


def test_a_fresh_run_starts_from_nothing(run: RunDirectory, session: Open) -> None:
    first = session()
    assert first.progress == Progress()
    assert first.recorder.restoration.checkpoint is None
    assert [row["event"] for row in sessions(run)] == ["started"]


@pytest.mark.parametrize("lost", [0, 1, 3])
def test_an_interrupted_run_leaves_the_logs_of_an_uninterrupted_one(
    run: RunDirectory, session: Open, tmp_path: Path, lost: int
) -> None:
    whole = session()
    whole.iterate(9)
    final = whole.save()
    expected = {name: (run.path / name).read_bytes() for name in LOGS}
    parts = {name: (final / name).read_bytes() for name in ("state.json",)}
    whole.end()

    for path in (run.metrics, run.episodes, run.events, run.timings):
        path.unlink()
    run.checkpoints.rename(tmp_path / "first")
    run.checkpoints.mkdir()
    first = session()
    first.iterate(4)
    first.save()
    saved = first.settings
    first.iterate(lost)
    second = session()
    assert second.progress == Progress(4, 32, 2)
    assert second.settings == saved
    assert second.part.count == 4
    second.iterate(5)
    final = second.save()
    assert {name: (run.path / name).read_bytes() for name in LOGS} == expected
    assert {name: (final / name).read_bytes() for name in parts} == parts


def test_lines_of_an_attempt_without_checkpoint_are_set_aside(
    run: RunDirectory, session: Open
) -> None:
    session().iterate(2)
    again = session()
    assert again.progress == Progress()
    assert read_rows(run.metrics).rows == []
    assert len(read_rows(run.crash / "metrics-1.jsonl").rows) == 2
    assert "metrics-1.jsonl" in sessions(run)[-1]["set_aside"]


def test_the_sessions_name_the_checkpoint_used_and_those_passed_over(
    run: RunDirectory, session: Open
) -> None:
    first = session()
    first.iterate()
    first.save()
    first.iterate()
    broken = first.save()
    (broken / "state.json").write_text("")
    second = session(versions={"torch": "3"})
    assert second.progress.iteration == 1
    row = sessions(run)[-1]
    assert row["event"] == "resumed"
    assert row["checkpoint"] == "step-000000000008"
    ((name, reason),) = [(one["name"], one["reason"]) for one in row["damaged"]]
    assert name == broken.name == "step-000000000016"
    assert reason.startswith("state.json has 0 bytes")
    assert row["changed_versions"] == ["torch 2 -> 3"]
    assert broken.exists()


def test_a_changed_log_is_reported_and_its_sound_lines_stay(
    run: RunDirectory, session: Open
) -> None:
    first = session()
    first.iterate(3)
    first.save()
    first.iterate()
    lines = run.metrics.read_bytes().splitlines(keepends=True)
    run.metrics.write_bytes(b"".join([lines[0], b"garbage\n", lines[2], lines[3]]))
    second = session()
    (problem,) = second.recorder.restoration.problems
    assert problem.kept == 2
    assert [row["iteration"] for row in read_rows(run.metrics).rows] == [1, 3]
    (told,) = sessions(run)[-1]["log_problems"]
    assert told["log"] == "metrics.jsonl"
    assert (run.crash / told["copy"]).read_bytes().count(b"garbage") == 1
    second.iterate()
    assert [row["iteration"] for row in read_rows(run.metrics).rows] == [1, 3, 4]


def test_the_logs_that_are_compared_hold_no_clock_and_no_pid(
    run: RunDirectory, session: Open
) -> None:
    running = session()
    running.iterate(2)
    running.recorder.note("signal", name="SIGUSR1")
    text = b"".join((run.path / name).read_bytes() for name in LOGS)
    assert not re.search(rb"time|pid|1000\.", text)
    assert sessions(run)[-1]["name"] == "SIGUSR1"


def test_a_number_that_is_not_finite_is_refused_before_anything_is_written(
    run: RunDirectory, session: Open
) -> None:
    running = session()
    bad = Episode(0, 1, 7, 8, float("nan"), "end")
    view = View(Progress(1, 8, 1), {"train/loss": 1.0}, running.settings)
    with pytest.raises(NumericalError, match="episode_return = nan"):
        running.recorder.record(view, [], [bad], {})
    assert run.metrics.read_bytes() == b""


def test_a_checkpoint_is_due_after_iterations(session: Open) -> None:
    running = session(every_iterations=2, every_seconds=0.0)
    assert not running.recorder.due(Progress(1, 8, 0))
    assert running.recorder.due(Progress(2, 16, 0))
    running.iterate(2)
    running.save()
    assert not running.recorder.due(Progress(3, 24, 0))
    assert running.recorder.due(Progress(4, 32, 0))


def test_a_checkpoint_is_due_after_seconds(session: Open, clock: FakeClock) -> None:
    running = session(every_seconds=5.0)
    running.iterate()
    assert not running.recorder.due(running.progress)
    clock.seconds += 5.0
    assert running.recorder.due(running.progress)
    running.save()
    assert not running.recorder.due(running.progress)


def test_a_requested_checkpoint_is_due_once(session: Open) -> None:
    running = session(every_seconds=0.0)
    running.iterate()
    assert not running.recorder.due(running.progress)
    running.recorder.request()
    assert running.recorder.due(running.progress)
    running.save()
    assert not running.recorder.due(running.progress)


class ListSink(RunListener):
    def __init__(self) -> None:
        self.rows: list[tuple[int, dict[str, float]]] = []
        self.closed = False

    def iteration(self, recorded: Recorded) -> None:
        self.rows.append((recorded.progress.iteration, dict(recorded.values)))

    def close(self) -> None:
        self.closed = True


class BrokenSink(RunListener):
    def iteration(self, recorded: Recorded) -> None:
        raise RuntimeError("the server is gone")

    def close(self) -> None:
        raise RuntimeError("the server is gone")


class BrokenAtTheStart(ListSink):
    def begin(self, progress: Progress) -> None:
        raise RuntimeError("the server is gone")


class Refusing(RunListener):
    def begin(self, progress: Progress) -> None:
        raise ConfigError("not this run")


class BrokenAtTheEnd(ListSink):
    def close(self) -> None:
        raise OSError("full")


def test_listeners_see_metrics_and_timings_and_cannot_stop_the_run(
    run: RunDirectory, session: Open
) -> None:
    good, late = ListSink(), BrokenAtTheStart()
    running = session(listeners=[BrokenSink(), good, late, BrokenAtTheEnd()])
    running.iterate(2)
    running.end()
    assert [number for number, _ in good.rows] == [1, 2]
    assert set(good.rows[0][1]) == {"train/loss", "rollout/count", "time/fps"}
    assert good.closed
    failures = [row for row in sessions(run) if row["event"] == "sink_failed"]
    assert [row["sink"] for row in failures] == ["BrokenAtTheStart", "BrokenSink"]
    assert not late.rows


def test_a_listener_may_refuse_a_run_before_its_first_step(session: Open) -> None:
    with pytest.raises(ConfigError, match="not this run"):
        session(listeners=[Refusing()])


def test_the_end_is_written_into_record_and_sessions(run: RunDirectory, session: Open) -> None:
    running = session()
    running.log.finish(Status.FINISHED, "total_timesteps reached")
    found = run.read_record()
    assert (found.status, found.reason) == (Status.FINISHED, "total_timesteps reached")
    assert sessions(run)[-1]["event"] == "finished"
    session()
    assert run.read_record().status is Status.RUNNING


def test_a_part_that_cannot_use_its_state_is_told_and_changes_no_log(
    run: RunDirectory, session: Open, clock: FakeClock
) -> None:
    class Other(Counter):
        def load_state_dict(self, state: State) -> None:
            self.count = state["missing"]

    first = session()
    first.iterate()
    first.save()
    first.iterate()
    first.end()
    before = run.metrics.read_bytes()
    with RunLock(run.lock, clock.clocks()) as lock:
        for parts, words in (
            ({"part": Other()}, "part cannot continue from checkpoint"),
            ({"other": Counter()}, "holds part, but this run has other"),
        ):
            store = CheckpointStore(
                run.checkpoints, CheckpointConfig(), Stamp({"task": "count"}), clock.clocks()
            )
            recorder = Recorder(run, parts, store, lock, SessionLog(run, clock.clocks()))
            with pytest.raises(CheckpointError, match=words):
                recorder.restore(Settings([RATE, LEVELS]))
            with pytest.raises(CheckpointError, match="'levels' is not declared"):
                recorder.restore(Settings([RATE, Setting("level", 1, "another")]))
            recorder.close()
    assert run.metrics.read_bytes() == before


def test_a_checkpoint_of_another_task_is_refused(
    run: RunDirectory, session: Open, clock: FakeClock
) -> None:
    first = session()
    first.iterate()
    first.save()
    first.end()
    store = CheckpointStore(
        run.checkpoints, CheckpointConfig(), Stamp({"task": "other"}), clock.clocks()
    )
    with RunLock(run.lock, clock.clocks()) as lock:
        log = SessionLog(run, clock.clocks())
        recorder = Recorder(run, {"part": Counter()}, store, lock, log)
        with pytest.raises(ForeignError, match="task 'count'"):
            recorder.restore(Settings([RATE]))
        recorder.close()


def test_readers_do_without_torch() -> None:
    code = (
        "import sys, json, longhaul.runs.reader, longhaul.runs.directory, longhaul.runs.toml;"
        "json.dump([name for name in ('torch', 'safetensors') if name in sys.modules], sys.stdout)"
    )
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout
    assert json.loads(output) == []

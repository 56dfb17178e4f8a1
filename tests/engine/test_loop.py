"""The loop turns its parts in order; the parts here only write down that they were turned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import pytest

from longhaul.core.control import Decision, Progress, RunLength, View
from longhaul.core.env import Episode
from longhaul.core.metrics import Metrics
from longhaul.core.parts import Event
from longhaul.core.rollout import Rollout
from longhaul.core.seeds import Seeds
from longhaul.core.settings import Setting, Settings
from longhaul.core.state import State
from longhaul.engine.collector import RolloutCollector
from longhaul.engine.loop import Parts, train
from longhaul.engine.stop import after_iterations, at_the_end, first_of
from longhaul.engine.summary import StageTimer, Summary
from longhaul.runs.recorder import Recorder
from longhaul.schedule.schedule import Schedule
from tests.engine.diary import DiaryPolicy, diaries

LEVEL = Setting("level", 0, "raised after every iteration")


@dataclass
class Diary:
    """What happened, in order."""

    lines: list[str] = field(default_factory=list)

    def write(self, line: str) -> None:
        self.lines.append(line)


@dataclass
class FakeCollector:
    diary: Diary
    rollout: Rollout
    seen: list[Settings] = field(default_factory=list)

    def collect(self, settings: Settings) -> Rollout:
        self.diary.write("collect")
        self.seen.append(settings)
        return self.rollout

    def timings(self) -> Metrics:
        return {}

    def close(self) -> None:
        self.diary.write("close")

    def state_dict(self) -> State:
        return {}

    def load_state_dict(self, state: State) -> None:
        pass


@dataclass
class FakeLearner:
    diary: Diary
    seen: list[tuple[Rollout, Settings]] = field(default_factory=list)

    def update(self, rollout: Rollout, settings: Settings) -> Metrics:
        self.diary.write("learn")
        self.seen.append((rollout, settings))
        return {"train/loss": float(len(self.seen))}

    def state_dict(self) -> State:
        return {}

    def load_state_dict(self, state: State) -> None:
        pass


@dataclass
class FakeEvaluator:
    diary: Diary
    every: int = 2

    def due(self, progress: Progress) -> bool:
        return progress.iteration % self.every == 0

    def measure(self, progress: Progress, settings: Settings) -> Metrics:
        self.diary.write("evaluate")
        return {"eval/mean_reward": float(progress.iteration)}

    def take_notes(self) -> tuple[Event, ...]:
        return (Evaluated(),) if self.diary.lines[-1] == "evaluate" else ()


@dataclass(frozen=True)
class Evaluated:
    """A note of the evaluator's own."""

    def as_row(self) -> dict[str, Any]:
        return {"event": "evaluated"}


@dataclass(frozen=True)
class Raise:
    """A controller that raises the level and says by how much it saw."""

    name: str = "raise"
    reads: tuple[str, ...] = ("train/loss",)
    writes: tuple[str, ...] = ("level",)

    def initial(self) -> int:
        return 0

    def decide(self, state: int, view: View) -> Decision[int]:
        level = LEVEL.to(view.settings[LEVEL] + 1)
        seen = {"gate/seen_loss": view.metrics["train/loss"]}
        return Decision(state + 1, (level,), "another iteration", seen)


@dataclass
class FakeRecorder:
    diary: Diary
    begin: Progress = field(default_factory=Progress)
    begin_level: int = 0
    every: int = 3
    records: list[View] = field(default_factory=list)
    changes: list[int] = field(default_factory=list)
    timings: list[Metrics] = field(default_factory=list)
    saved: list[tuple[Progress, int]] = field(default_factory=list)
    kept: list[Progress] = field(default_factory=list)

    def restore(self, settings: Settings) -> tuple[Progress, Settings]:
        self.diary.write("restore")
        return self.begin, settings.with_([LEVEL.to(self.begin_level)])

    def record(
        self,
        view: View,
        changes: Sequence[Event],
        episodes: Sequence[Episode],
        timings: Metrics,
    ) -> None:
        self.diary.write("record")
        self.records.append(view)
        self.changes.append(len(changes))
        self.timings.append(timings)

    def due(self, progress: Progress) -> bool:
        return progress.iteration % self.every == 0

    def checkpoint(self, progress: Progress, settings: Settings) -> None:
        self.diary.write("checkpoint")
        self.saved.append((progress, settings[LEVEL]))

    def keep(self, progress: Progress, settings: Settings) -> None:
        self.kept.append(progress)


@dataclass
class Run:
    """All fakes of a run, and the parts made of them."""

    rollout: Rollout
    recorder: FakeRecorder = field(default_factory=lambda: FakeRecorder(Diary()))

    def __post_init__(self) -> None:
        self.diary = self.recorder.diary
        self.settings = Settings([LEVEL])
        self.collector = FakeCollector(self.diary, self.rollout)
        self.learner = FakeLearner(self.diary)
        self.parts = Parts(
            self.collector,
            self.learner,
            Summary(lambda episodes: {"env/mine": 1.0}),
            FakeEvaluator(self.diary),
            Schedule([Raise()], self.settings),
            # The loop needs four methods of it; a real one needs a run directory and its lock.
            cast(Recorder, self.recorder),
            StageTimer(clock=lambda: 0.0),
        )


@pytest.fixture
def rollout() -> Rollout:
    return RolloutCollector(diaries(1), DiaryPolicy(), Seeds(1), steps=9, chunk=0).collect(
        Settings([])
    )


@pytest.fixture
def run(rollout: Rollout) -> Run:
    return Run(rollout)


def test_the_parts_are_turned_in_order(run: Run) -> None:
    assert train(run.parts, run.settings, after_iterations(3)) == "3 iterations made"
    assert run.diary.lines == [
        "restore",
        *("collect", "learn", "record"),
        *("collect", "learn", "evaluate", "record"),
        *("collect", "learn", "record", "checkpoint"),
        "checkpoint",
    ]  # fmt: skip


def test_a_run_that_has_nothing_left_to_do_only_saves(run: Run) -> None:
    assert train(run.parts, run.settings, lambda progress: "enough") == "enough"
    assert run.diary.lines == ["restore", "checkpoint"]


def test_progress_counts_what_was_collected(run: Run) -> None:
    train(run.parts, run.settings, after_iterations(2))
    one = run.rollout
    assert [view.progress for view in run.recorder.records] == [
        Progress(1, one.env_steps, len(one.episodes)),
        Progress(2, 2 * one.env_steps, 2 * len(one.episodes)),
    ]
    assert len(one.episodes) > 0


def test_the_run_stops_for_the_reason_that_comes_first(run: Run) -> None:
    steps = run.rollout.env_steps
    until = first_of(after_iterations(9), at_the_end(RunLength(2 * steps)))
    assert train(run.parts, run.settings, until) == "total_timesteps reached"
    assert len(run.recorder.records) == 2


def test_the_loop_begins_from_restored_progress_and_settings(rollout: Rollout) -> None:
    run = Run(rollout, FakeRecorder(Diary(), begin=Progress(40, 1000, 7), begin_level=40))
    train(run.parts, run.settings, after_iterations(41))
    assert run.recorder.records[0].progress.iteration == 41
    assert run.recorder.records[0].progress.env_steps == 1000 + rollout.env_steps
    assert run.collector.seen[0][LEVEL] == 40


def test_settings_change_after_an_iteration_and_never_within(run: Run) -> None:
    train(run.parts, run.settings, after_iterations(3))
    assert [settings[LEVEL] for settings in run.collector.seen] == [0, 1, 2]
    assert [settings[LEVEL] for _, settings in run.learner.seen] == [0, 1, 2]
    assert [view.settings[LEVEL] for view in run.recorder.records] == [0, 1, 2]


def test_checkpoints_hold_the_settings_of_the_iteration_to_come(run: Run) -> None:
    train(run.parts, run.settings, after_iterations(4))
    assert [(progress.iteration, level) for progress, level in run.recorder.saved] == [
        (3, 3),
        (4, 4),
    ]


def test_everything_measured_is_recorded_together(run: Run) -> None:
    train(run.parts, run.settings, after_iterations(2))
    first, second = (view.metrics for view in run.recorder.records)
    assert first["train/loss"] == 1.0
    assert first["env/mine"] == 1.0
    assert "rollout/ep_rew_mean" in first
    assert "eval/mean_reward" not in first
    assert second["eval/mean_reward"] == 2.0
    assert second["gate/seen_loss"] == 2.0
    assert run.recorder.changes == [1, 2], "the evaluation has something to tell"


def test_what_the_clock_says_stays_out_of_what_decides(run: Run) -> None:
    """A decision over fps would make a resumed run another run."""
    train(run.parts, run.settings, after_iterations(1))
    by_the_clock = set(run.recorder.timings[0])
    assert {"time/fps", "time/collect_seconds"} <= by_the_clock
    assert not by_the_clock & set(run.recorder.records[0].metrics)


def test_the_learner_gets_the_very_rollout_that_was_collected(run: Run) -> None:
    train(run.parts, run.settings, after_iterations(1))
    assert run.learner.seen[0][0] is run.rollout


def test_a_failure_saves_nothing(run: Run) -> None:
    class Broken(FakeLearner):
        def update(self, rollout: Rollout, settings: Settings) -> Metrics:
            raise ZeroDivisionError

    parts = replace(run.parts, learner=Broken(run.diary))
    with pytest.raises(ZeroDivisionError):
        train(parts, run.settings, after_iterations(3))
    assert run.diary.lines == ["restore", "collect"]

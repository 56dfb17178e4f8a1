"""Listeners: they stop a run, change its settings, log metrics, and are resumed exactly."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import longhaul
from longhaul.core.parts import Recorded, RunControl
from tests.test_api import SMALL

TASK = "gym:CartPole-v1"


class Steers(longhaul.RunListener):
    """Logs a metric, changes a setting in the second iteration, and may stop in a later one."""

    def __init__(self, stop_at: int = 0, setting: str = "learn.ent_coef") -> None:
        self.stop_at, self.setting, self.seen = stop_at, setting, 0

    def steer(self, run: RunControl) -> None:
        self.seen += 1
        run.log("mine/seen", self.seen)
        if run.progress.iteration == 2:
            run.set(self.setting, 0.02)
        if run.progress.iteration == self.stop_at:
            run.stop("that is enough")

    def state_dict(self) -> dict[str, Any]:
        return {"seen": self.seen}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.seen = state["seen"]


@pytest.fixture
def train(tmp_path: Path) -> Callable[..., longhaul.Run]:
    return functools.partial(longhaul.train, TASK, runs_root=tmp_path, quiet=True, **SMALL)


def test_a_listener_stops_a_run_changes_a_setting_and_logs_a_metric(
    train: Callable[..., longhaul.Run],
) -> None:
    run = train(listeners=[Steers(stop_at=4)])
    assert run.outcome is not None
    assert run.outcome.is_finished
    assert run.outcome.reason == "ended by the listener Steers: that is enough"
    assert run.metrics("mine/seen", table="arrays")["mine/seen"].tolist() == [1, 2, 3, 4]
    place = {"iteration": 2, "env_steps": 512, "event": "listener", "listener": "Steers"}
    move = {"setting": "learn.ent_coef", "old": 0.0, "new": 0.02}
    first, last = (row for row in run.events() if row["event"] == "listener")
    assert first == {**place, "moves": [move], "stop": ""}
    assert (last["iteration"], last["stop"]) == (4, "that is enough")
    assert run.agent().settings.values()["learn.ent_coef"] == 0.02
    assert (run.path / "evaluations").is_dir()


def logs(run: longhaul.Run) -> list[bytes]:
    return [(run.path / f"{name}.jsonl").read_bytes() for name in ("metrics", "events", "episodes")]


class Breaks(longhaul.RunListener):
    """Ends the process, as far as the run can tell, after some iterations."""

    def __init__(self, at: int) -> None:
        self.at = at

    def steer(self, run: RunControl) -> None:
        if run.progress.iteration == self.at:
            raise KeyboardInterrupt


def test_a_resumed_run_with_the_same_listener_is_the_same_run(
    train: Callable[..., longhaul.Run], tmp_path: Path
) -> None:
    whole = train(listeners=[Steers(stop_at=6)])
    broken = functools.partial(
        train, runs_root=tmp_path / "broken", checkpoint={"every_iterations": 1}
    )
    with pytest.raises(KeyboardInterrupt):
        broken(listeners=[Steers(stop_at=6), Breaks(at=4)])
    assert logs(broken(listeners=[Steers(stop_at=6)])) == logs(whole)


def test_a_run_that_goes_on_without_its_listener_says_so(
    train: Callable[..., longhaul.Run], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    run = train(listeners=[Steers(stop_at=4)])
    capfd.readouterr()
    assert longhaul.resume(run.path).metrics(table="arrays")["env_steps"][-1] == 2048
    assert "this run was trained with listeners" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("listener", "problem"),
    [
        (Steers(setting="ent_coef"), "did you mean 'learn.ent_coef'"),
        (Steers(setting="learn.learning_rate"), "which schedule.rate writes"),
    ],
)
def test_a_setting_that_cannot_be_changed_is_refused(
    listener: Steers, problem: str, train: Callable[..., longhaul.Run]
) -> None:
    ramp = {"kind": "ramp", "name": "rate", "setting": "learn.learning_rate", "end": 0.0}
    with pytest.raises(longhaul.LonghaulError, match=problem):
        train(listeners=[listener], schedule=[{**ramp, "along": "run"}])


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("train/loss", 1.0, "which the run measures itself"),
        ("mine/x", float("nan"), "logs mine/x = nan, which is not finite"),
    ],
)
def test_a_metric_that_cannot_be_logged_is_refused(
    name: str, value: float, problem: str, train: Callable[..., longhaul.Run]
) -> None:
    class Logs(longhaul.RunListener):
        def steer(self, run: RunControl) -> None:
            run.log(name, value)

    with pytest.raises(longhaul.LonghaulError, match=problem):
        train(listeners=[Logs()])


def test_an_error_while_looking_on_removes_the_listener_and_is_reported(
    train: Callable[..., longhaul.Run], capfd: pytest.CaptureFixture[str]
) -> None:
    class Fails(longhaul.RunListener):
        def iteration(self, recorded: Recorded) -> None:
            raise ValueError("no disk")

    run = train(listeners=[Fails(), Fails()], quiet=False)
    assert run.outcome is not None
    assert run.outcome.is_finished
    said = capfd.readouterr().err
    assert "the listener Fails failed and is not called any more: ValueError('no disk')" in said
    assert said.count("Fails-2") == 1

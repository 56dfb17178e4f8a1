from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from longhaul.app.build.components import build_task
from longhaul.app.build.config import SessionOptions
from longhaul.app.build.metrics import declared_metrics, declares, registry
from longhaul.app.build.sources import ConfigSources, resolve
from longhaul.app.session.run import run_session
from longhaul.app.session.start import begin_run
from longhaul.core.metrics import Metric
from longhaul.core.settings import Setting
from longhaul.engine.loop import after_iterations
from longhaul.runs.logs.jsonl import read_rows, read_schema
from longhaul.schedule.config import METRICS as SCHEDULE_METRICS
from longhaul.schedule.criterion import Criterion
from longhaul.schedule.gate import Gate
from longhaul.schedule.phases import Phase, Phases
from longhaul.schedule.start_queue import StartQueue, StartStage
from tests.app.small import finished_run

COUNTERS = {"iteration", "env_steps", "episodes"}
SMALL = ("num_envs=4", "collect.num_steps=16", "evaluate.every_iterations=2", "evaluate.episodes=2")
STAGE = Setting("stage", 0, "a stage", low=0)
STARTS: Setting[Any] = Setting("starts", (), "starts")


@pytest.mark.parametrize(
    ("task", "overrides"),
    [
        ("gym:CartPole-v1", ()),
        ("gym:CartPole-v1", ("learn.algorithm=vtrace", "collect.overlap=true")),
        ("gym:Pendulum-v1", ("learn.target_kl=1e-9",)),
        ("probe:chase", ()),
        ("probe:recall", ("policy.core=gru", "learn.algorithm=vtrace")),
    ],
)
def test_a_run_writes_no_metric_that_is_not_declared(
    task: str, overrides: tuple[str, ...], tmp_path: Path
) -> None:
    config = resolve(ConfigSources(task=task, overrides=(*SMALL, *overrides)))
    run = begin_run(config, tmp_path).directory
    run_session(run, config, SessionOptions(quiet=True), also_until=after_iterations(4))
    declared = declared_metrics([build_task(config)])
    rows = [*read_rows(run.metrics).rows, *read_rows(run.timings).rows]
    names = {name for row in rows for name in row} - COUNTERS
    assert {"train/loss", "eval/mean_reward", "time/fps"} <= names
    assert {n for n in names if not any(declares(metric, n) for metric in declared)} == set()


@pytest.mark.parametrize(
    "controller",
    [
        Gate("climb", STAGE, stages=2, success=(Criterion("eval/mean_reward", ">", 0.0),)),
        Phases("warm", (Phase("first", 0.0, assign=(STAGE.to(1),)),)),
        StartQueue(
            "queue", STARTS, "starts/used", stages=(StartStage(4, (1, 2), "hard"),), batch=2
        ),
    ],
    ids=lambda controller: type(controller).__name__,
)
def test_controllers_bring_only_declared_metrics(controller: Gate | Phases | StartQueue) -> None:
    for name in controller.emits:
        assert any(declares(metric, name) for metric in SCHEDULE_METRICS), name


def test_the_registry_tells_group_task_and_log() -> None:
    found = {one.name: one for one in registry([build_task(resolve(ConfigSources(task="fish")))])}
    assert found["train/loss"].group == "train"
    assert found["train/loss"].task == ""
    assert found["time/fps"].log == "timings"
    assert found["env/survival_rate"].task == "fish"
    assert all(one.meaning for one in found.values())


def test_a_run_leaves_its_schema_beside_its_rows(tmp_path: Path) -> None:
    run = finished_run(tmp_path)
    schema = json.loads(run.schema.read_text())
    assert schema["schema"] == read_schema(run)
    assert schema["metrics"]["time/fps"]["unit"] == "steps/s"


def test_every_metric_is_declared_once() -> None:
    names = [metric.name for metric in declared_metrics(())]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    ("declaration", "name"),
    [
        ("train/loss", "train/loss"),
        ("reward/<term>_share", "reward/step_cost_share"),
        ("gate/<name>_stage", "gate/a.b_stage"),
    ],
)
def test_words_in_angle_brackets_stand_for_anything(declaration: str, name: str) -> None:
    assert declares(Metric(declaration, "some meaning"), name)


@pytest.mark.parametrize(
    ("declaration", "name"),
    [
        ("train/loss", "train/losses"),
        ("reward/<term>_share", "reward/_share"),
        ("gate/<name>_stage", "gate/ab_held"),
    ],
)
def test_a_metric_declares_no_other_name(declaration: str, name: str) -> None:
    assert not declares(Metric(declaration, "some meaning"), name)

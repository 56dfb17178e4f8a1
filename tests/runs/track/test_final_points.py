"""The final evaluation at the boundary to W&B and MLflow, whose packages are stood in for."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from longhaul.core.control import Progress
from longhaul.runs.track.tracker import Point
from tests.runs.track.fakes import subject

BOUNDARY = ("longhaul.runs.track.weights_and_biases", "longhaul.runs.track.mlflow")
FINAL = Point(96, 1.0, {"eval/mean_reward": 5.0}, is_final=True)


@pytest.fixture(autouse=True)
def _fresh_imports() -> Iterator[None]:
    kept = {name: sys.modules.pop(name) for name in BOUNDARY if name in sys.modules}
    yield
    for name in BOUNDARY:
        sys.modules.pop(name, None)
    sys.modules.update(kept)


class WandbRun:
    """A run of W&B that was resumed after so many steps."""

    def __init__(self, step: int) -> None:
        self.step = step
        self.resumed = step > 0
        self.summary: dict[str, float] = {}
        self.logged: list[tuple[int, dict[str, Any]]] = []

    def log(self, values: dict[str, Any], step: int) -> None:
        self.logged.append((step, values))


@pytest.mark.parametrize("resumed_at", [0, 97])
def test_wandb_has_it_in_the_summary_and_in_the_curve_while_its_step_is_open(
    resumed_at: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = WandbRun(resumed_at)
    package = ModuleType("wandb")
    vars(package).update(init=lambda **options: run, Settings=dict)
    monkeypatch.setitem(sys.modules, "wandb", package)
    from longhaul.runs.track.weights_and_biases import WeightsAndBiases

    tracker = WeightsAndBiases(subject(tmp_path), "longhaul")
    tracker.open(Progress(3, 96, 0))
    tracker.write(FINAL)
    assert run.summary == FINAL.scalars
    assert run.logged == ([] if resumed_at else [(96, FINAL.scalars)])


def test_mlflow_has_it_although_its_step_was_told_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    logged: list[Any] = []
    client = SimpleNamespace(
        get_experiment_by_name=lambda name: SimpleNamespace(experiment_id="1"),
        search_runs=lambda *asked: [SimpleNamespace(info=SimpleNamespace(run_id="r"))],
        update_run=lambda *asked, **options: None,
        get_metric_history=lambda *asked: [SimpleNamespace(step=96)],
        log_batch=lambda run, metrics: logged.extend(metrics),
    )
    package, entities = ModuleType("mlflow"), ModuleType("mlflow.entities")
    vars(package).update(MlflowClient=lambda tracking_uri: client)
    vars(entities).update(Metric=lambda *parts: parts, Param=lambda *parts: parts)
    monkeypatch.setitem(sys.modules, "mlflow", package)
    monkeypatch.setitem(sys.modules, "mlflow.entities", entities)
    from longhaul.runs.track.mlflow import MLflow

    tracker = MLflow(subject(tmp_path), "longhaul", "")
    assert tracker.open(Progress(3, 96, 0)) == 96
    tracker.write(Point(96, 1.0, {"train/loss": 1.0}))
    tracker.write(FINAL)
    assert logged == [("eval/mean_reward", 5.0, 1000, 96)]

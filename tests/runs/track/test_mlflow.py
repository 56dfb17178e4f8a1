"""MLflow's real package with its file store, read back with its own client."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from longhaul.core.control import Progress
from longhaul.runs.track.tracker import Point
from tests.runs.track.fakes import subject

pytestmark = [
    # What the package's own dependencies warn of is not ours to mend.
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.slow,  # the package takes seconds to import
]


@pytest.fixture
def mlflow(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    return pytest.importorskip("mlflow")


def write(tracker: Any, first: int, last: int) -> None:
    for iteration in range(first, last + 1):
        scalars = {
            "train/loss": 1 / iteration,
            "iteration": float(iteration),
            "env/clear_rate": 0.5,
            "env/clear_rate/1-1": 0.25,
        }
        tracker.write(Point(8 * iteration, 1000.0, scalars, {"w": np.ones(2, np.float32)}))


def test_a_run_that_goes_on_has_every_point_once(mlflow: Any, tmp_path: Path) -> None:
    from longhaul.runs.track.mlflow import MLflow

    uri = (tmp_path / "store").as_uri()
    first = MLflow(subject(tmp_path), "longhaul", uri)
    assert first.open(Progress()) == -1
    write(first, 1, 6)
    first.close()
    second = MLflow(subject(tmp_path), "longhaul", uri)
    # The checkpoint was taken after iteration 4; 5 and 6 are made again.
    assert second.open(Progress(4, 32, 0)) == 48
    write(second, 5, 8)
    second.close()
    client = mlflow.MlflowClient(uri)
    (found,) = client.search_runs([client.get_experiment_by_name("longhaul").experiment_id])
    told = client.get_metric_history(found.info.run_id, "train/loss")
    assert sorted((one.step, one.value) for one in told) == [(8 * i, 1 / i) for i in range(1, 9)]
    assert found.data.metrics["env/clear_rate.1-1"] == 0.25
    assert found.data.params == {"seed": "3", "learn.n_epochs": "4"}
    assert found.info.status == "FINISHED"


def test_films_are_kept_as_artifacts(mlflow: Any, tmp_path: Path) -> None:
    from longhaul.runs.track.mlflow import MLflow

    uri = (tmp_path / "store").as_uri()
    film = tmp_path / "film.mp4"
    film.write_bytes(b"film")
    tracker = MLflow(subject(tmp_path), "longhaul", uri)
    tracker.open(Progress())
    tracker.write(Point(8, 1.0, films={"eval/film": film}))
    tracker.close()
    client = mlflow.MlflowClient(uri)
    (found,) = client.search_runs([client.get_experiment_by_name("longhaul").experiment_id])
    (kept,) = client.list_artifacts(found.info.run_id, "films")
    assert kept.path == "films/film.mp4"

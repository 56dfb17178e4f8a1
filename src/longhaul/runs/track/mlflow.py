"""MLflow: a run in its folder or on its server, found again by a tag."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from longhaul.core.config import flatten
from longhaul.core.control import Progress
from longhaul.runs.track.tracker import NOTHING, MissingPackageError, Point, Subject, Tracker

try:
    from mlflow import MlflowClient
    from mlflow.entities import Metric, Param
except ModuleNotFoundError as error:
    raise MissingPackageError("mlflow", "mlflow") from error

TAG = "longhaul.id"
MOST_METRICS, MOST_PARAMS, LONGEST_PARAM = 1000, 100, 500
"""Limits of one call of MLflow."""


class MLflow(Tracker):
    """Sends points to one MLflow run, which every process of our run continues."""

    def __init__(self, subject: Subject, project: str, uri: str) -> None:
        self._subject = subject
        self._project = project
        self._uri = uri
        self._client: Any = None
        self._run = ""
        self._known = NOTHING

    def open(self, progress: Progress) -> int:
        """Continue the run that has our tag, or start one.

        Points sent after the checkpoint stay, because MLflow cannot delete them; the resumed run
        makes the same points again, and those are skipped.
        """
        # The default retries an absent server for minutes; meanwhile points would be dropped.
        os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "2")
        self._client = MlflowClient(tracking_uri=self._uri or None)
        experiment = self._client.get_experiment_by_name(self._project)
        number = (
            self._client.create_experiment(self._project)
            if experiment is None
            else experiment.experiment_id
        )
        found = self._client.search_runs([number], f"tags.`{TAG}` = '{self._subject.id}'")
        if found:
            self._run = found[0].info.run_id
            self._client.update_run(self._run, status="RUNNING")
            sent = self._client.get_metric_history(self._run, "iteration")
            self._known = max((metric.step for metric in sent), default=NOTHING)
            return self._known
        tags = {TAG: self._subject.id, "task": self._subject.task}
        name = f"{self._subject.name}-s{self._subject.seed}"
        self._run = self._client.create_run(number, tags=tags, run_name=name).info.run_id
        config = flatten(self._subject.config)
        params = [Param(key, str(value)[:LONGEST_PARAM]) for key, value in config.items()]
        for begin in range(0, len(params), MOST_PARAMS):
            self._client.log_batch(self._run, params=params[begin : begin + MOST_PARAMS])
        return self._known

    def write(self, point: Point) -> None:
        """Log the numbers of a moment, and keep its films; MLflow has no histograms."""
        if point.scalars and (point.is_final or point.env_steps > self._known):
            moment = round(1000 * point.wall)
            metrics = [
                Metric(flat_name(name), value, moment, point.env_steps)
                for name, value in point.scalars.items()
            ]
            for begin in range(0, len(metrics), MOST_METRICS):
                self._client.log_batch(self._run, metrics=metrics[begin : begin + MOST_METRICS])
        for path in point.films.values():
            self._client.log_artifact(self._run, str(Path(path)), "films")

    def close(self) -> None:
        """Mark the run as ended; a process that continues it marks it as running again."""
        self._client.set_terminated(self._run)


def flat_name(name: str) -> str:
    """Return the name with at most one slash: MLflow stores names as paths."""
    group, slash, rest = name.partition("/")
    return group + slash + rest.replace("/", ".")

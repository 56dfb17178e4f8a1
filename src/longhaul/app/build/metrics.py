"""Every metric a run may write, collected from the packages that declare them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from longhaul.cluster.config import METRICS as CLUSTER_METRICS
from longhaul.core.metrics import Metric
from longhaul.core.task import Task
from longhaul.engine.config import METRICS as LOOP_METRICS
from longhaul.engine.config import TIMINGS as LOOP_TIMINGS
from longhaul.envs.path_starts import METRICS as PATH_METRICS
from longhaul.learn.config import METRICS as LEARN_METRICS
from longhaul.nets.config import METRICS as POLICY_METRICS
from longhaul.runs.logs.jsonl import SCHEMA
from longhaul.runs.monitor.resources import METRICS as RESOURCE_METRICS
from longhaul.schedule.config import METRICS as SCHEDULE_METRICS
from longhaul.schedule.schedule import Schedule

GENERAL = (
    *LOOP_METRICS,
    *PATH_METRICS,
    *LEARN_METRICS,
    *POLICY_METRICS,
    *SCHEDULE_METRICS,
)
"""Metrics of metrics.jsonl that every task may write."""
TIMINGS = (*LOOP_TIMINGS, *RESOURCE_METRICS, *CLUSTER_METRICS)
"""Metrics of timings.jsonl."""

_PLACEHOLDER = re.compile(r"<[^<>]+>")


def declared_metrics(tasks: Iterable[Task]) -> tuple[Metric, ...]:
    """Return the metrics of runs of these tasks, including those of timings.jsonl."""
    own = dict.fromkeys(metric for task in tasks for metric in task.metrics)
    return (*GENERAL, *TIMINGS, *own)


def unmeasured_metrics(schedule: Schedule, task: Task) -> tuple[str, ...]:
    """Return a warning for every metric that a controller reads and the task does not measure."""
    declared = declared_metrics([task])
    known = [metric.name for metric in declared]
    reads = {name for controller in schedule.controllers for name in controller.reads}
    known += [name for name in reads if any(declares(metric, name) for metric in declared)]
    return schedule.unmeasured(known)


@dataclass(frozen=True, slots=True)
class Registered:
    """A metric as listed in schema.json and the reference."""

    name: str
    unit: str
    meaning: str
    group: str
    task: str
    """The task that measures it; empty for all of them."""
    log: str
    """`metrics`, or `timings` for values that depend on a clock."""


def registry(tasks: Iterable[Task]) -> tuple[Registered, ...]:
    """Return every metric that runs of these tasks may write."""
    general = [(metric, "", "metrics") for metric in GENERAL]
    general += [(metric, "", "timings") for metric in TIMINGS]
    own = [(metric, task.name, "metrics") for task in tasks for metric in task.metrics]
    return tuple(
        Registered(metric.name, metric.unit, metric.meaning, metric.group, task, log)
        for metric, task, log in dict.fromkeys([*general, *own])
    )


def schema_file(task: Task) -> dict[str, Any]:
    """Return the schema of a run's rows: its version and the meaning of every metric."""
    described = {}
    for one in registry([task]):
        facts = asdict(one)
        described[facts.pop("name")] = facts
    return {"schema": SCHEMA, "metrics": described}


def declares(metric: Metric, name: str) -> bool:
    """Whether `name` is this metric; `<words>` in a declaration match any text."""
    literal = _PLACEHOLDER.split(metric.name)
    return re.fullmatch(".+".join(map(re.escape, literal)), name) is not None

"""Every metric a run may write, gathered from the parts that measure them."""

from __future__ import annotations

import re
from collections.abc import Iterable

from longhaul.core.metrics import Metric
from longhaul.core.task import Task
from longhaul.engine.metrics import METRICS as LOOP_METRICS
from longhaul.engine.metrics import TIMINGS
from longhaul.learn.metrics import METRICS as LEARN_METRICS
from longhaul.nets.metrics import METRICS as POLICY_METRICS
from longhaul.schedule.metrics import METRICS as SCHEDULE_METRICS

GENERAL = (*LOOP_METRICS, *LEARN_METRICS, *POLICY_METRICS, *SCHEDULE_METRICS)
"""Metrics of metrics.jsonl that any task may bring."""

_PLACEHOLDER = re.compile(r"<[^<>]+>")


def declared_metrics(tasks: Iterable[Task]) -> tuple[Metric, ...]:
    """Return the declarations for runs of these tasks, those of timings.jsonl included."""
    own = dict.fromkeys(metric for task in tasks for metric in task.metrics)
    return (*GENERAL, *TIMINGS, *own)


def declares(metric: Metric, name: str) -> bool:
    """Whether `name` is this metric; `<words>` in a declaration stand for anything."""
    literal = _PLACEHOLDER.split(metric.name)
    return re.fullmatch(".+".join(map(re.escape, literal)), name) is not None

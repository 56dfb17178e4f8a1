"""Showing what a changed schedule would have decided in a recorded run."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from longhaul.app.build.components import build_schedule, build_settings, build_task
from longhaul.app.build.sources import from_values, parse_override, put_on, read_toml, to_values
from longhaul.app.build.text import columns
from longhaul.app.evaluation.load import Run
from longhaul.runs.logs.jsonl import read_rows
from longhaul.schedule.replay import Replayed, recorded_moves, replay


def replay_run(run: Run, *, file: Path | None, overrides: Sequence[str], as_json: bool) -> str:
    """Return the decisions of a changed schedule over a run's metrics, beside the recorded ones."""
    values = to_values(run.config)
    task_name = run.config.task
    if file is not None:
        values = put_on(values, read_toml(file), task_name)
    for override in overrides:
        values = put_on(values, parse_override(override), task_name)
    config = from_values(values)
    task = build_task(config)
    schedule = build_schedule(config, task, build_settings(config, task))
    rows = read_rows(run.directory.metrics).rows
    decided = list(replay(schedule, rows, recorded_moves(read_rows(run.directory.events).rows)))
    if as_json:
        return json.dumps([asdict(line) for line in decided])
    if not decided:
        return f"{len(rows)} iterations replayed: this schedule would have changed nothing"
    counts = Counter(line.agreement for line in decided)
    told = ", ".join(f"{count} {agreement}" for agreement, count in counts.items())
    header = ("iteration", "controller", "setting", "would be", "was", "verdict", "why")
    table = columns([_row(line) for line in decided], header=header)
    return f"{table}\n\n{len(rows)} iterations replayed: {told}"


def _row(line: Replayed) -> tuple[str, ...]:
    setting = next((move.setting for move in (line.move, line.recorded) if move is not None), "")
    would = "" if line.move is None else f"{_short(line.move.old)} -> {_short(line.move.new)}"
    was = (
        ""
        if line.recorded is None
        else f"{_short(line.recorded.old)} -> {_short(line.recorded.new)}"
    )
    return (str(line.iteration), line.controller, setting, would, was, line.agreement, line.why)


def _short(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)

"""Showing what a changed schedule would have decided in a recorded run."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from longhaul.app.assemble import build_schedule, build_settings, build_task
from longhaul.app.configure import from_values, parse_override, put_on, read_toml
from longhaul.app.text import columns
from longhaul.runs.directory import RunDirectory
from longhaul.runs.jsonl import read_rows
from longhaul.schedule.replay import Replayed, recorded_moves, replay


def replay_run(path: Path, *, file: Path | None, overrides: Sequence[str], as_json: bool) -> str:
    """Return the decisions of a changed schedule over a run's metrics, beside the recorded ones."""
    run = RunDirectory(path)
    run.read_record()
    values = read_toml(run.config)
    task_name = values["task"]
    if file is not None:
        values = put_on(values, read_toml(file), task_name)
    for override in overrides:
        values = put_on(values, parse_override(override), task_name)
    config = from_values(values)
    task = build_task(config)
    schedule = build_schedule(config, task, build_settings(config, task))
    rows = read_rows(run.metrics).rows
    decided = list(replay(schedule, rows, recorded_moves(read_rows(run.events).rows)))
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

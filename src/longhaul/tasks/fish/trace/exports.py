"""The files the laboratory keeps of a run, each made from the run's own logs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

from longhaul.core.run_log import Records, RunLog
from longhaul.tasks.fish.evaluation import find_suite
from longhaul.tasks.fish.options import Options
from longhaul.tasks.fish.starts import FishStart
from longhaul.tasks.fish.step_one.by_stage import stage_summary_file
from longhaul.tasks.fish.step_one.clusters import cluster
from longhaul.tasks.fish.step_one.pre_roll import suite_samples, summarise_pre_roll
from longhaul.tasks.fish.step_one.records import StepOneDeath
from longhaul.tasks.fish.step_one.worst import worst_seeds
from longhaul.tasks.fish.tail.items import TailItem, heading, speed
from longhaul.tasks.fish.tail.pin import pin
from longhaul.tasks.fish.trace.history import PastEvaluation, history_lines, past_evaluations
from longhaul.tasks.fish.trace.schedule_trace import schedule_trace
from longhaul.tasks.fish.trace.timeline import Timeline

TRACE = "schedule_trace.json"
HISTORY = "eval_multi_history.jsonl"
STEP_ONE = "step_one_deaths.jsonl"
CLUSTERS = "step_one_clusters.jsonl"
WORST = "step_one_worst_seeds.json"
STAGES = "step_one_stage_summary.json"
PRE_ROLL = "pre_roll_stats.jsonl"


def fish_records(log: RunLog, options: Options) -> Records:
    """Return all files by name."""
    timeline = Timeline.of(log, options.tail)
    evaluations = past_evaluations(log, timeline)
    pre_roll = {name: _pre_roll(name, options) for name in {past.suite for past in evaluations}}
    summaries = {name: found["summary"] for name, found in pre_roll.items()}
    deaths = {
        past.moment.iteration: [asdict(death) for death in past.deaths] for past in evaluations
    }
    return {
        TRACE: _text(schedule_trace(log, timeline, deaths)),
        HISTORY: _lines(history_lines(log, timeline, evaluations, summaries)),
        STEP_ONE: _lines(_death(death) for past in evaluations for death in past.deaths),
        CLUSTERS: _lines(_clusters(past, log) for past in evaluations),
        WORST: _text(_worst(log, evaluations, options)),
        STAGES: _text(
            stage_summary_file(
                [past.evaluated() for past in evaluations], run_name=log.name, generated_at=log.now
            )
        ),
        PRE_ROLL: _lines(
            {
                "iteration": past.moment.iteration,
                "timestamp": log.times.get(past.moment.iteration),
                **pre_roll[past.suite],
            }
            for past in evaluations
        ),
    }


def _death(death: StepOneDeath) -> dict[str, Any]:
    """Return a record with what plots need beside it."""
    velocity = death.predator_velocity
    return {**asdict(death), "angle_deg": heading(velocity), "speed": speed(velocity)}


def _clusters(past: PastEvaluation, log: RunLog) -> dict[str, Any]:
    return {
        "iteration": past.moment.iteration,
        "timestamp": log.times.get(past.moment.iteration),
        "clusters": cluster(past.deaths).as_row(),
        "tail_stage_label": past.moment.label,
        "tail_stage_type": past.moment.stage_type,
    }


def _pre_roll(suite: str, options: Options) -> dict[str, Any]:
    samples = suite_samples(find_suite(suite), options)
    return {
        "samples": [sample.as_row() for sample in samples],
        "summary": summarise_pre_roll(samples),
    }


def _worst(log: RunLog, evaluations: Iterable[PastEvaluation], options: Options) -> dict[str, Any]:
    """Return the worst-seeds file, whose starts are whole positions after the pre-roll."""
    positions: dict[int, FishStart] = {}
    records: list[StepOneDeath] = []
    for past in evaluations:
        records += past.deaths
        suite = find_suite(past.suite)
        wanted = {death.seed for death in past.deaths} - set(positions)
        starts = [start for start in suite.starts if start.seed in wanted]
        pinned = pin([TailItem(start) for start in starts], suite.options(options))
        positions |= {s.seed: item.start for s, item in zip(starts, pinned, strict=True)}
    return worst_seeds(
        records, lambda death: positions.get(death.seed), run_name=log.name, generated_at=log.now
    )


def _text(content: Mapping[str, Any]) -> str:
    return json.dumps(content, indent=1, allow_nan=False) + "\n"


def _lines(rows: Iterable[Mapping[str, Any]]) -> str:
    return "".join(json.dumps(row, allow_nan=False) + "\n" for row in rows)

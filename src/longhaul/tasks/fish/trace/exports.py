"""The files the laboratory keeps of a run, each made from the run's own logs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
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
from longhaul.tasks.fish.tail.files import write_tail_file
from longhaul.tasks.fish.tail.items import TailItem, heading, speed
from longhaul.tasks.fish.tail.options import TailOptions
from longhaul.tasks.fish.tail.pin import pin
from longhaul.tasks.fish.trace.history import PastEvaluation, history_lines, past_evaluations
from longhaul.tasks.fish.trace.schedule_trace import schedule_trace
from longhaul.tasks.fish.trace.timeline import Timeline
from longhaul.tasks.fish.trace.worst_starts import worst_starts

TRACE = "schedule_trace.json"
HISTORY = "eval_multi_history.jsonl"
STEP_ONE = "step_one_deaths.jsonl"
CLUSTERS = "step_one_clusters.jsonl"
WORST = "step_one_worst_seeds.json"
WORST_STARTS = "worst_starts.json"
STAGES = "step_one_stage_summary.json"
PRE_ROLL = "pre_roll_stats.jsonl"


class SuiteBeginnings:
    """How the episodes of suites begin, drawn once for each: they never change."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._pre_rolls: dict[str, PreRoll] = {}
        self._positions: dict[str, dict[int, FishStart]] = {}

    def pre_roll(self, suite: str) -> PreRoll:
        """Return the samples of a suite and their summary."""
        if suite not in self._pre_rolls:
            samples = suite_samples(find_suite(suite), self._options)
            rows = tuple(sample.as_row() for sample in samples)
            self._pre_rolls[suite] = PreRoll(rows, summarise_pre_roll(samples))
        return self._pre_rolls[suite]

    def position(self, suite: str, seed: int) -> FishStart | None:
        """Return the whole start of one episode, as it is after the pre-roll."""
        if suite not in self._positions:
            listed = find_suite(suite)
            items = pin([TailItem(start) for start in listed.starts], listed.options(self._options))
            self._positions[suite] = {
                start.seed: item.start for start, item in zip(listed.starts, items, strict=True)
            }
        return self._positions[suite].get(seed)


@dataclass(frozen=True, slots=True)
class PreRoll:
    """How the predators of a suite begin."""

    samples: tuple[dict[str, Any], ...]
    summary: dict[str, Any]


def fish_records(log: RunLog, tail: TailOptions, suites: SuiteBeginnings) -> Records:
    """Return all files by name."""
    timeline = Timeline.of(log, tail)
    evaluations = past_evaluations(log, timeline)
    summaries = {past.suite: suites.pre_roll(past.suite).summary for past in evaluations}
    deaths = {past.moment.iteration: past.rows for past in evaluations}
    return {
        TRACE: _text(schedule_trace(log, timeline, deaths)),
        HISTORY: _lines(history_lines(log, timeline, evaluations, summaries)),
        STEP_ONE: _lines(_death(row) for past in evaluations for row in past.rows),
        CLUSTERS: _lines(_clusters(past, log) for past in evaluations),
        WORST: _text(_worst(log, evaluations, suites)),
        WORST_STARTS: write_tail_file(
            worst_starts(log, evaluations[-1] if evaluations else None, suites.position)
        ),
        STAGES: _text(
            stage_summary_file(
                [past.evaluated() for past in evaluations], run_name=log.name, generated_at=log.now
            )
        ),
        PRE_ROLL: _lines(_pre_rolls(log, evaluations, suites)),
    }


def _death(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a record with what plots need beside it."""
    velocity = row["predator_velocity"]
    return {**row, "angle_deg": heading(velocity), "speed": speed(velocity)}


def _clusters(past: PastEvaluation, log: RunLog) -> dict[str, Any]:
    return {
        "iteration": past.moment.iteration,
        "timestamp": log.times.get(past.moment.iteration),
        "clusters": cluster(past.deaths).as_row(),
        "tail_stage_label": past.moment.label,
        "tail_stage_type": past.moment.stage_type,
    }


def _pre_rolls(
    log: RunLog, evaluations: Iterable[PastEvaluation], suites: SuiteBeginnings
) -> Iterator[dict[str, Any]]:
    """Yield a line for each evaluation; a suite's samples, always the same, are told once."""
    told: set[str] = set()
    for past in evaluations:
        pre_roll = suites.pre_roll(past.suite)
        yield {
            "iteration": past.moment.iteration,
            "timestamp": log.times.get(past.moment.iteration),
            "suite": past.suite,
            "samples": () if past.suite in told else pre_roll.samples,
            "summary": pre_roll.summary,
        }
        told.add(past.suite)


def _worst(
    log: RunLog, evaluations: Sequence[PastEvaluation], suites: SuiteBeginnings
) -> dict[str, Any]:
    """Return the worst-seeds file, whose starts are whole positions after the pre-roll."""
    played = {past.moment.iteration: past.suite for past in evaluations}

    def start_of(death: StepOneDeath) -> FishStart | None:
        assert death.iteration is not None
        return suites.position(played[death.iteration], death.seed)

    records = [death for past in evaluations for death in past.deaths]
    return worst_seeds(records, start_of, run_name=log.name, generated_at=log.now)


def _text(content: Mapping[str, Any]) -> str:
    return json.dumps(content, indent=1, allow_nan=False) + "\n"


def _lines(rows: Iterable[Mapping[str, Any]]) -> str:
    return "".join(json.dumps(row, allow_nan=False) + "\n" for row in rows)

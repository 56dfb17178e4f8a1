"""The files of the fish laboratory, made from the logs of a run."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from longhaul.core.evaluation import Records, RunLog
from longhaul.core.metrics import PLACE, Alias, Panel
from longhaul.tasks.fish.evaluation.evaluation import find_suite
from longhaul.tasks.fish.evaluation.first_step import FirstStepDeath, cluster
from longhaul.tasks.fish.evaluation.suites import FishSuite
from longhaul.tasks.fish.hard_starts.files import TailItem, write_tail_file
from longhaul.tasks.fish.hard_starts.plan import pin
from longhaul.tasks.fish.lab.history import (
    DEATH_STATS,
    SUMMARY,
    PastEvaluation,
    history_lines,
    past_evaluations,
    stage_summary,
    worst_seeds,
    worst_starts,
)
from longhaul.tasks.fish.lab.pre_roll import suite_samples, summarize_pre_roll
from longhaul.tasks.fish.lab.timeline import NAMES, Timeline, schedule_trace
from longhaul.tasks.fish.options import TAIL_TYPE, FishOptions, TailOptions
from longhaul.tasks.fish.world.starts import FishStart, heading, speed

TRACE = "schedule_trace.json"
HISTORY = "eval_multi_history.jsonl"
FIRST_STEP_DEATHS = "step_one_deaths.jsonl"
CLUSTERS = "step_one_clusters.jsonl"
WORST = "step_one_worst_seeds.json"
WORST_STARTS = "worst_starts.json"
STAGES = "step_one_stage_summary.json"
PRE_ROLL = "pre_roll_stats.jsonl"


@dataclass(frozen=True, slots=True)
class SuiteBeginnings:
    """The starts of the suites' episodes, drawn once for each suite: they never change."""

    _options: FishOptions
    _pre_rolls: dict[str, PreRoll] = field(default_factory=dict)
    _positions: dict[str, dict[int, FishStart]] = field(default_factory=dict)

    def _find(self, suite: str) -> FishSuite:
        return find_suite(suite, self._options.evaluation)

    def pre_roll(self, suite: str) -> PreRoll:
        """Return the samples of a suite and their summary."""
        if suite not in self._pre_rolls:
            samples = suite_samples(self._find(suite), self._options)
            rows = tuple(sample.as_row() for sample in samples)
            self._pre_rolls[suite] = PreRoll(rows, summarize_pre_roll(samples))
        return self._pre_rolls[suite]

    def position(self, suite: str, seed: int) -> FishStart | None:
        """Return the complete start of one episode, after the pre-roll."""
        if suite not in self._positions:
            listed = self._find(suite)
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
        FIRST_STEP_DEATHS: _lines(_death(row) for past in evaluations for row in past.rows),
        CLUSTERS: _lines(_clusters(past, log) for past in evaluations),
        WORST: _text(_worst(log, evaluations, suites)),
        WORST_STARTS: write_tail_file(
            worst_starts(log, evaluations[-1] if evaluations else None, suites.position)
        ),
        STAGES: _text(
            stage_summary(
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
    """Yield a line for each evaluation; a suite's samples never change and are written once."""
    written: set[str] = set()
    for past in evaluations:
        pre_roll = suites.pre_roll(past.suite)
        yield {
            "iteration": past.moment.iteration,
            "timestamp": log.times.get(past.moment.iteration),
            "suite": past.suite,
            "samples": () if past.suite in written else pre_roll.samples,
            "summary": pre_roll.summary,
        }
        written.add(past.suite)


def _worst(
    log: RunLog, evaluations: Sequence[PastEvaluation], suites: SuiteBeginnings
) -> dict[str, Any]:
    """Return the worst-seeds file, whose starts are positions after the pre-roll."""
    played = {past.moment.iteration: past.suite for past in evaluations}

    def start_of(death: FirstStepDeath) -> FishStart | None:
        assert death.iteration is not None
        return suites.position(played[death.iteration], death.seed)

    records = [death for past in evaluations for death in past.deaths]
    return worst_seeds(records, start_of, run_name=log.name, generated_at=log.now)


def _text(content: Mapping[str, Any]) -> str:
    return json.dumps(content, indent=1, allow_nan=False) + "\n"


def _lines(rows: Iterable[Mapping[str, Any]]) -> str:
    return "".join(json.dumps(row, allow_nan=False) + "\n" for row in rows)


_DEATHS = f"evaluations/{FIRST_STEP_DEATHS}"

RECORD_PANELS = (
    Panel(
        "Predators of deaths in the first step",
        ("angle_deg", "speed"),
        kind="polar",
        name="step_one_heading_polar",
        records=_DEATHS,
        bins=tuple(float(edge) for edge in range(0, 361, 30)),
        note="headings weighted by speed, 0 degrees at east",
    ),
    Panel(
        "Deaths in the first step by type of tail stage",
        ("tail_stage_type",),
        kind="bars",
        name="step_one_stage_distribution",
        records=_DEATHS,
    ),
    Panel(
        "Bad starts left",
        (
            "starts/tail_remaining_ratio",
            "starts/tail_warning_threshold",
            "starts/tail_warning",
        ),
        kind="spans",
        name="tail_stage_warning",
        right=("starts/tail_warning_duration",),
        note="bars: iterations the warning has lasted",
    ),
)


TAGS: Mapping[str, str] = {
    **{f"custom/{tag}": metric for tag, metric in NAMES["curves"].items()},
    **{f"{group}/{name}": f"eval/{name}" for group in ("multi_eval", "eval_multi")
       for name in SUMMARY},
    **{f"{group}_death/{name}": f"eval/{name}" for group in ("multi_eval", "eval_multi")
       for name in DEATH_STATS},
    "multi_eval/step_one_ne_high_speed_share": "eval/step_one_ne_high_speed_share",
    "eval_single/avg_alive": "eval/final_num_alive",
    "eval_single/avg_steps": "eval/mean_ep_length",
}  # fmt: skip
"""Every tag of the original with the same metric or setting."""

ALIASES = (
    *(Alias(tag, metric) for tag, metric in TAGS.items()),
    *(
        Alias(f"custom/{tag}_{PLACE}", metric, by=TAIL_TYPE.name, note="while that type is on")
        for tag, metric in NAMES["curves_by_type"].items()
    ),
)
"""The same for plots and trackers."""

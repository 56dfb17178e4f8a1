"""`eval_multi_history.jsonl`, a line per evaluation, and summaries of first-step deaths."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from longhaul.core.evaluation import Row, RunLog
from longhaul.envs.starts import listed
from longhaul.tasks.fish.evaluation.evaluation import EARLY, PERCENTILES
from longhaul.tasks.fish.evaluation.first_step import (
    ANGLE_BIN,
    NORTH_TO_NORTH_WEST,
    RECORD,
    SPEED_BIN,
    FirstStepDeath,
    bucket,
    cluster,
)
from longhaul.tasks.fish.hard_starts.files import TailFile, TailItem
from longhaul.tasks.fish.hard_starts.mix import clusters
from longhaul.tasks.fish.lab.pre_roll import block
from longhaul.tasks.fish.lab.timeline import LoggedIteration, Timeline
from longhaul.tasks.fish.world.starts import FishStart, heading, speed

LARGEST = 6

StartOf = Callable[[FirstStepDeath], FishStart | None]
"""Returns the whole start of a record's episode, or None if it is not known any more."""


def worst_seeds(
    records: Sequence[FirstStepDeath], start_of: StartOf, *, run_name: str, generated_at: str
) -> dict[str, Any]:
    """Return the content of a worst-seeds file; it can be used as a tail file as it is."""
    found = cluster(records)
    return {
        "generated_at": generated_at,
        "run_name": run_name,
        "records": len(records),
        "summary": {
            "total_events": found.total,
            "angle_bin_deg": found.angle_bin_deg,
            "speed_bin": found.speed_bin,
            "clusters": [
                {**asdict(one), "sample": _sample(_worst(records, one.angle_deg_start,
                                                         one.speed_bin_start), start_of)}
                for one in found.clusters[:LARGEST]
            ],
        },
    }  # fmt: skip


def _worst(records: Sequence[FirstStepDeath], angle: float, pace: float) -> FirstStepDeath:
    """Return the first death of the bucket's deadliest episode."""
    wanted = (round(angle / ANGLE_BIN), round(pace / SPEED_BIN))
    own = [r for r in records if bucket(r.predator_velocity, ANGLE_BIN, SPEED_BIN) == wanted]
    deaths = Counter((record.iteration, record.seed) for record in own)
    return max(own, key=lambda record: deaths[record.iteration, record.seed])


def _sample(record: FirstStepDeath, start_of: StartOf) -> dict[str, Any]:
    start = start_of(record)
    sample: dict[str, Any] = {
        "iteration": record.iteration,
        "angle_deg": heading(record.predator_velocity),
        "speed": speed(record.predator_velocity),
        "predator_velocity": list(record.predator_velocity),
        "fish_idx": record.fish_idx,
        "seed": record.seed,
        "avoidable": record.avoidable,
        "tail_stage_label": record.tail_stage_label,
        "tail_stage_type": record.tail_stage_type,
    }
    if start is not None:
        sample["start"] = listed(start.as_value())
        sample["start_velocity"] = list(record.predator_start_velocity)
    assert math.isfinite(sample["speed"])
    return sample


@dataclass(frozen=True, slots=True)
class StageEvaluation:
    """One evaluation: when, during which type of stage, how many fish, and who died at once."""

    iteration: int
    stage_type: str
    fish: int
    deaths: tuple[FirstStepDeath, ...]


def stage_summary(
    evaluations: Sequence[StageEvaluation], *, run_name: str, generated_at: str
) -> dict[str, Any]:
    """Return the content of `step_one_stage_summary.json`: the deaths, type by type.

    Shares of deaths only mirror how many evaluations fell into a type; deaths per thousand
    evaluated fish can be compared.
    """
    total = sum(len(evaluated.deaths) for evaluated in evaluations)
    by_type: dict[str, list[StageEvaluation]] = {}
    for evaluated in evaluations:
        by_type.setdefault(evaluated.stage_type, []).append(evaluated)
    return {
        "generated_at": generated_at,
        "run_name": run_name,
        "records": total,
        "stage_summary": {
            "total_events": total,
            "evaluated_fish": sum(evaluated.fish for evaluated in evaluations),
            "stages": [_stage(name, own, total=total) for name, own in by_type.items()],
        },
    }


def _stage(
    stage_type: str, evaluations: Sequence[StageEvaluation], *, total: int
) -> dict[str, Any]:
    deaths = [death for evaluated in evaluations for death in evaluated.deaths]
    fish = sum(evaluated.fish for evaluated in evaluations)
    clusters = {evaluated.iteration: cluster(evaluated.deaths) for evaluated in evaluations}
    tops = {iteration: found.top_share for iteration, found in clusters.items()}
    sectors = {iteration: NORTH_TO_NORTH_WEST.share(found) for iteration, found in clusters.items()}
    return {
        "stage_type": stage_type,
        "count": len(deaths),
        "share": len(deaths) / total if total else None,
        "evaluations": len(evaluations),
        "evaluated_fish": fish,
        "per_1000_fish": 1000 * len(deaths) / fish if fish else None,
        "avoidable": sum(death.avoidable for death in deaths),
        "iteration_min": min(evaluated.iteration for evaluated in evaluations),
        "iteration_max": max(evaluated.iteration for evaluated in evaluations),
        "predator_speed": block([speed(death.predator_velocity) for death in deaths]),
        "top_share": _over_run(tops),
        "sector_share": _over_run(sectors),
        "ne_high_speed_share": _over_run(sectors),
    }


def _over_run(shares: Mapping[int, float | None]) -> dict[str, float | None]:
    """Return the mean and the largest of the shares, and when it was met first."""
    known = {iteration: share for iteration, share in shares.items() if share is not None}
    if not known:
        return {"mean": None, "max": None, "iteration_of_max": None}
    largest = max(known.values())
    return {
        "mean": sum(known.values()) / len(known),
        "max": largest,
        "iteration_of_max": min(at for at, share in known.items() if share == largest),
    }


EVALUATED = "evaluated"
REPLAYS = 3
"""The worst episodes that are named for replaying."""
SUMMARY = (
    "avg_final_survival_rate",
    "min_final_survival_rate",
    "avg_min_survival_rate",
    "min_of_min_survival_rate",
    "median_min_survival_rate",
)
DEATH_STATS = (
    *(f"early_death_fraction_{step}" for step in EARLY),
    *PERCENTILES,
    "mean_death_step",
    "survival_fraction",
    "total_fish_samples",
)
GATE = (
    "stage",
    "phase_limit",
    "success_streak",
    "failure_streak",
    "freeze_until",
    "failure_detected",
    "failure_tolerance",
    "rolling_p10_median",
    "rolling_early_death_median",
    "early_death_threshold",
    "early_death_window",
    "last_success",
)


@dataclass(frozen=True, slots=True)
class PastEvaluation:
    """An evaluation during training."""

    moment: LoggedIteration
    suite: str
    episodes: Sequence[Row]
    deaths: tuple[FirstStepDeath, ...]
    rows: tuple[dict[str, Any], ...]  # the same as plain values

    @property
    def fish(self) -> int:
        """Fish of each school."""
        samples = self.moment.count("eval/total_fish_samples", 0) or 0
        return samples // max(len(self.episodes), 1)

    def evaluated(self) -> StageEvaluation:
        """Return it as the summary by stage takes it."""
        fish = self.moment.count("eval/total_fish_samples", 0) or 0
        return StageEvaluation(
            self.moment.iteration, self.moment.stage_type or "", fish, self.deaths
        )


def past_evaluations(log: RunLog, timeline: Timeline) -> tuple[PastEvaluation, ...]:
    """Return the evaluations in a run's events, with their deaths in the first step."""
    found = []
    for event in log.events:
        moment = timeline.at(int(event.get("iteration", 0)))
        if event.get("event") != EVALUATED or moment is None:
            continue
        place = {
            "iteration": moment.iteration,
            "tail_stage_label": moment.label,
            "tail_stage_type": moment.stage_type,
        }
        rows = tuple({**row, **place} for row in event.get(RECORD, ()))
        deaths = tuple(FirstStepDeath.of(row) for row in rows)
        found.append(PastEvaluation(moment, event["suite"], event["episodes"], deaths, rows))
    return tuple(found)


def history_lines(
    log: RunLog,
    timeline: Timeline,
    evaluations: Iterable[PastEvaluation],
    pre_roll: dict[str, dict[str, Any]],
) -> list[dict[str, Any]]:
    """Return all lines; `pre_roll` are the summaries of how the suites' predators begin."""
    lines: list[dict[str, Any]] = []
    written, best = 0, float("-inf")
    for past in evaluations:
        score = past.moment.metric("eval/score")
        is_best = score is not None and score > best
        best = max(best, score) if score is not None else best
        until = sum(e.iteration <= past.moment.iteration for e in timeline.warnings)
        line = _line(past, timeline, log)
        line["tail_stage_warning_events"] = [
            asdict(event) for event in timeline.warnings[written:until]
        ]
        line["pre_roll_stats_summary"] = pre_roll.get(past.suite)
        saved = log.checkpoints.get(past.moment.iteration) if is_best else None
        line |= {"best_checkpoint_saved": saved is not None, "best_model_path": saved}
        line["penalty_gate"] = _gate(past.moment, log)
        line["tail_replays"] = _replays(past, log)
        lines.append(line)
        written = until
    return lines


def _line(past: PastEvaluation, timeline: Timeline, log: RunLog) -> dict[str, Any]:
    moment, clusters = past.moment, cluster(past.deaths)
    since = moment.tail("warning_since")
    has_tail = moment.stage is not None
    return {
        "iteration": moment.iteration,
        "timestamp": log.times.get(moment.iteration),
        "suite": past.suite,
        "summary": {
            "episodes": len(past.episodes),
            **{name: moment.metric(f"eval/{name}") for name in SUMMARY},
        },
        "death_stats": {name: moment.metric(f"eval/{name}") for name in DEATH_STATS},
        "density_penalty_coef": moment.settings.get("fish.density_penalty"),
        "escape_boost_speed": moment.settings.get("fish.escape_boost"),
        "step_one_death_count": moment.count("eval/step_one_death_count"),
        "step_one_death_ratio": moment.metric("eval/step_one_death_ratio"),
        "episode_seeds": [episode["seed"] for episode in past.episodes],
        "multi_eval_num_fish": past.fish,
        "multi_eval_episodes": len(past.episodes),
        "tail_stage_label": moment.label,
        "tail_stage_type": moment.stage_type,
        "tail_stage_remaining_by_type": moment.by_type("remaining", timeline.types),
        "tail_stage_warn_active": bool(moment.tail("warning")) if has_tail else None,
        "tail_stage_warn_since": int(since) if since else None,
        "death_hist_path": _death_histogram(moment.iteration, log.files),
        "step_one_deaths": past.rows,
        "step_one_clusters": clusters.as_row(),
        "step_one_ne_high_speed_share": NORTH_TO_NORTH_WEST.share(clusters),
        "step_one_sector": asdict(NORTH_TO_NORTH_WEST),
    }


def _gate(moment: LoggedIteration, log: RunLog) -> dict[str, Any] | None:
    """Return what the gate decided after the evaluation; None without a gate."""
    if moment.metric("gate/penalty_stage") is None:
        return None
    decisions = [
        event
        for event in log.events
        if event.get("controller") == "penalty-gate" and event["iteration"] == moment.iteration
    ]
    why = decisions[-1]["why"] if decisions else ""
    return {
        "event": why.partition(":")[0] or None,
        **{name: moment.metric(f"gate/penalty_{name}") for name in GATE},
        "tail_stage_type": moment.stage_type,
        "step_one_death_ratio": moment.metric("eval/step_one_death_ratio"),
        "changed": any(decision["moves"] for decision in decisions),
        "why": why,
    }


def _death_histogram(iteration: int, files: Iterable[str]) -> str | None:
    wanted = f"iter{iteration:03d}_death_hist"
    return next((name for name in sorted(files) if wanted in name), None)


def _replays(past: PastEvaluation, log: RunLog) -> list[dict[str, Any]]:
    """Return the worst episodes, fewest survivors first, with their films where there are any."""
    ranked = sorted(enumerate(past.episodes), key=lambda one: (one[1]["survival_rate"], one[0]))
    return [
        {
            "video_path": _film(past.moment, rank, log.files),
            "seed": episode["seed"],
            "episode": number,
            "final_num_alive": round(episode["survival_rate"] * past.fish),
        }
        for rank, (number, episode) in enumerate(ranked[:REPLAYS], start=1)
    ]


def _film(moment: LoggedIteration, rank: int, files: Iterable[str]) -> str | None:
    wanted = f"step-{moment.metrics['env_steps']:012d}-evaluation-worst-{rank}-"
    return next((name for name in sorted(files) if wanted in name), None)


MOST = 16


def worst_starts(
    log: RunLog, past: PastEvaluation | None, start_of: Callable[[str, int], FishStart | None]
) -> TailFile:
    """Return the episodes that lost most fish beyond the doomed, each weighted by that loss.

    The doomed are left out: no action saves them.
    """
    if past is None:
        return TailFile((), generated_at=log.now, source=log.name)
    doomed = Counter(death.seed for death in past.deaths if not death.avoidable)
    losses = {
        episode["seed"]: len(episode["dead"]) - doomed[episode["seed"]] for episode in past.episodes
    }
    ranked = sorted((seed for seed in losses if losses[seed] > 0), key=lambda seed: -losses[seed])
    items = []
    for seed in ranked[:MOST]:
        start = start_of(past.suite, seed)
        if start is not None:
            provenance = {
                "seed": seed,
                "suite": past.suite,
                "iteration": past.moment.iteration,
                "lost": losses[seed] + doomed[seed],
                "unavoidable": doomed[seed],
            }
            items.append(TailItem(start, float(losses[seed]), provenance=dict(provenance)))
    return TailFile(
        tuple(items),
        generated_at=log.now,
        source=f"{log.name}, {past.suite} at iteration {past.moment.iteration}",
        note="weights are the fish lost that could have been saved",
        clusters=clusters(items),
    )

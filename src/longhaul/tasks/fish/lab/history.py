"""`eval_multi_history.jsonl`: one line per evaluation during training, complete when written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from longhaul.core.evaluation import Row, RunLog
from longhaul.tasks.fish.evaluation.evaluation import EARLY, PERCENTILES
from longhaul.tasks.fish.evaluation.first_step import (
    NORTH_TO_NORTH_WEST,
    RECORD,
    FirstStepDeath,
    cluster,
)
from longhaul.tasks.fish.hard_starts.files import TailFile, TailItem
from longhaul.tasks.fish.hard_starts.mix import clusters
from longhaul.tasks.fish.lab.summaries import StageEvaluation
from longhaul.tasks.fish.lab.timeline import LoggedIteration, Timeline
from longhaul.tasks.fish.world.starts import FishStart

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

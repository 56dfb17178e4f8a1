"""`schedule_trace.json`: one entry per iteration from the first, null where nothing is known."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from longhaul.core.run_log import Row, RunLog
from longhaul.tasks.fish.options import DENSITY_PENALTY, ESCAPE_BOOST
from longhaul.tasks.fish.school import FORCED, START_NAME
from longhaul.tasks.fish.step_one.clusters import moving_average
from longhaul.tasks.fish.tail.queue import FORCED_RESETS
from longhaul.tasks.fish.trace.timeline import Moment, Timeline

ENTROPY = "learn.entropy_weight"

METRIC_FIELDS: Mapping[str, str] = {
    "survival_rate": "env/survival_rate",
    "first_death_step": "env/first_death_step",
    "first_death_p10": "env/first_death_p10",
    "step_one_death_ratio": "eval/step_one_death_ratio",
    "step_one_top_share": "eval/step_one_top_share",
    "step_one_ne_high_speed_share": "eval/step_one_ne_high_speed_share",
    "step_one_per_1000": "eval/step_one_excess_per_1000",
    "tail_stage_progress": "starts/tail_stage_progress",
    "tail_queue_remaining_ratio": "starts/tail_remaining_ratio",
    "learning_rate": "train/learning_rate",
    "loss": "train/loss",
    "policy_loss": "train/policy_gradient_loss",
    "value_loss": "train/value_loss",
    "entropy_loss": "train/entropy_loss",
    "approx_kl": "train/approx_kl",
    "explained_variance": "train/explained_variance",
    "iteration_seconds": "time/iteration_seconds",
    "collect_seconds": "time/collect_seconds",
    "learn_seconds": "time/learn_seconds",
    "evaluate_seconds": "time/evaluate_seconds",
}
"""Fields that are a metric as it is."""

COUNT_FIELDS: Mapping[str, tuple[str, int | None]] = {
    "first_death_sample_size": ("env/first_death_sample_size", 0),
    "episodes": ("rollout/episodes", 0),
    "step_one_death_count": ("eval/step_one_death_count", None),
    "tail_stage_index": ("starts/tail_stage", None),
    "tail_queue_remaining": ("starts/tail_remaining", None),
    "tail_stage_warn_hits": ("starts/tail_low_hits", None),
    "tail_stage_warn_duration": ("starts/tail_warning_duration", None),
    "tail_prewarm_injections": ("starts/tail_injections", None),
    "tail_prewarm_injections_total": ("starts/tail_injections_total", None),
    "tail_set_aside": ("starts/tail_set_aside", None),
    "gate_stage": ("gate/penalty_stage", None),
    "gate_success_streak": ("gate/penalty_success_streak", None),
    "gate_failure_streak": ("gate/penalty_failure_streak", None),
    "gate_freeze_until": ("gate/penalty_freeze_until", None),
}
"""Fields that are a metric which counts, and what it is if it was not measured."""

SETTING_FIELDS: Mapping[str, str] = {
    "density_penalty_coef": DENSITY_PENALTY.name,
    "entropy_coef": ENTROPY,
    "escape_boost_speed": ESCAPE_BOOST.name,
}
"""Fields that are a setting as it was in the iteration."""


def schedule_trace(
    log: RunLog, timeline: Timeline, deaths: Mapping[int, Sequence[Row]]
) -> dict[str, Any]:
    """Return the content of the file; `deaths` are the step-one records of evaluations."""
    entries = [_entry(moment, timeline) for moment in timeline.moments]
    _add_totals(entries, log, timeline)
    for entry in entries:
        if entry["iteration"] in deaths:
            entry["step_one_deaths"] = [dict(row) for row in deaths[entry["iteration"]]]
    return {
        "generated_at": log.now,
        "trace": entries,
        "tail_stage_warnings": [asdict(event) for event in timeline.warnings],
    }


def _entry(moment: Moment, timeline: Timeline) -> dict[str, Any]:
    hits, episodes = moment.count("starts/used", 0), moment.count("rollout/episodes", 0)
    has_tail = moment.stage is not None
    reinjections = moment.by_type("reentries", timeline.types)
    since = moment.tail("warning_since")
    return {
        "iteration": moment.iteration,
        **{name: moment.settings.get(setting) for name, setting in SETTING_FIELDS.items()},
        **{name: moment.metric(metric) for name, metric in METRIC_FIELDS.items()},
        **{name: moment.count(*counted) for name, counted in COUNT_FIELDS.items()},
        "prewarm_override_hits": hits,
        "prewarm_override_episodes": episodes,
        "prewarm_override_ratio": (hits or 0) / episodes if episodes else None,
        "tail_stage_label": moment.label,
        "tail_stage_type": moment.stage_type,
        "tail_stage_remaining_by_type": moment.by_type("remaining", timeline.types),
        "tail_stage_reinjections_by_type": reinjections,
        "tail_ne_reinjections": None if reinjections is None else reinjections.get("ne", 0),
        "tail_stage_warn_active": bool(moment.tail("warning")) if has_tail else None,
        "tail_stage_warn_since": int(since) if since else None,
        "tail_forced_resets": moment.count(FORCED_RESETS, 0),
    }


def _add_totals(entries: Sequence[dict[str, Any]], log: RunLog, timeline: Timeline) -> None:
    """Add what takes more than one iteration to know: sums, averages, reasons per school."""
    reasons = reason_codes(log.episodes()) if _deals(timeline) else {}
    forced = 0
    averages = moving_average([entry["step_one_per_1000"] for entry in entries])
    for entry, average in zip(entries, averages, strict=True):
        forced += entry["tail_forced_resets"]
        entry["tail_forced_resets_total"] = forced
        entry["step_one_per_1000_ema"] = average
        entry["tail_reasons"] = reasons.get(entry["iteration"])


def _deals(timeline: Timeline) -> bool:
    return any(moment.stage or moment.metric(FORCED_RESETS) for moment in timeline.moments)


CODES: Mapping[str, Callable[[Row], bool]] = {
    "forced_reset": lambda row: row["reason"] == FORCED,
    "time_limit": lambda row: row["reason"] in ("time_limit", "cut"),
    "all_dead": lambda row: row["reason"] == "all_dead",
    "injected": lambda row: START_NAME in row.get("facts", {}),
}
"""Why a school was reset, and whether the episode that ended had begun from a bad start."""


def reason_codes(episodes: Sequence[Row]) -> dict[int, dict[str, dict[str, int]]]:
    """Return for each iteration how often each code held, `{code: {school: episodes}}`."""
    found: dict[int, dict[str, dict[str, int]]] = {}
    for row in episodes:
        codes = found.setdefault(int(row["iteration"]), {})
        for code, holds in CODES.items():
            if holds(row):
                schools = codes.setdefault(code, {})
                schools[str(row["env"])] = schools.get(str(row["env"]), 0) + 1
    return found

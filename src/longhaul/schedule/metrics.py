"""What controllers tell about themselves; `<name>` is the controller's own name."""

from __future__ import annotations

from longhaul.core.metrics import Metric

METRICS = (
    Metric("gate/<name>_stage", "the gate's stage, from 0"),
    Metric("gate/<name>_success_streak", "successes in a row that count towards the next stage"),
    Metric("gate/<name>_failure_streak", "failures in a row"),
    Metric("gate/<name>_freeze_until", "first iteration at which progress counts again"),
    Metric("gate/<name>_held", "evaluations since the stage last changed"),
    Metric("gate/<name>_blocked_by", "success criteria that did not hold"),
    Metric(
        "gate/<name>_missing/<metric>",
        "how far a metric that blocks the next stage is from its threshold",
    ),
    Metric("curriculum/<name>_phase", "number of the phase, from 1; 0 before the first"),
    Metric("starts/<name>_stage", "number of the queue's stage, from 1"),
    Metric("starts/<name>_stage_progress", "share of the stage that is over, from 0 to 1"),
    Metric("starts/<name>_remaining", "what is left of the queue, in its unit"),
    Metric("starts/<name>_remaining_ratio", "the same as a share of the whole queue"),
    Metric("starts/<name>_laps", "how often the queue has begun again"),
    Metric("starts/<name>_low_hits", "observations in a row of a low remainder"),
    Metric("starts/<name>_warning", "1 while the queue is running low"),
    Metric("starts/<name>_warning_duration", "how long it has been so", "iterations"),
    Metric("starts/<name>_remaining_<category>", "what is left of one category"),
    Metric("starts/<name>_reentries_<category>", "how often a category has been entered again"),
)

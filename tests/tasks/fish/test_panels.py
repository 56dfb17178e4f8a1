"""The laboratory's pictures, described as data."""

from __future__ import annotations

from longhaul.app.build.components import build_settings, build_task
from longhaul.app.build.metrics import declared_metrics, declares
from longhaul.app.build.sources import ConfigSources, resolve
from longhaul.tasks.fish.task import DEATH_BINS, PANELS

LISTED = {
    "survival",
    "training_overview",
    "first_death",
    "penalty_vs_first_death",
    "penalty_vs_entropy",
    "multi_eval_timeline",
    "death_hist",
    "death_histogram",
    "step_one_heading_polar",
    "step_one_stage_distribution",
    "tail_stage_warning",
}
"""Section 8.4 of the laboratory's description."""


def test_every_picture_of_the_laboratory_is_described() -> None:
    assert {panel.name for panel in PANELS} >= LISTED
    assert len({panel.name for panel in PANELS}) == len(PANELS)


def test_curves_show_only_what_is_measured_or_set() -> None:
    config = resolve(ConfigSources("fish"))
    task = build_task(config)
    declared = declared_metrics([task])
    settings = set(build_settings(config, task))
    for panel in PANELS:
        if panel.kind in ("lines", "spans", "overview"):
            for name in (*panel.metrics, *panel.right):
                known = name in settings or any(declares(metric, name) for metric in declared)
                assert known, (panel.title, name)


def test_the_curve_of_survival_is_filmed() -> None:
    assert [panel.name for panel in PANELS if panel.is_filmed] == ["survival"]


def test_deaths_are_counted_in_bins_of_25_steps_and_survivors_last() -> None:
    assert DEATH_BINS[:3] == (0.0, 25.0, 50.0)
    assert DEATH_BINS[-2:] == (500.0, 525.0)

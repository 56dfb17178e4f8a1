"""Row 26 of the fish checklist: every field of the trace and the history, from iteration 1."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from longhaul.core.evaluation import Records, RunLog
from longhaul.tasks.fish.hard_starts.files import read_tail_file
from longhaul.tasks.fish.lab.exports import (
    CLUSTERS,
    FIRST_STEP_DEATHS,
    HISTORY,
    PRE_ROLL,
    STAGES,
    TRACE,
    WORST,
    WORST_STARTS,
    SuiteBeginnings,
    fish_records,
)
from longhaul.tasks.fish.options import FishOptions
from longhaul.tasks.fish.world.starts import PositionStart
from tests.tasks.fish.lab.logs import OPTIONS, SEEDS, made_up_run

TRACE_FIELDS = re.findall(
    r"\w+",
    """
iteration density_penalty_coef entropy_coef escape_boost_speed survival_rate first_death_step
first_death_p10 first_death_sample_size prewarm_override_ratio prewarm_override_hits
prewarm_override_episodes step_one_death_ratio step_one_top_share step_one_ne_high_speed_share
tail_stage_index tail_stage_progress tail_stage_label tail_stage_type tail_queue_remaining
tail_queue_remaining_ratio tail_stage_remaining_by_type tail_stage_reinjections_by_type
tail_ne_reinjections tail_stage_warn_active tail_stage_warn_since tail_stage_warn_duration
tail_forced_resets tail_forced_resets_total tail_prewarm_injections tail_prewarm_injections_total
step_one_death_count
learning_rate loss value_loss entropy_loss explained_variance iteration_seconds gate_stage
tail_stage_warn_hits tail_reasons
    """,
)
"""Section 8.2, then what is asked for beyond the original."""

HISTORY_FIELDS = re.findall(
    r"\w+",
    """
iteration timestamp summary death_stats density_penalty_coef escape_boost_speed
step_one_death_count step_one_death_ratio episode_seeds multi_eval_num_fish multi_eval_episodes
tail_stage_label tail_stage_type tail_stage_remaining_by_type tail_stage_warn_active
tail_stage_warn_since tail_stage_warning_events death_hist_path step_one_deaths step_one_clusters
step_one_ne_high_speed_share pre_roll_stats_summary best_checkpoint_saved best_model_path
penalty_gate tail_replays
    """,
)
"""Section 7.3."""


def made(log: RunLog, options: FishOptions = OPTIONS) -> Records:
    return fish_records(log, options.tail, SuiteBeginnings(options))


@pytest.fixture(scope="module")
def records() -> Records:
    return made(made_up_run())


@pytest.fixture(scope="module")
def trace(records: Records) -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = json.loads(records[TRACE])["trace"]
    return entries


@pytest.fixture(scope="module")
def history(records: Records) -> list[dict[str, Any]]:
    return [json.loads(line) for line in records[HISTORY].splitlines()]


def test_every_iteration_from_1_has_an_entry_with_every_field(trace: list[dict[str, Any]]) -> None:
    assert [entry["iteration"] for entry in trace] == [1, 2, 3, 4, 5, 6]
    for entry in trace:
        assert not set(TRACE_FIELDS) - set(entry)


def test_what_was_not_measured_is_null(trace: list[dict[str, Any]]) -> None:
    first, third = trace[0], trace[2]
    assert first["step_one_death_count"] is None
    assert first["gate_stage"] is None
    assert first["loss"] is None
    assert "step_one_deaths" not in first
    assert third["step_one_death_count"] == 1
    assert len(third["step_one_deaths"]) == 1


def test_settings_are_those_the_iteration_ran_with(trace: list[dict[str, Any]]) -> None:
    assert [entry["density_penalty_coef"] for entry in trace] == [0, 0, 0.02, 0.02, 0.02, 0.02]
    assert {entry["entropy_coef"] for entry in trace} == {0.02}


def test_the_tail_is_told_by_stage_type_and_warning(trace: list[dict[str, Any]]) -> None:
    assert [entry["tail_stage_label"] for entry in trace[:2]] == ["stage1:ne", "long"]
    assert [entry["tail_stage_type"] for entry in trace[:2]] == ["ne", "main"]
    assert trace[0]["tail_stage_remaining_by_type"] == {"ne": 4, "main": 16}
    assert trace[0]["tail_ne_reinjections"] == 0
    assert [entry["tail_stage_warn_active"] for entry in trace] == [False] * 2 + [True] * 4
    assert [entry["tail_stage_warn_since"] for entry in trace] == [None, None, 3, 3, 3, 3]
    assert [entry["tail_stage_warn_duration"] for entry in trace] == [0, 0, 1, 2, 3, 4]
    assert [entry["tail_forced_resets_total"] for entry in trace] == [2, 4, 6, 8, 10, 12]
    assert trace[0]["prewarm_override_ratio"] == 0.75


def test_every_reset_has_its_reason_by_school(trace: list[dict[str, Any]]) -> None:
    """W12: reason codes for forced resets and injections, per iteration and school."""
    assert trace[0]["tail_reasons"] == {
        "forced_reset": {"0": 2},
        "injected": {"0": 1, "3": 1},
        "all_dead": {"3": 1},
    }
    assert trace[1]["tail_reasons"] == {"time_limit": {"1": 1}}
    assert trace[5]["tail_reasons"] is None


def test_step_one_counts_come_as_a_moving_average_per_1000(trace: list[dict[str, Any]]) -> None:
    """W15."""
    assert [entry["step_one_per_1000_ema"] for entry in trace] == [None, None, 30, 30, 30, 45]


def test_warnings_are_resolved_when_the_run_is_over_and_not_before(records: Records) -> None:
    (warning,) = json.loads(records[TRACE])["tail_stage_warnings"]
    assert (warning["iteration"], warning["tail_stage_label"]) == (3, "long")
    assert (warning["resolved_iteration"], warning["duration_iterations"]) == (6, 4)
    going_on = made(made_up_run(is_over=False))
    assert json.loads(going_on[TRACE])["tail_stage_warnings"][0]["resolved_iteration"] is None


def test_every_evaluation_has_a_line_with_every_field(history: list[dict[str, Any]]) -> None:
    assert [line["iteration"] for line in history] == [3, 6]
    for line in history:
        assert not set(HISTORY_FIELDS) - set(line)
        assert line["episode_seeds"] == list(SEEDS)
        assert (line["multi_eval_num_fish"], line["multi_eval_episodes"]) == (48, 2)
        assert line["summary"]["avg_final_survival_rate"] == 0.9
        assert line["death_stats"]["p10"] == 500
        assert line["pre_roll_stats_summary"]["sampled_episodes"] == 64


def test_a_line_tells_what_is_new_since_the_last(history: list[dict[str, Any]]) -> None:
    assert [len(line["tail_stage_warning_events"]) for line in history] == [1, 0]


def test_a_line_tells_times_pictures_films_and_the_best_checkpoint(
    history: list[dict[str, Any]],
) -> None:
    first, last = history
    assert (first["timestamp"], last["timestamp"]) == ("2026-01-01T00:00:03+00:00", None)
    assert first["death_hist_path"].endswith("iter003_death_hist.png")
    assert last["death_hist_path"] is None
    assert (first["best_checkpoint_saved"], first["best_model_path"]) == (False, None)
    assert last["best_model_path"] == "checkpoints/step-000000000600"
    worst = last["tail_replays"][0]
    assert worst["video_path"] == f"media/step-000000000600-evaluation-worst-1-seed{SEEDS[1]}.mp4"
    assert (worst["seed"], worst["episode"], worst["final_num_alive"]) == (SEEDS[1], 1, 36)


def test_a_line_tells_what_the_gate_decided(history: list[dict[str, Any]]) -> None:
    first, last = (line["penalty_gate"] for line in history)
    assert (first["event"], first["changed"], first["stage"]) == ("advance", True, 1)
    assert (last["event"], last["changed"], last["freeze_until"]) == ("failure_hold", False, 9)


def test_records_of_deaths_carry_their_iteration_and_stage(records: Records) -> None:
    deaths = [json.loads(line) for line in records[FIRST_STEP_DEATHS].splitlines()]
    assert [(d["iteration"], d["tail_stage_type"]) for d in deaths] == [(3, "main"), (6, "main")]
    assert (deaths[0]["angle_deg"], deaths[0]["speed"]) == (90.0, 2.0)
    clusters = [json.loads(line) for line in records[CLUSTERS].splitlines()]
    assert set(clusters[0]) == {
        "iteration", "timestamp", "clusters", "tail_stage_label", "tail_stage_type",
    }  # fmt: skip
    assert clusters[0]["clusters"]["total"] == 1
    summary = json.loads(records[STAGES])["stage_summary"]
    assert [stage["per_1000_fish"] for stage in summary["stages"]] == [pytest.approx(2000 / 192)]


def test_pre_roll_statistics_come_with_every_evaluation(records: Records) -> None:
    lines = [json.loads(line) for line in records[PRE_ROLL].splitlines()]
    assert [line["iteration"] for line in lines] == [3, 6]
    assert [line["summary"]["sampled_episodes"] for line in lines] == [64, 64]
    assert lines[1]["samples"] == []
    assert len(lines[0]["samples"]) == lines[0]["summary"]["sampled_episodes"] == 64
    assert {"episode", "spawn_radius", "spawn_angle_deg", "initial_speed", "initial_heading_deg",
            "final_speed", "final_heading_deg", "pre_roll_steps", "angle_jitter_deg", "speed_scale",
            "heading_bias_angle_deg", "prewarm_velocity_override"} <= set(
        lines[0]["samples"][0]
    )  # fmt: skip


def test_the_worst_seeds_of_a_run_are_a_tail_file_of_whole_starts(
    records: Records, tmp_path: Path
) -> None:
    path = tmp_path / WORST
    path.write_text(records[WORST])
    (item,) = read_tail_file(path).items
    assert isinstance(item.start, PositionStart)
    assert len(item.start.fish) == 48
    assert item.provenance["seed"] == SEEDS[1]
    assert item.provenance["tail_stage_type"] == "main"


def test_the_worst_starts_leave_out_what_nothing_could_have_saved(tmp_path: Path) -> None:
    log = made_up_run()
    unlucky = log.events[3]
    worst = {**unlucky["episodes"][1], "dead": {"7": 1, "8": 40, "9": 90}}
    later = {**unlucky, "episodes": [unlucky["episodes"][0], worst]}
    path = tmp_path / WORST_STARTS
    path.write_text(made(replace(log, events=[*log.events[:3], later]))[WORST_STARTS])
    (item,) = read_tail_file(path).items
    assert isinstance(item.start, PositionStart)
    assert item.weight == 2.0
    assert item.provenance == {
        "id": item.id,
        "seed": SEEDS[1],
        "suite": "rehearsal-0",
        "iteration": 6,
        "lost": 3,
        "unavoidable": 1,
    }
    path.write_text(made(log)[WORST_STARTS])
    assert read_tail_file(path).items == ()


def test_a_run_without_tail_and_evaluations_still_has_its_trace() -> None:
    plain = RunLog(
        "plain", [{"iteration": 1, "env_steps": 9, "episodes": 0}], [], {"fish.escape_boost": 0.75}
    )
    records = made(plain, FishOptions())
    (entry,) = json.loads(records[TRACE])["trace"]
    assert not set(TRACE_FIELDS) - set(entry)
    assert entry["tail_stage_remaining_by_type"] is None
    assert entry["tail_stage_warn_active"] is None
    assert records[HISTORY] == ""


def test_the_same_logs_give_the_same_files(records: Records) -> None:
    assert made(made_up_run()) == records

"""A made-up run of six iterations with a tail, two evaluations and a gate."""

from __future__ import annotations

from typing import Any

from longhaul.core.evaluation import RunLog
from longhaul.tasks.fish.hard_starts.files import StageSpec
from longhaul.tasks.fish.options import FishOptions, TailOptions

OPTIONS = FishOptions(
    tail=TailOptions(
        (StageSpec(2, "ne.json", "ne"), StageSpec(4, "main.json", "main", "long")),
        warn_ratio=0.7,
        warn_patience=2,
    )
)
SEEDS = (1237476600, 610594479)
"""The first two of the suite `rehearsal`."""


def metrics_row(iteration: int) -> dict[str, Any]:
    left = 24 - 4 * iteration
    row = {
        "iteration": iteration,
        "env_steps": 100 * iteration,
        "episodes": iteration,
        "rollout/episodes": 4.0,
        "starts/used": 3.0,
        "env/survival_rate": 0.8,
        "env/first_death_sample_size": 2.0,
        "train/learning_rate": 1e-3,
        "starts/tail_stage": 1.0 if iteration < 2 else 2.0,
        "starts/tail_stage_progress": 0.5,
        "starts/tail_remaining": float(left),
        "starts/tail_remaining_ratio": left / 24,
        "starts/tail_remaining_ne": float(max(0, 8 - 4 * iteration)),
        "starts/tail_remaining_main": 16.0,
        "starts/tail_reentries_ne": 0.0,
        "starts/tail_reentries_main": 0.0,
        "starts/tail_injections": 4.0,
        "starts/tail_injections_total": 4.0 * iteration,
        "starts/tail_low_hits": float(max(0, iteration - 1)),
        "starts/tail_warning": float(iteration >= 3),
        "starts/tail_warning_since": 3.0 * (iteration >= 3),
        "starts/tail_warning_duration": float(max(0, iteration - 2)),
        "starts/tail_forced_resets": 2.0,
        "time/iteration_seconds": 0.5,
    }
    if iteration in (3, 6):
        row |= {
            "eval/score": 0.5 + iteration / 100,
            "eval/avg_final_survival_rate": 0.9,
            "eval/p10": 500.0,
            "eval/total_fish_samples": 96.0,
            "eval/step_one_death_count": 1.0,
            "eval/step_one_death_ratio": 1 / 96,
            "eval/step_one_excess_per_1000": 10.0 * iteration,
            "eval/step_one_top_share": 1.0,
            "gate/penalty_stage": 1.0,
            "gate/penalty_freeze_until": 9.0,
        }
    return row


def evaluated(iteration: int) -> dict[str, Any]:
    death = {
        "fish_idx": 7,
        "predator_index": 0,
        "fish_position": [0.5, 0.0],
        "predator_position": [0.0, 0.0],
        "predator_velocity": [0.0, 2.0],
        "episode": 1,
        "seed": SEEDS[1],
        "distance": 0.5,
        "start_velocity": [1.0, 0.0],
        "predator_start_velocity": [0.0, 1.95],
        "avoidable": False,
        "timestep": 1,
    }
    return {
        "iteration": iteration,
        "event": "evaluated",
        "suite": "rehearsal-0",
        "episodes": [
            {"seed": SEEDS[0], "survival_rate": 1.0, "dead": {}},
            {"seed": SEEDS[1], "survival_rate": 0.75, "dead": {"7": 1}},
        ],
        "step_one_deaths": [death],
    }


def schedule_event(iteration: int, controller: str, why: str, *moves: Any) -> dict[str, Any]:
    rows = [{"setting": name, "old": old, "new": new} for name, old, new in moves]
    return {
        "iteration": iteration,
        "event": "schedule",
        "controller": controller,
        "moves": rows,
        "why": why,
    }


def episode(iteration: int, env: int, reason: str, **facts: str) -> dict[str, Any]:
    row: dict[str, Any] = {"iteration": iteration, "env": env, "reason": reason, "metrics": {}}
    return {**row, "facts": facts} if facts else row


def made_up_run(*, is_over: bool = True) -> RunLog:
    return RunLog(
        name="made-up",
        metrics=[metrics_row(iteration) for iteration in range(1, 7)],
        events=[
            schedule_event(2, "ladder", "up", ("fish.density_penalty", 0.0, 0.02)),
            evaluated(3),
            schedule_event(3, "penalty-gate", "advance: fine", ("fish.gate_stage", 0, 1)),
            evaluated(6),
            schedule_event(6, "penalty-gate", "failure_hold: bad"),
        ],
        settings={
            "fish.density_penalty": 0.0,
            "learn.ent_coef": 0.02,
            "fish.escape_boost": 0.75,
        },
        episodes=lambda: [
            episode(1, 0, "forced", start="aa"),
            episode(1, 0, "forced"),
            episode(1, 3, "all_dead", start="ab"),
            episode(2, 1, "cut"),
        ],
        is_over=is_over,
        now="2026-01-01T00:00:00+00:00",
        times={3: "2026-01-01T00:00:03+00:00"},
        checkpoints={6: "checkpoints/step-000000000600"},
        files=frozenset(
            {
                "plots/made-up_multi_eval_hist/made-up_iter003_death_hist.png",
                "media/step-000000000600-evaluation-worst-1-seed610594479.mp4",
            }
        ),
    )

"""An evaluation belongs to the tail's stage its iteration was dealt from, for gate and trace."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from longhaul.core.control import Progress, View
from longhaul.core.settings import Settings
from longhaul.core.task import Task
from longhaul.envs.config import EnvConfig
from longhaul.envs.starts import STARTS
from longhaul.nets.config import PolicyConfig
from longhaul.schedule.schedule import Schedule
from longhaul.tasks.fish.hard_starts.files import StageSpec
from longhaul.tasks.fish.options import TAIL_TYPE, FishOptions, TailOptions
from longhaul.tasks.fish.task import build
from longhaul.tasks.fish.training.options import (
    GateOptions,
    LadderOptions,
    SchoolPhase,
    TrainingOptions,
)
from longhaul.tasks.kind import RunPlan, TaskRequest

ITERATIONS = 6
LIMITS = {"ne": 0.5, "main": 0.01}
EVALUATION = {
    "eval/step_one_excess": 0.0,
    "eval/step_one_excess_ratio": 0.0,
    "eval/early_death_fraction_100": 0.1,
    "eval/p10": 500.0,
    "eval/min_final_survival_rate": 0.9,
}


@pytest.fixture
def task(tmp_path: Path) -> Task:
    tail = tmp_path / "bad.json"
    tail.write_text(json.dumps({"velocities": [[0.5, 1.9], [-0.8, 1.7]]}))
    options = FishOptions(
        fish=4,
        tail=TailOptions(stages=(StageSpec(2, str(tail), "ne"), StageSpec(4, str(tail), "main"))),
        training=TrainingOptions(
            curriculum=(SchoolPhase(4, 2),) * 3,
            ladder=LadderOptions(phase_targets=(0.0, 0.01, 0.02)),
            gate=GateOptions(
                phase_allowance=(1, 2, 3),
                required_successes=1,
                freeze_iterations=0,
                success_freeze_iterations=0,
                success_early_death_window=1,
                success_median_window=1,
                success_early_death_by_stage=LIMITS,
                infeasible="warn",
            ),
        ),
    )
    plan = RunPlan(total_iterations=ITERATIONS, evaluate_every=1, suite="v38-1")
    return build(TaskRequest("", options, EnvConfig(), PolicyConfig(hidden=(4,)), 3, plan))


def test_the_gate_judges_by_the_type_the_iteration_ran_with_and_the_trace_tells_it(
    task: Task,
) -> None:
    learn = Settings([*task.settings, STARTS])
    schedule = Schedule(task.controllers, learn)
    settings, _ = schedule.begin(learn)
    ran, judged, told = [], [], []
    for iteration in range(1, ITERATIONS + 1):
        ran.append(settings[TAIL_TYPE])
        settings, _ = schedule.step(View(Progress(iteration), EVALUATION, settings))
        judged.append(schedule.metrics["gate/penalty_early_death_threshold"])
        told.append(schedule.metrics["starts/tail_stage"])
    assert ran == ["ne"] * 2 + ["main"] * 4
    assert judged == [LIMITS[kind] for kind in ran]
    assert told == [1, 1, 2, 2, 2, 2]

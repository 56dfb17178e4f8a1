"""What the player promises of speed and score, measured in full; minutes each."""

from __future__ import annotations

from pathlib import Path

import pytest

from longhaul.app.bench.training import measure_rollouts
from longhaul.app.configure import ConfigSources, resolve
from longhaul.app.evaluate import EvaluationRequest, evaluate_run
from longhaul.app.session import Asked, carry_out
from longhaul.app.suite_evaluation import SuiteRequest
from longhaul.app.suite_report import SuiteReport
from longhaul.app.train import begin_run
from longhaul.tasks.nethack.evaluation import intervals, suites
from longhaul.tasks.nethack.options import Options
from longhaul.tasks.nethack.players import RANDOM

pytestmark = [pytest.mark.nethack, pytest.mark.slow]

LEAST_STEPS_A_SECOND = 1500
"""On two cores; what is reached on them alone is in the guide."""
STEPS = 300_000
LEAST_SCORE = 45


def test_the_whole_rollout_loop_is_fast_enough_to_learn_by() -> None:
    config = resolve(ConfigSources("nethack", overrides=("total_timesteps=40000",)))
    assert measure_rollouts(config) > LEAST_STEPS_A_SECOND


def test_a_trained_player_is_better_than_chance_on_games_it_never_saw(tmp_path: Path) -> None:
    overrides = (
        f"total_timesteps={STEPS}",
        "evaluate.every_iterations=0",
        "evaluate.final_episodes=0",
        "report.at_end=false",
    )
    config = resolve(ConfigSources("nethack", overrides=overrides))
    run = begin_run(config, tmp_path)
    assert carry_out(run, config, Asked(quiet=True)) == 0
    report = evaluate_run(run.path, EvaluationRequest(suites=SuiteRequest(references=False)))
    assert isinstance(report, SuiteReport)
    (held_out,) = report.results
    assert len(held_out.episodes) == 200
    assert held_out.metrics["eval/step_cap"] == 2000
    assert held_out.metrics["eval/score"] > LEAST_SCORE
    random = suites(Options())("held-out").references()[RANDOM]
    assert held_out.intervals["eval/score"][0] > intervals(random)["eval/score"][1]

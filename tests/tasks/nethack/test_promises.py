"""What the player promises of speed, score and its experts, measured in full; minutes each."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from longhaul.app.artifacts.records import study_run
from longhaul.app.bench.training import measure_rollouts
from longhaul.app.build.config import SessionOptions
from longhaul.app.build.sources import ConfigSources, resolve
from longhaul.app.evaluation.evaluate import EvaluationRequest, evaluate_run
from longhaul.app.evaluation.load import Run
from longhaul.app.evaluation.suites import SuiteReport, SuiteRequest
from longhaul.app.session.run import run_session
from longhaul.app.session.start import begin_run
from longhaul.tasks.nethack.evaluation import intervals, suites
from longhaul.tasks.nethack.options import NetHackOptions
from longhaul.tasks.nethack.players import RANDOM
from longhaul.tasks.nethack.policy.study import SUMMARY_FILE

pytestmark = [pytest.mark.nethack, pytest.mark.slow]

EXAMPLES = Path(__file__).parents[3] / "examples" / "nethack"
LEAST_STEPS_A_SECOND = 1500
"""On two cores; what is reached on them alone is in the guide."""
STEPS = 300_000
LEAST_SCORE = 45
STUDIED = 20
MOST_STEP_ENTROPY = 0.6
LEAST_INFORMATION = 0.1


def trained(example: str, root: Path) -> tuple[Path, SuiteReport]:
    """Return a whole run through all three phases and its 200 held-out games."""
    overrides = (
        f"total_timesteps={STEPS}",
        "evaluate.every_iterations=0",
        "evaluate.final_episodes=0",
        "report.at_end=false",
    )
    config = resolve(
        ConfigSources("nethack", file=EXAMPLES / f"{example}.toml", overrides=overrides)
    )
    run = begin_run(config, root).directory
    assert run_session(run, config, SessionOptions(quiet=True)).exit_code == 0
    report = evaluate_run(Run(run), EvaluationRequest(suites=SuiteRequest(references=False)))
    assert isinstance(report, SuiteReport)
    return run.path, report


def specialization(run: Path) -> dict[str, Any]:
    study_run(Run(run), episodes=STUDIED)
    found: dict[str, Any] = json.loads((run / "evaluations" / SUMMARY_FILE).read_bytes())
    return found


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, SuiteReport]:
    return trained("full", tmp_path_factory.mktemp("full"))


@pytest.mark.measures
def test_the_whole_rollout_loop_is_fast_enough_to_learn_by(
    record_property: Callable[[str, object], None],
) -> None:
    config = resolve(ConfigSources("nethack", overrides=("total_timesteps=40000",)))
    speed = measure_rollouts(config)
    record_property("steps/s", f"{speed:,.0f}")
    assert speed > LEAST_STEPS_A_SECOND


def test_a_trained_player_is_better_than_chance_on_games_it_never_saw(
    full: tuple[Path, SuiteReport], record_property: Callable[[str, object], None]
) -> None:
    (held_out,) = full[1].results
    record_property("score of 200 games", f"{held_out.metrics['eval/score']:.1f}")
    assert len(held_out.episodes) == 200
    assert held_out.metrics["eval/step_cap"] == 2000
    assert held_out.metrics["eval/score"] > LEAST_SCORE
    random = suites(NetHackOptions())("held-out").references()[RANDOM]
    assert held_out.intervals["eval/score"][0] > intervals(random)["eval/score"][1]


def test_experts_guided_by_the_rules_know_their_situations(
    full: tuple[Path, SuiteReport], tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    guided = specialization(full[0])
    alone = specialization(trained("baseline", tmp_path)[0])
    for name in ("step_entropy", "information"):
        record_property(f"{name} guided and alone", f"{guided[name]:.3f} {alone[name]:.3f}")
    assert guided["step_entropy"] < MOST_STEP_ENTROPY
    assert not guided["dead"]
    assert guided["information"] > max(LEAST_INFORMATION, alone["information"])

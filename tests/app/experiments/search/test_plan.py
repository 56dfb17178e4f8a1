"""Plans: what a search changes, what it refuses, and what its trials train."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from longhaul.app.build.sources import ConfigSources, find_kind, resolve
from longhaul.app.experiments.search.plan import STAGES, SearchRequest, default_space, make_plan
from longhaul.core.errors import ConfigError
from longhaul.runs.toml import write_toml

CARTPOLE = "gym:CartPole-v1"
RATE = "learn.learning_rate=log:1e-5..1e-2"


def request(**changes: Any) -> SearchRequest:
    return replace(SearchRequest("probe:chase", space=(RATE,)), **changes)


@pytest.mark.parametrize("task", ["gym", "fish", "mario", "nethack", "probe"])
def test_every_task_has_a_space_of_its_own_that_its_config_takes(task: str) -> None:
    example = find_kind(task).examples[0]
    space = default_space(example)
    for dimension in space.values():
        for value in dimension.ends:
            held = dimension.setting(value)
            nested: Any = held
            for part in reversed(dimension.key.split(".")):
                nested = {part: nested}
            resolve(ConfigSources(example, flags=nested))
    assert len(space) > 2


@pytest.mark.parametrize("task", ["fish", CARTPOLE, "probe:chase"])
def test_the_spaces_hold_the_values_without_a_search_or_nearly(task: str) -> None:
    plan = make_plan(SearchRequest(task))
    params, _ = plan.own_params()
    assert params.keys() == plan.space.keys()


def test_an_unknown_key_is_told_with_the_nearest_one() -> None:
    with pytest.raises(ConfigError, match=r"did you mean 'learn\.learning_rate'"):
        make_plan(request(space=("learn.learnig_rate=log:1e-5..1e-2",)))


def test_a_value_the_config_refuses_is_told_before_anything_is_trained() -> None:
    with pytest.raises(ConfigError, match=r"int:0\.\.4: learn\.n_epochs = 0 must be at least 1"):
        make_plan(request(space=("learn.n_epochs=int:0..4",)))


def test_a_misspelt_metric_is_told_with_the_nearest_one() -> None:
    with pytest.raises(ConfigError, match="did you mean 'eval/mean_reward'"):
        make_plan(request(objective="eval/mean_rewrd"))


def test_the_objective_is_the_task_s_score_unless_named() -> None:
    assert make_plan(request()).metric == "eval/mean_reward"
    assert make_plan(request(objective="train/value_loss")).metric == "train/value_loss"


def test_single_dimensions_replace_the_task_s_own_unless_they_are_asked_for() -> None:
    assert list(make_plan(request()).space) == ["learn.learning_rate"]
    both = make_plan(request(space=("default", "learn.n_epochs=int:2..3"))).space
    assert len(both) == len(default_space("probe:chase"))
    assert both["learn.n_epochs"].text == "learn.n_epochs=int:2..3"


def test_a_ramp_moves_with_the_value_it_begins_at() -> None:
    plan = make_plan(SearchRequest("mario:standin", space=(RATE, "learn.n_epochs=int:1..3")))
    config = plan.config({"learn.learning_rate": 7e-5})
    ramp = next(t for t in config.schedule if t["setting"] == "learn.learning_rate")
    assert config.learn.learning_rate == 7e-5
    assert (ramp["start"], ramp["end"]) == (7e-5, pytest.approx(5e-6))
    assert plan.config({"learn.n_epochs": 2}).schedule == plan.base.schedule


def test_a_setting_that_others_steer_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"would have no effect: schedule\.rate sets"):
        make_plan(
            request(
                overrides=(
                    'schedule=[{kind="ramp",name="rate",setting="learn.learning_rate",start=0.5}]',
                )
            )
        )


def test_a_trial_is_measured_in_every_stage_and_spared_the_rest() -> None:
    plan = make_plan(request(timesteps=200_000))
    config = plan.trial(3, {"learn.learning_rate": 1e-3}).config
    steps = config.collect.num_steps * config.num_envs * plan.rows
    assert config.evaluate.every_iterations == 200_000 // steps // STAGES
    assert (config.evaluate.final_episodes, config.checkpoint.keep_last) == (0, 1)
    assert (config.name, config.seed, config.total_timesteps) == ("search-0003", 4, 200_000)


def test_the_best_values_train_the_same_but_for_the_trial_s_own_affairs(tmp_path: Path) -> None:
    overrides = ("learn.n_epochs=2", "num_envs=8")
    plan = make_plan(request(timesteps=5_000, overrides=overrides))
    params = {"learn.learning_rate": 3.3e-3}
    file = tmp_path / "best.toml"
    file.write_text(write_toml(plan.best_values(params)))
    trained = resolve(ConfigSources("probe:chase", file=file))
    asked = resolve(
        ConfigSources("probe:chase", overrides=(*overrides, "learn.learning_rate=3.3e-3"))
    )
    assert trained == asked
    assert trained.total_timesteps == resolve(ConfigSources("probe:chase")).total_timesteps


def test_the_best_values_of_a_preset_need_no_preset(tmp_path: Path) -> None:
    plan = make_plan(SearchRequest("fish", preset="steady", space=("learn.n_epochs=int:1..3",)))
    file = tmp_path / "best.toml"
    file.write_text(write_toml(plan.best_values({"learn.n_epochs": 2})))
    asked = resolve(ConfigSources("fish", preset="steady", overrides=("learn.n_epochs=2",)))
    assert resolve(ConfigSources("fish", file=file)) == asked


@pytest.mark.parametrize(
    "changes",
    [{"trials": 0}, {"budget_seconds": 0.0}, {"timesteps": 0}, {"seed": -1}],
)
def test_a_request_that_makes_no_sense_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="--"):
        request(**changes)

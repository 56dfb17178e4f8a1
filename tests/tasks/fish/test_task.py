"""The task as the engine sees it."""

from __future__ import annotations

import pytest

from longhaul.app.build.components import build_task
from longhaul.app.build.sources import ConfigSources, resolve
from longhaul.core.env import BatchedEnvs, Episode
from longhaul.core.errors import ConfigError
from longhaul.core.settings import Settings
from longhaul.envs.config import EnvConfig
from longhaul.nets.config import PolicyConfig
from longhaul.tasks.fish.options import FishOptions
from longhaul.tasks.fish.task import METRICS, TASK, summarize
from longhaul.tasks.kind import TaskRequest


def request(options: FishOptions, argument: str = "") -> TaskRequest:
    return TaskRequest(argument, options, EnvConfig(), PolicyConfig(hidden=(8,)))


def test_the_task_is_built_from_its_options() -> None:
    task = TASK.build(request(FishOptions(fish=7)))
    assert isinstance(task.envs, BatchedEnvs)
    assert task.envs.spec.rows == 7
    assert task.make_policy().initial_state(3) == {}
    Settings(task.settings)


def test_the_broadcast_task_has_one_row() -> None:
    assert TASK.build(request(FishOptions(acting="broadcast"))).envs.spec.rows == 1


def test_an_argument_is_refused() -> None:
    with pytest.raises(ConfigError, match="takes no argument"):
        TASK.build(request(FishOptions(), "school"))


@pytest.mark.parametrize("name", TASK.preset_names())
def test_a_preset_can_be_read(name: str) -> None:
    config = resolve(ConfigSources(task="fish", preset=name))
    task = build_task(config)
    assert task.envs.spec.rows >= 1
    assert bool(task.warnings) == (name == "original"), "only the original's gate cannot open"
    assert all("kind" in table for table in config.schedule)


def test_the_original_has_version_38s_forced_resets_warning_and_replays() -> None:
    config = resolve(ConfigSources(task="fish", preset="original"))
    tail = config.options["tail"]
    assert (tail["force_reset_steps"], tail["warn_ratio"], tail["warn_patience"]) == (224, 0.65, 3)
    assert (config.report.film_evaluations, config.options["evaluation"]["film_fish"]) == (3, 32)
    assert config.total_iterations == 60


def episode(reason: str, **metrics: float) -> Episode:
    alive = {"final_num_alive": 18.0, "avg_num_alive": 19.0}
    always = {"step_one_deaths": 0.0, "fish": 20.0, **alive}
    return Episode(0, 0, 0, 10, 1.0, reason, {**always, **metrics})


def test_figures_are_means_and_absent_where_nothing_was_measured() -> None:
    assert summarize([]) == {}
    cut = summarize([episode("cut", survival_rate=1.0)])
    assert cut == {
        "env/survival_rate": 1.0,
        "env/final_num_alive": 18.0,
        "env/avg_num_alive": 19.0,
        "env/step_one_deaths": 0.0,
        "env/step_one_deaths_per_1000": 0.0,
        "env/first_death_sample_size": 0.0,
    }
    both = summarize(
        [
            episode("cut", survival_rate=1.0),
            episode(
                "time_limit", survival_rate=0.5, first_death_step=4.0, first_later_death_step=4.0
            ),
        ]
    )
    assert both["env/survival_rate"] == 0.75
    assert both["env/survival_rate_full"] == 0.5
    assert both["env/first_death_step"] == 4.0
    assert both.keys() == {metric.name for metric in METRICS}


def test_first_deaths_are_told_with_and_without_those_of_the_first_step() -> None:
    """A doomed fish in every third school would hide when the others die."""
    found = summarize(
        [
            episode(
                "cut",
                survival_rate=0.9,
                step_one_deaths=1.0,
                first_death_step=1.0,
                first_later_death_step=20.0,
            ),
            episode("cut", survival_rate=0.9, first_death_step=30.0, first_later_death_step=30.0),
        ]
    )
    assert found["env/first_death_p10"] == pytest.approx(1 + 0.1 * 29)
    assert found["env/first_later_death_p10"] == pytest.approx(21)
    assert found["env/first_death_sample_size"] == 2
    assert found["env/step_one_deaths_per_1000"] == 25

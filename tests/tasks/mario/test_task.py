"""The task as the engine sees it."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
from docs.tools.fields import field_docs

from longhaul.app.build.components import build_schedule, build_settings, build_task
from longhaul.app.build.metrics import unmeasured_metrics
from longhaul.app.build.sources import ConfigSources, from_values, resolve
from longhaul.core.config import convert
from longhaul.core.control import Progress, View
from longhaul.core.env import BatchedEnvs, Episode
from longhaul.core.errors import ConfigError
from longhaul.core.settings import Settings
from longhaul.envs.config import EnvConfig
from longhaul.nets.config import PolicyConfig
from longhaul.tasks.kind import TaskRequest
from longhaul.tasks.mario.console.game import Cartridge
from longhaul.tasks.mario.game.options import SCRIPT_SHARE
from longhaul.tasks.mario.options import HelpOptions, MarioOptions, ScheduleOptions, StartOptions
from longhaul.tasks.mario.source import GameSource
from longhaul.tasks.mario.task import TASK, settings_of, summarize

EXAMPLES = Path(__file__).parents[3] / "examples" / "mario"


def request(options: MarioOptions, argument: str = "") -> TaskRequest:
    return TaskRequest(argument, options, EnvConfig(), PolicyConfig(hidden=(8,)))


@pytest.mark.parametrize("name", TASK.preset_names())
def test_a_preset_can_be_built(name: str, cartridge: Cartridge) -> None:
    values = tomllib.loads((TASK.presets / f"{name}.toml").read_text())
    config = from_values({"task": "mario", **values})
    options = convert(config.options, MarioOptions, where="options")
    task = TASK.build(TaskRequest("", options, config.env, config.policy))
    assert isinstance(task.envs, BatchedEnvs)
    assert sum(p.numel() for p in task.make_policy().parameters()) > 10_000
    Settings(task.settings)
    assert options.sticky == 0.25


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.toml")), ids=lambda path: path.stem)
def test_an_example_reads_only_what_mario_measures(path: Path) -> None:
    assert unmeasured(ConfigSources("mario:standin", preset="fast", file=path)) == ()


@pytest.mark.parametrize("name", ["adaptive", "phases"])
def test_a_steered_preset_reads_only_what_mario_measures(name: str) -> None:
    assert unmeasured(ConfigSources("mario:standin", preset=name)) == ()


def unmeasured(sources: ConfigSources) -> tuple[str, ...]:
    """Return a sentence for each metric that the schedule of a config reads in vain."""
    config = resolve(sources)
    task = build_task(config)
    schedule = build_schedule(config, task, build_settings(config, task))
    assert schedule.controllers
    return unmeasured_metrics(schedule, task)


def test_the_phases_are_bootstrap_main_and_refine() -> None:
    config = resolve(ConfigSources("mario:standin", preset="phases"))
    task = build_task(config)
    settings = build_settings(config, task)
    schedule = build_schedule(config, task, settings)
    found = []
    for share in (0.0, 0.03, 0.5):
        progress = Progress(1, int(share * config.total_timesteps))
        settings, _ = schedule.step(View(progress, {}, settings))
        phase = schedule.metrics["curriculum/training_phase"]
        found.append((phase, settings.values()["reward.progress"], settings[SCRIPT_SHARE]))
    assert found == [(1.0, 0.04, 0.5), (2.0, 0.02, 0.0), (3.0, 0.01, 0.0)]


def test_the_presets_of_the_guide_are_there() -> None:
    assert {"fast", "pixels", "recurrent", "all-stages"} <= set(TASK.preset_names())


def test_training_may_be_stickier_than_what_is_measured() -> None:
    options = MarioOptions(sticky=0.25, training_sticky=0.4)
    task = TASK.build(request(options))
    assert options.games().sticky == 0.4
    assert MarioOptions(sticky=0.25).games().sticky == 0.25
    assert task.evaluation.suite is not None
    envs = task.evaluation.suite("final").envs
    assert isinstance(envs, BatchedEnvs)
    assert isinstance(envs.make, GameSource)
    assert envs.make.options.sticky == 0.25


@pytest.mark.parametrize("value", [0.1, -0.4, 1.0])
def test_training_is_never_less_sticky_than_what_is_measured(value: float) -> None:
    with pytest.raises(ConfigError, match=r"options.training_sticky = .* must be 0 or between"):
        MarioOptions(sticky=0.25, training_sticky=value)


def test_another_argument_than_the_free_cartridge_is_refused() -> None:
    with pytest.raises(ConfigError, match="mario:standin"):
        TASK.build(request(MarioOptions(), "luigi"))


def test_every_option_has_its_words() -> None:
    assert set(field_docs(MarioOptions)) >= {"stages", "sticky", "reward", "starts", "schedule"}


def test_a_script_nobody_asks_for_is_used_always_and_one_for_help_only_then() -> None:
    always = Settings(settings_of(MarioOptions(script="RIGHT:4"))).values()
    helping = ScheduleOptions(help=HelpOptions(patience=5))
    asked = Settings(settings_of(MarioOptions(script="RIGHT:4", schedule=helping))).values()
    assert always["mario.script_share"] == 1.0
    assert asked["mario.script_share"] == 0.0


def test_help_without_a_script_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"options.script, which is empty"):
        MarioOptions(schedule=ScheduleOptions(help=HelpOptions(patience=5)))


def test_hard_starts_keep_a_trail_unless_one_is_set() -> None:
    assert MarioOptions().games().trail == 0
    assert MarioOptions(starts=StartOptions(share=0.3)).games().trail > 0
    assert MarioOptions(starts=StartOptions(share=0.3), trail=3).games().trail == 3


def episode(reason: str, progress: float, **metrics: float) -> Episode:
    always: dict[str, Any] = {"x": progress, "score": 0.0, "cleared": float(reason == "flag")}
    return Episode(0, 0, 1, 9, 1.0, reason, {**always, "progress": progress, **metrics}, FACTS)


FACTS = {"stage": "1-1", "x": 0, "y": 0}


def test_figures_of_a_rollout_tell_fresh_from_hard_starts() -> None:
    assert summarize([]) == {}
    found = summarize(
        [
            episode("flag", 100.0, hard=1.0, reach=3000.0),
            episode("pit", 200.0, hard=0.0, reach=200.0),
        ]
    )
    assert found["env/clear_rate"] == 0.5
    assert found["env/clear_rate_fresh"] == 0.0
    assert found["env/clear_rate/1-1"] == 0.0
    assert found["starts/hard_share"] == 0.5
    assert found["starts/farthest"] == 3000.0
    assert found["env/ended/pit"] == 0.5

"""A value the user gives is never silently overwritten by a controller."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from longhaul.app.build.components import build_schedule, build_settings, build_task
from longhaul.app.build.config import RunConfig, setting_keys
from longhaul.app.build.sources import ConfigSources, find_kind, resolve, to_values
from longhaul.core.config import flatten
from longhaul.core.errors import ConfigError
from longhaul.core.settings import SettingValue
from longhaul.runs.toml import write_toml
from tests.app.small import CARTPOLE

TASKS = ("gym:CartPole-v1", "fish", "mario:standin", "nethack", "probe:recall", "probe:chase")
RATE = "learn.learning_rate"
ROOM = "options.fish"
"""The most fish a school has room for, which counts whatever the curriculum does."""


def presets() -> Iterator[tuple[str, str]]:
    for task in TASKS:
        for preset in ("", *find_kind(task).preset_names()):
            if not task.startswith("probe") or preset in ("", task.partition(":")[2]):
                yield task, preset


def changed(value: Any) -> Iterator[Any]:
    """Yield values unlike this one, of which a config may refuse some."""
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, int):
        yield from (value + 1, value - 1)
    elif isinstance(value, float):
        yield from (value * 0.6, value + 0.125, 0.03)


def settings_at_first(config: RunConfig) -> tuple[dict[str, SettingValue], dict[str, SettingValue]]:
    """Return the settings as the config has them, and as the first iteration has them."""
    task = build_task(config)
    settings = build_settings(config, task)
    schedule = build_schedule(config, task, settings)
    return settings.values(), schedule.begin(settings)[0].values()


def override(key: str, value: Any) -> str:
    return f"{key}={json.dumps(value)}"


def is_accepted(sources: ConfigSources, key: str) -> bool:
    """Whether a config is accepted; a refusal must name the key."""
    try:
        resolve(sources)
    except ConfigError as refusal:
        return key not in str(refusal) and pytest.fail(str(refusal))
    return True


@pytest.mark.parametrize(("task", "preset"), list(presets()))
def test_a_given_value_counts_from_the_first_iteration_or_is_refused(
    task: str, preset: str
) -> None:
    own = resolve(ConfigSources(task, preset=preset))
    held = flatten(to_values(own))
    declared, before = settings_at_first(own)
    for setting, key in setting_keys(find_kind(task)).items():
        if setting not in declared:
            continue
        value = next(one for one in changed(held[key]) if one != held[key])
        sources = ConfigSources(task, preset=preset, overrides=(override(key, value),))
        if not is_accepted(sources, key):
            continue
        _, after = settings_at_first(resolve(sources))
        assert after[setting] != before[setting], f"{key} has no effect on {setting}"
        if before[setting] == declared[setting]:
            assert after[setting] == pytest.approx(value)


@pytest.mark.parametrize("task", TASKS)
def test_every_key_that_a_setting_begins_with_is_known(task: str) -> None:
    kind = find_kind(task)
    own = resolve(ConfigSources(task))
    declared, _ = settings_at_first(own)
    known = set(setting_keys(kind).items())
    for key, value in flatten(to_values(own)).items():
        if key.partition(".")[0] not in ("learn", "options") or key == ROOM:
            continue
        for other in changed(value):
            try:
                config = resolve(ConfigSources(task, overrides=(override(key, other),)))
                found, _ = settings_at_first(config)
            except ConfigError:
                continue
            moved = {name for name in found.keys() & declared if found[name] != declared[name]}
            assert {(name, key) for name in moved} <= known, key


@pytest.mark.parametrize("task", TASKS)
def test_every_controller_of_a_task_names_the_key_that_describes_it(task: str) -> None:
    kind = find_kind(task)
    for preset in kind.preset_names():
        if task.startswith("probe") and preset != task.partition(":")[2]:
            continue
        built = build_task(resolve(ConfigSources(task, preset=preset)))
        assert {one.name for one in built.controllers} <= kind.controller_keys.keys()


def ramp(config: RunConfig) -> dict[str, Any]:
    return next(table for table in config.schedule if table["setting"] == RATE)


def test_the_ramp_of_a_preset_begins_at_the_value_that_is_given() -> None:
    config = resolve(ConfigSources(CARTPOLE, overrides=(f"{RATE}=1e-5",)))
    assert settings_at_first(config)[1][RATE] == 1e-5
    assert ramp(config)["start"] == 1e-5


def test_a_ramp_keeps_the_ratio_of_its_end_to_its_start() -> None:
    own = ramp(resolve(ConfigSources("mario:standin")))
    given = ramp(resolve(ConfigSources("mario:standin", flags={"learn": {"learning_rate": 7e-5}})))
    assert (own["start"], own["end"]) == (7e-4, 5e-5)
    assert (given["start"], given["end"]) == (7e-5, pytest.approx(5e-6))


def test_a_value_on_the_command_line_moves_the_ramp_of_a_stored_config(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text(write_toml(to_values(resolve(ConfigSources(CARTPOLE)))))
    assert resolve(ConfigSources(CARTPOLE, file=file)) == resolve(ConfigSources(CARTPOLE))
    config = resolve(ConfigSources(CARTPOLE, file=file, overrides=(f"{RATE}=1e-5",)))
    assert config == resolve(ConfigSources(CARTPOLE, overrides=(f"{RATE}=1e-5",)))


def test_a_key_and_a_start_in_one_file_that_differ_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(
        f'[learn]\nlearning_rate = 1e-5\n[[schedule]]\nkind="ramp"\nname="rate"\n'
        f'setting="{RATE}"\nstart=1e-3\n'
    )
    with pytest.raises(ConfigError, match=r"1e-05 would have no effect: schedule\.rate sets"):
        resolve(ConfigSources(CARTPOLE, file=file))
    file.write_text(file.read_text().replace("start=1e-3", ""))
    assert settings_at_first(resolve(ConfigSources(CARTPOLE, file=file)))[1][RATE] == 1e-5


@pytest.mark.parametrize(
    "table",
    [
        "kind='ramp', start=0.5, along='iterations', finish=9",
        "kind='adaptive', start=0.5, metric='train/entropy', band=[0,1], limits=[0.5,2.0]",
    ],
)
def test_a_start_of_its_own_is_named_with_the_remedy(table: str) -> None:
    schedule = f"schedule=[{{name='x', setting='{RATE}', {table}}}]"
    with pytest.raises(ConfigError, match=r"schedule\.x sets .* to 0\.5 .*; remove its start"):
        resolve(ConfigSources(CARTPOLE, overrides=(schedule, f"{RATE}=1e-5")))


def test_phases_that_overwrite_a_value_at_once_are_named_and_later_ones_are_not() -> None:
    schedule = (
        "schedule=[{kind='phases', name='x', "
        "phases=[{name='a', start=BEGIN, assign={'learn.learning_rate'=0.5}}]}]"
    )
    given = f"{RATE}=1e-5"
    with pytest.raises(ConfigError, match=r"schedule\.x sets .* to 0\.5 .*; change that"):
        resolve(ConfigSources(CARTPOLE, overrides=(schedule.replace("BEGIN", "0"), given)))
    config = resolve(ConfigSources(CARTPOLE, overrides=(schedule.replace("BEGIN", "99"), given)))
    assert settings_at_first(config)[1][RATE] == 1e-5


def test_a_ladder_keeps_a_value_that_is_one_of_its_rungs() -> None:
    schedule = f"schedule=[{{kind='ladder',name='x',setting='{RATE}',values=[0.5,0.25],at=[9]}}]"
    config = resolve(ConfigSources(CARTPOLE, overrides=(schedule, f"{RATE}=0.25")))
    assert settings_at_first(config)[1][RATE] == 0.25
    with pytest.raises(ConfigError, match=r"schedule\.x sets .* to 0\.5"):
        resolve(ConfigSources(CARTPOLE, overrides=(schedule, f"{RATE}=0.1")))


def test_the_task_s_own_controllers_are_named_with_their_key() -> None:
    with pytest.raises(
        ConfigError, match=r"learn\.learning_rate = 1e-05 .* change options\.phases"
    ):
        resolve(ConfigSources("nethack", overrides=(f"{RATE}=1e-5",)))
    with pytest.raises(ConfigError, match=r"change options\.training\.ladder instead"):
        resolve(
            ConfigSources("fish", preset="gate", overrides=("options.reward.density_penalty=0.5",))
        )


def test_a_value_like_the_preset_s_is_not_refused() -> None:
    own = resolve(ConfigSources("nethack"))
    given = override(RATE, own.learn.learning_rate)
    assert resolve(ConfigSources("nethack", overrides=(given,))) == own

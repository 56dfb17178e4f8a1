from __future__ import annotations

import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from longhaul.app.build.sources import (
    ConfigSources,
    differences,
    find_kind,
    from_values,
    parse_override,
    read_preset,
    resolve,
    to_values,
)
from longhaul.core.config import flatten, merge
from longhaul.core.errors import ConfigError
from longhaul.runs.toml import write_toml
from tests.app.small import CARTPOLE

KEYS = st.text("abcdefgh_", min_size=1, max_size=4)
LEAVES = st.one_of(st.integers(-9, 9), st.booleans(), st.text(max_size=5), st.floats(0, 1))
TABLES = st.recursive(
    st.dictionaries(KEYS, LEAVES, max_size=3),
    lambda inner: st.dictionaries(KEYS, st.one_of(LEAVES, inner), max_size=3),
    max_leaves=8,
)
PRESET = read_preset(find_kind(CARTPOLE), CARTPOLE, "")
POSITIVE = st.integers(1, 10**6)
SHARES = st.floats(0.0, 1.0, exclude_min=True)


@st.composite
def configs(draw: st.DrawFn) -> dict[str, Any]:
    """Values of a valid configuration."""
    chunk = draw(st.integers(1, 16))
    return {
        "task": draw(st.sampled_from([CARTPOLE, "probe:recall", "probe:chase"])),
        "name": draw(st.text(min_size=1, max_size=20)),
        "seed": draw(st.integers(0, 2**70)),
        "total_timesteps": draw(POSITIVE),
        "collect": {"num_steps": chunk * draw(st.integers(1, 9)), "chunk": chunk},
        "policy": {
            "hidden": draw(st.lists(POSITIVE, max_size=3)),
            "core": draw(st.sampled_from(["none", "gru", "lstm"])),
            "noise_scale": draw(SHARES),
        },
        "learn": {
            "algorithm": draw(st.sampled_from(["ppo", "vtrace"])),
            "learning_rate": draw(SHARES),
            "gamma": draw(SHARES),
        },
        "checkpoint": {"every_seconds": draw(st.one_of(SHARES, st.just(float("inf"))))},
        "schedule": draw(
            st.lists(
                st.fixed_dictionaries(
                    {"kind": st.just("ramp"), "name": st.text(min_size=1), "start": SHARES}
                ),
                max_size=2,
            )
        ),
    }


def test_later_sources_win_over_earlier_ones(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text("total_timesteps = 7\nseed = 7\nnum_envs = 7\n")
    config = resolve(
        ConfigSources(
            task=CARTPOLE,
            file=file,
            flags={"seed": 8, "num_envs": 8, "name": None},
            overrides=("num_envs=9", "num_envs=10"),
        )
    )
    assert config.learn.learning_rate == PRESET["learn"]["learning_rate"]  # in none of the others
    assert config.total_timesteps == 7  # the file's, over the preset's
    assert config.seed == 8  # the flag's, over the file's
    assert config.num_envs == 10  # the last override's
    assert config.name == "default"  # a flag that was not given changes nothing


def test_a_table_in_a_file_keeps_the_other_values_of_the_preset(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text("[learn]\nn_epochs = 9\n")
    config = resolve(ConfigSources(task=CARTPOLE, file=file))
    assert config.learn.n_epochs == 9
    assert config.learn.learning_rate == PRESET["learn"]["learning_rate"]


def test_a_named_preset_replaces_the_tasks_own() -> None:
    named = resolve(ConfigSources(task=CARTPOLE, preset="LunarLander-v3"))
    own = resolve(ConfigSources(task="gym:LunarLander-v3"))
    assert named == replace(own, task=CARTPOLE)


def test_a_task_without_a_preset_takes_the_defaults() -> None:
    task = "gym:Toy/Walk-v0"
    assert resolve(ConfigSources(task=task)) == from_values({"task": task})


def test_options_are_filled_in_with_the_tasks_defaults() -> None:
    config = resolve(ConfigSources(task="probe:recall", overrides=("options.delay=3",)))
    assert config.options["delay"] == 3
    assert config.options["cues"] == 4


@settings(max_examples=40)
@given(configs())
def test_a_config_survives_a_file(values: dict[str, Any]) -> None:
    config = from_values(values)
    assert from_values(tomllib.loads(write_toml(to_values(config)))) == config


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("seed=3", {"seed": 3}),
        ("learn.gamma=0.5", {"learn": {"gamma": 0.5}}),
        ("policy.hidden=[8, 9]", {"policy": {"hidden": [8, 9]}}),
        ("collect.overlap=true", {"collect": {"overlap": True}}),
        ("device=cpu", {"device": "cpu"}),
        ("name='3'", {"name": "3"}),
        ("name=a=b", {"name": "a=b"}),
        ("name=", {"name": ""}),
        (" seed = 3", {"seed": 3}),
        ("options.kwargs={gravity = 1.5}", {"options": {"kwargs": {"gravity": 1.5}}}),
    ],
)
def test_an_override_is_toml_or_else_text(text: str, expected: dict[str, Any]) -> None:
    assert parse_override(text) == expected


@pytest.mark.parametrize("text", ["seed", "=3", " =3", ""])
def test_an_override_without_key_or_value_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="--set takes key=value"):
        parse_override(text)


@given(TABLES)
def test_nothing_differs_from_itself(values: dict[str, Any]) -> None:
    assert differences(values, values) == {}


@given(TABLES, KEYS, LEAVES)
def test_a_changed_value_is_the_difference(
    values: dict[str, Any], key: str, value: int | str | float
) -> None:
    changed = merge(values, {key: value})
    found = differences(values, changed)
    before, after = flatten(values), flatten(changed)
    assert set(found) == {k for k in before | after if before.get(k) != after.get(k)}
    assert all(found[k] == (before.get(k), after.get(k)) for k in found)


@given(TABLES)
def test_flat_keys_lead_to_their_values(values: dict[str, Any]) -> None:
    for path, value in flatten(values).items():
        inner: Any = values
        for part in path.split("."):
            inner = inner[part]
        assert inner == value


def test_keys_that_change_nothing_computed_may_differ() -> None:
    old = to_values(resolve(ConfigSources(task=CARTPOLE)))
    free = ("total_timesteps=5", "checkpoint.keep_last=9", "evaluate.final_episodes=1")
    new = to_values(resolve(ConfigSources(task=CARTPOLE, overrides=free)))
    assert differences(old, new) == {}
    assert differences(old, new, ignore=()).keys() == {
        "total_timesteps",
        "checkpoint.keep_last",
        "evaluate.final_episodes",
    }


def test_another_learner_leaves_out_what_only_the_presets_learner_has(tmp_path: Path) -> None:
    preset = to_values(resolve(ConfigSources(task=CARTPOLE)))
    config = resolve(ConfigSources(task=CARTPOLE, overrides=("learn.algorithm=vtrace",)))
    values = to_values(config)
    assert "gae_lambda" in preset["learn"]
    assert "gae_lambda" not in values["learn"]
    assert differences(preset, values) == {"learn.algorithm": ("ppo", "vtrace")}
    # A config stored before learners had keys of their own holds all of them.
    stored = tmp_path / "config.toml"
    stored.write_text(write_toml(merge(preset, {"learn": {"algorithm": "vtrace"}})))
    assert resolve(ConfigSources(task=CARTPOLE, file=stored)) == config

"""Every preset describes a run that could begin."""

from __future__ import annotations

from pathlib import Path

import pytest

from longhaul.app.assemble import build_schedule, build_settings, build_task
from longhaul.app.configure import ConfigSources, resolve
from longhaul.core.errors import ConfigError
from longhaul.tasks.nethack.task import TASK

ARMS = ("baseline", "manager", "full")


@pytest.mark.parametrize("preset", TASK.preset_names())
def test_a_preset_resolves_and_its_schedule_begins(preset: str) -> None:
    config = resolve(ConfigSources("nethack", preset=preset))
    task = build_task(config)
    settings = build_settings(config, task)
    begun, _ = build_schedule(config, task, settings).begin(settings)
    assert begun.values()["router.kind"] == "softmax"
    assert config.collect.chunk == 1


def test_the_arms_of_the_ablation_differ_in_nothing_but_their_mode() -> None:
    texts = [(Path(TASK.presets) / f"{arm}.toml").read_text().splitlines() for arm in ARMS]
    for lines in texts[1:]:
        differing = [(a, b) for a, b in zip(texts[0], lines, strict=True) if a != b]
        assert [pair for pair in differing if not pair[0].startswith(("#", "mode"))] == []


def test_an_unknown_option_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(ConfigError, match=r"did you mean 'options\.phases\.mode'"):
        build_task(resolve(ConfigSources("nethack", overrides=("options.phases.mod=full",))))


def test_runs_under_different_caps_are_measured_under_different_conditions() -> None:
    found = set()
    for cap in (500, 2000):
        overrides = (f"options.max_steps={cap}",)
        task = build_task(resolve(ConfigSources("nethack", preset="full", overrides=overrides)))
        assert task.evaluation.suite is not None
        (name,) = task.evaluation.final
        found.add(task.evaluation.suite(name).conditions)
    assert found == {"cap 500", "cap 2000"}

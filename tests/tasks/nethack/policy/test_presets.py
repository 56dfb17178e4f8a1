"""Every preset and every example describes a run that could begin."""

from __future__ import annotations

from pathlib import Path

import pytest

from longhaul.app.build.components import build_schedule, build_settings, build_task
from longhaul.app.build.sources import ConfigSources, resolve, to_values
from longhaul.core.errors import ConfigError
from longhaul.tasks.nethack.task import TASK

EXAMPLES = Path(__file__).parents[4] / "examples" / "nethack"
ARMS = ("baseline", "manager", "full")
SOURCES = {
    **{name: ConfigSources("nethack", preset=name) for name in TASK.preset_names()},
    **{path.name: ConfigSources("nethack", file=path) for path in sorted(EXAMPLES.glob("*.toml"))},
}


@pytest.mark.parametrize("sources", SOURCES.values(), ids=SOURCES)
def test_a_preset_or_example_resolves_and_its_schedule_begins(sources: ConfigSources) -> None:
    config = resolve(sources)
    task = build_task(config)
    settings = build_settings(config, task)
    begun, _ = build_schedule(config, task, settings).begin(settings)
    if config.options.get("network") == "plain":
        assert begun.values()["learn.teacher_policy_coef"] == 0.0
    else:
        assert begun.values()["router.kind"] == "softmax"
        assert config.collect.chunk == 1


def test_the_arms_of_the_ablation_differ_in_nothing_but_their_mode() -> None:
    values = [to_values(resolve(SOURCES[f"{arm}.toml"])) for arm in ARMS]
    modes = [one["options"]["phases"].pop("mode") for one in values]
    assert modes == list(ARMS)
    assert values[0] == values[1] == values[2]


def test_an_unknown_option_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(ConfigError, match=r"did you mean 'options\.phases\.mode'"):
        build_task(resolve(ConfigSources("nethack", overrides=("options.phases.mod=full",))))


def test_runs_under_different_caps_are_measured_under_different_conditions() -> None:
    found = set()
    for cap in (500, 2000):
        overrides = (f"options.max_steps={cap}",)
        task = build_task(resolve(ConfigSources("nethack", overrides=overrides)))
        assert task.evaluation.suite is not None
        (name,) = task.evaluation.final
        found.add(task.evaluation.suite(name).conditions)
    assert found == {"cap 500", "cap 2000"}

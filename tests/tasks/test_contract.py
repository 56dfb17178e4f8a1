"""Every installed task keeps the contract, and every preset can be run."""

from __future__ import annotations

import pytest

from longhaul.app.build.components import build_schedule, build_settings, build_task
from longhaul.app.build.sources import ConfigSources, Reference, find_kind, resolve, task_names
from tests.contracts.task_contract import TaskContract

EXAMPLES = [example for kind in task_names() for example in find_kind(kind).examples]
PRESETS = [(kind, preset) for kind in task_names() for preset in find_kind(kind).preset_names()]


class TestInstalledTasks(TaskContract):
    @pytest.fixture(params=EXAMPLES)
    def name(self, request: pytest.FixtureRequest) -> str:
        return str(request.param)


@pytest.mark.parametrize("kind", task_names())
def test_a_kind_says_what_it_is_and_gives_examples(kind: str) -> None:
    found = find_kind(kind)
    assert found.name == kind
    assert found.summary
    assert found.examples
    assert all(Reference.parse(example).kind == kind for example in found.examples)


def example_for(kind: str, preset: str) -> str:
    """Return the example a preset is made for, or the kind's first one."""
    examples = find_kind(kind).examples
    made_for = [e for e in examples if Reference.parse(e).argument == preset]
    return (made_for or list(examples))[0]


@pytest.mark.parametrize(("kind", "preset"), PRESETS)
def test_a_preset_resolves_to_a_run_that_can_be_built(kind: str, preset: str) -> None:
    config = resolve(ConfigSources(task=example_for(kind, preset), preset=preset))
    task = build_task(config)
    settings = build_settings(config, task)
    build_schedule(config, task, settings)
    rows = config.num_envs * task.envs.spec.rows
    assert config.total_timesteps >= config.collect.num_steps * rows, "not even one rollout"
    assert config.learn.minibatch_size <= config.collect.num_steps * rows


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_brings_its_own_preset(example: str) -> None:
    kind, argument = find_kind(example), Reference.parse(example).argument
    if argument in kind.preset_names():
        explicit = resolve(ConfigSources(task=example, preset=argument))
        assert resolve(ConfigSources(task=example)) == explicit

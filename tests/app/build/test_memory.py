from __future__ import annotations

import json
from pathlib import Path

import pytest

from longhaul.app.build.components import build_task
from longhaul.app.build.memory import memory_plan, replay_plan
from longhaul.app.session.start import build_checked, show_plan
from longhaul.core.errors import ConfigError
from longhaul.runs.reader import read_metrics
from tests.app.small import CARTPOLE, finished_run, small_config

REPLAY = ("learn.replay.enabled=true", "learn.replay.capacity=128", "learn.replay.batch=32")


def test_a_replay_is_part_of_the_memory_plan() -> None:
    config = small_config(CARTPOLE, *REPLAY)
    sizes = memory_plan(config, build_task(config)).sizes
    assert sizes["replay of 128 transitions"] == replay_plan(config, build_task(config)).nbytes
    plain = small_config(CARTPOLE)
    assert not any("replay" in name for name in memory_plan(plain, build_task(plain)).sizes)


def test_a_replay_that_shrinks_is_told_of() -> None:
    tight = small_config(CARTPOLE, *REPLAY, "learn.replay.memory_megabytes=0.005")
    text = show_plan(tight, as_json=False)
    assert "transitions instead of 128" in text
    assert json.loads(show_plan(tight, as_json=True))["notices"]


@pytest.mark.parametrize(
    ("override", "named"),
    [
        ("learn.replay.length=5", "must divide collect.num_steps = 16"),
        ("learn.replay.capacity=16", "one rollout brings 32"),
    ],
)
def test_a_replay_that_cannot_work_is_refused_before_there_is_a_run(
    override: str, named: str
) -> None:
    with pytest.raises(ConfigError, match=named):
        build_checked(small_config(CARTPOLE, *REPLAY, override))


@pytest.mark.parametrize("task", [CARTPOLE, "probe:chase"])
def test_the_planned_capacity_is_the_one_of_the_run(task: str, tmp_path: Path) -> None:
    overrides = (*REPLAY, "learn.replay.capacity=1024", "learn.replay.memory_megabytes=0.02")
    run = finished_run(tmp_path, *overrides, task=task)
    config = small_config(task, *overrides)
    plan = replay_plan(config, build_task(config))
    last = read_metrics(run).rows[-1]
    assert last["replay/capacity"] == plan.sequences * plan.length
    assert plan.sequences < plan.wanted

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from longhaul.app.build.components import build_policy, build_task
from longhaul.app.build.sources import resolve
from longhaul.core.env import Episode
from longhaul.core.errors import ConfigError
from longhaul.tasks.nethack.commands.arms import ARMS, experiment
from longhaul.tasks.nethack.commands.measure import (
    WHOLE,
    compare_parts,
    held_out,
    measure_experts,
    measure_script,
)
from tests.app.small import finished_run

pytestmark = pytest.mark.nethack


def games(*scores: float) -> tuple[Episode, ...]:
    return tuple(
        Episode(0, number, number, 9, score, "death", {"score": score})
        for number, score in enumerate(scores)
    )


def test_what_a_part_is_worth_is_compared_game_by_game() -> None:
    table = compare_parts({WHOLE: games(10.0, 20.0, 90.0), "rest": games(4.0, 14.0, 84.0)})
    whole, less = table.rows
    assert (whole.mean, whole.difference) == (40.0, 0.0)
    # Each game is worse by six: the interval knows it, however different the games are.
    assert less.difference == -6.0
    assert less.difference_interval == (-6.0, -6.0)
    assert "rest" in table.as_text()


def test_the_script_is_measured_without_its_parts() -> None:
    table = measure_script(("descend",), actions="score", games=3, cap=300)
    assert [row.without for row in table.rows] == [WHOLE, "descend"]
    assert table.games == 3
    with pytest.raises(ConfigError, match="must be at least 1"):
        held_out(0)


def test_arms_have_as_many_weights_but_for_a_twentieth() -> None:
    found = {}
    planned = experiment((), seeds=1, root=Path("runs"), overrides=())
    for arm in planned.arms:
        config = resolve(planned.sources(arm, 1))
        policy = build_policy(config, build_task(config), torch.device("cpu"))
        found[arm.name] = sum(weight.numel() for weight in policy.parameters())
    assert set(found) == set(ARMS)
    assert max(found.values()) <= 1.05 * min(found.values()), found


def test_an_arm_that_is_not_there_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"no arm 'shufled'; did you mean 'shuffled'"):
        experiment(("shufled",), seeds=1, root=Path("runs"), overrides=())


def test_experts_are_knocked_out_one_by_one(tmp_path: Path) -> None:
    shape = ("options.network=plain", "options.play=skills", "options.max_steps=200")
    run = finished_run(tmp_path, *shape, "env.runtime=serial", task="nethack")
    table = measure_experts(run.path, games=2)
    assert next(row.without for row in table.rows) == WHOLE
    assert len(table.rows) == 5

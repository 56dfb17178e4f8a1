"""A kill at any change of a file, once or twice in a row, changes nothing in the end."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.durability.child import Children
from tests.durability.sweep import Sweeper, sweep, table
from tests.durability.workload import WORKLOADS

pytestmark = pytest.mark.thorough
FEWEST_POINTS = {"explore": 20, "search": 20}
ALL_POINTS = "simple"
SAMPLED = 15
"""Points of each other workload, which change their files at the same places for the most part;
`python -m tests.durability.sweep` takes all."""


@pytest.mark.parametrize("workload", WORKLOADS)
def test_kills_at_some_points_change_nothing(
    crew: Children, quick_folder: Path, workload: str
) -> None:
    sweeper = Sweeper.of(crew, quick_folder, workload)
    assert len(sweeper.points) > FEWEST_POINTS.get(workload, 100)
    kills = list(sweep(sweeper, random.Random(1).sample(list(sweeper.plan(1)), 2)))
    assert len(kills) == 8
    assert not [kill for kill in kills if kill.problem], table(kills)


@pytest.mark.slow
@pytest.mark.parametrize("workload", WORKLOADS)
def test_kills_at_every_point_change_nothing(
    crew: Children,
    quick_folder: Path,
    workload: str,
    record_property: Callable[[str, object], None],
) -> None:
    sweeper = Sweeper.of(crew, quick_folder, workload)
    points = list(sweeper.plan(2))
    if workload != ALL_POINTS:
        points = random.Random(2).sample(points, SAMPLED)
    kills = list(sweep(sweeper, points))
    record_property("points, runs", f"{len(points)} of {len(sweeper.points)}, {len(kills)}")
    assert len(kills) == 4 * len(points)
    assert not [kill for kill in kills if kill.problem], table(kills)

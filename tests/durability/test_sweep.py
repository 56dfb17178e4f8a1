"""A kill at any change of a file, once or twice in a row, changes nothing in the end."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.durability.child import Children
from tests.durability.sweep import Sweeper, sweep, table
from tests.durability.workload import WORKLOADS

pytestmark = pytest.mark.thorough
FEWEST_POINTS = {"explore": 20, "search": 20}


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
    crew: Children, quick_folder: Path, workload: str
) -> None:
    sweeper = Sweeper.of(crew, quick_folder, workload)
    kills = list(sweep(sweeper, list(sweeper.plan(2))))
    assert len(kills) == 4 * len(sweeper.points)
    assert not [kill for kill in kills if kill.problem], table(kills)

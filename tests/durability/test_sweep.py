"""A kill at any change of a file, once or twice in a row, changes nothing in the end."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.durability.child import Children
from tests.durability.sweep import Sweeper, sweep, table

pytestmark = pytest.mark.thorough


def test_kills_at_some_points_change_nothing(crew: Children, quick_folder: Path) -> None:
    sweeper = Sweeper.of(crew, quick_folder)
    assert len(sweeper.points) > 60
    kills = sweep(sweeper, random.Random(1).sample(list(sweeper.plan(1)), 3))
    assert len(kills) == 12
    assert not [kill for kill in kills if kill.problem], table(kills)


@pytest.mark.slow
def test_kills_at_every_point_change_nothing(crew: Children, quick_folder: Path) -> None:
    sweeper = Sweeper.of(crew, quick_folder)
    kills = sweep(sweeper, list(sweeper.plan(2)))
    assert len(kills) > 60 * 2 * 2
    assert not [kill for kill in kills if kill.problem], table(kills)

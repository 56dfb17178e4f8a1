from __future__ import annotations

import numpy as np
import pytest

from longhaul.core.env import SingleEnvs
from longhaul.core.errors import ConfigError
from longhaul.core.seeds import Seeds
from longhaul.core.state import State
from longhaul.engine.archive import NOWHERE, Archive, Way
from longhaul.engine.explorer import Explorer, ExplorerOptions
from longhaul.envs.search_space import EnvSpace
from longhaul.tasks.probe.lock import LockFactory

LOCK = LockFactory(positions=12)


def lock_space(count: int = 4) -> EnvSpace:
    return EnvSpace(SingleEnvs(LOCK.spec, LOCK), count)


def explorer(seed: int = 0) -> Explorer:
    made = Explorer(lock_space(), Seeds(seed).generator("explore"))
    made.begin()
    return made


def solved(one: Explorer) -> bytes:
    while one.solution is None:
        one.advance()
    return one.solution


def test_a_search_finds_the_decisions_that_chance_would_never_find() -> None:
    assert tuple(solved(explorer())) == LOCK.key


def test_the_seed_alone_decides_a_search() -> None:
    first, again, other = explorer(0), explorer(0), explorer(1)
    for one in (first, again, other):
        solved(one)
    assert first.archive.digest() == again.archive.digest()
    assert first.archive.digest() != other.archive.digest()


@pytest.mark.parametrize("stop_after", [1, 7, 20])
def test_a_search_that_is_saved_and_restored_goes_on_as_if_it_had_never_stopped(
    stop_after: int,
) -> None:
    whole = explorer()
    solved(whole)
    first = explorer()
    for _ in range(stop_after):
        first.advance()
    second = Explorer(lock_space(), np.random.default_rng(99))
    second.load_state_dict(first.state_dict())
    solved(second)
    assert second.steps == whole.steps
    assert second.archive.digest() == whole.archive.digest()


def filled(count: int) -> Archive:
    archive = Archive()
    for cell in range(count):
        way = Way(float(cell), cell - 1 if cell else NOWHERE, bytes([cell % 256]))
        archive.add(1000 + cell, np.array([cell % 256], np.uint8), way)
    return archive


def test_a_way_is_the_decisions_of_all_its_parents() -> None:
    archive = filled(5)
    assert archive.decisions(archive.node(4)) == bytes(range(5))


def test_a_cheaper_way_takes_the_place_of_a_cells_state_and_spoils_no_other_way() -> None:
    archive = filled(5)
    archive.improve(2, np.array([77], np.uint8), Way(0.5, archive.node(0), b"\x09"))
    assert archive.cost(2) == 0.5
    assert archive.saved(2).tolist() == [77]
    assert archive.decisions(archive.node(2)) == b"\x00\x09"
    assert archive.decisions(archive.node(4)) == bytes(range(5))


def test_an_archive_comes_back_from_its_state() -> None:
    archive = filled(1500)
    archive.choose(np.random.default_rng(0), 50, newest=0.4)
    archive.count_seen(3)
    copy = Archive()
    state: State = archive.state_dict()
    copy.load_state_dict(state)
    assert copy.digest() == archive.digest()
    assert copy.slot(1000 + 1499) == 1499
    assert copy.decisions(copy.node(700)) == archive.decisions(archive.node(700))


def test_cells_that_were_chosen_often_are_chosen_less() -> None:
    archive, rng = filled(2), np.random.default_rng(0)
    for _ in range(2000):
        archive.choose(rng, 1, newest=0.0)
    # Each choice lowers a cell's weight, which keeps both alike.
    assert archive.state_dict()["chosen"] == pytest.approx([1000, 1000], abs=60)


def test_a_share_of_the_choices_is_among_the_newest_cells() -> None:
    archive = filled(6000)
    picks = archive.choose(np.random.default_rng(0), 4000, newest=0.5)
    # A twelfth of the cells gets half of the choices and its part of the other half.
    assert np.mean(picks >= 5500) == pytest.approx(0.5 + 0.5 / 12, abs=0.03)


def test_holds_must_be_possible() -> None:
    with pytest.raises(ConfigError, match="holds"):
        ExplorerOptions(holds=())

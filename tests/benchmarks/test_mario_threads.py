"""What a second thread brings, and what the machine allows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from benchmarks.mario_threads import Round, Scaling, bench_threads, measure_scaling

from longhaul.app.bench.training import Advance
from longhaul.tasks.mario.rom import find_rom
from tests.tasks.mario.cartridges import game_or_skip


def test_what_a_thread_brings_stands_beside_what_a_core_brings() -> None:
    found = Scaling(
        "pixels",
        (
            Round(one=10, two=18, alone=10, apart=20),
            Round(10, 12, 10, 13),
            *[Round(10, 15, 10, 16)],
        ),
    )
    assert (found.median, found.allowed) == (1.5, 1.6)


def test_whole_and_half_batches_are_stepped_in_turn() -> None:
    asked: list[tuple[int, int]] = []

    @contextmanager
    def vectors(games: int, threads: int) -> Iterator[Advance]:
        asked.append((games, threads))
        yield lambda number: None

    found = measure_scaling("tiles", vectors, games=6, seconds=0.001)
    assert asked == [(6, 1), (6, 2), (3, 1), (3, 1)]
    assert len(found.rounds) == 3
    assert all(one.scaling > 0 and one.allowed > 0 for one in found.rounds)


@pytest.mark.emulator
def test_pixels_and_tiles_are_measured() -> None:
    game_or_skip()
    found = bench_threads(find_rom(""), games=2, seconds=0.02)
    assert [len(rounds) for rounds in found.values["scaling"].values()] == [3, 3]
    assert "a second thread" in found.as_text()

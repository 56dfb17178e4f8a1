"""How much faster two threads step Mario's games than one, beside what the cores allow."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, replace
from itertools import count

from benchmarks import command
from longhaul.app.bench.table import Section, SpeedTable
from longhaul.app.bench.training import Advance, our_vector
from longhaul.envs.config import EnvConfig
from longhaul.tasks.mario.game.games import GameFactory
from longhaul.tasks.mario.game.options import GameOptions
from longhaul.tasks.mario.rom import Rom, find_rom

SLICE_SECONDS = 0.1
"""Short, so all four measurements of a round meet the same machine."""
SLICES = 4
FRAMES = 4  # of a step
Vectors = Callable[[int, int], AbstractContextManager[Advance]]
"""Gives an environment of so many games and threads."""


@dataclass(frozen=True, slots=True)
class Round:
    """Games stepped a second, four ways, one right after the other."""

    one: float  # all games, by one thread
    two: float  # all games, by two threads that share each step
    alone: float  # half of the games, by one thread
    apart: float  # two halves that know nothing of each other, by one thread each

    @property
    def scaling(self) -> float:
        """What the second thread brings."""
        return self.two / self.one

    @property
    def allowed(self) -> float:
        """What the second core brings to work that needs no other."""
        return self.apart / self.alone


@dataclass(frozen=True, slots=True)
class Scaling:
    """What a second thread brings to one kind of observation."""

    name: str
    rounds: tuple[Round, ...]

    @property
    def median(self) -> float:
        """Two threads over one, over all rounds."""
        return statistics.median(one.scaling for one in self.rounds)

    @property
    def allowed(self) -> float:
        """What the cores allowed, over all rounds."""
        return statistics.median(one.allowed for one in self.rounds)


def measure_scaling(name: str, vectors: Vectors, *, games: int, seconds: float) -> Scaling:
    """Measure one kind of observation for about so long, in short slices taken in turn."""
    half = max(1, games // 2)
    slice_seconds = min(SLICE_SECONDS, seconds)
    with ExitStack() as stack:
        one, two, first, second = (
            _Stepping(stack.enter_context(vectors(number, threads)), number, slice_seconds)
            for number, threads in ((games, 1), (games, 2), (half, 1), (half, 1))
        )
        pool = stack.enter_context(ThreadPoolExecutor(1))

        def apart() -> float:
            other = pool.submit(second.rate)
            return first.rate() + other.result()

        def rounds() -> Iterator[Round]:
            while True:
                yield Round(one.rate(), two.rate(), first.rate(), apart())

        wanted = max(3, round(seconds / (slice_seconds * SLICES)))
        taken = rounds()
        next(taken)  # warms up
        return Scaling(name, tuple(next(taken) for _ in range(wanted)))


class _Stepping:
    """An environment that is stepped on and on, with short looks at how fast."""

    def __init__(self, advance: Advance, games: int, seconds: float) -> None:
        self._advance = advance
        self._games = games
        self._seconds = seconds
        self._number = count()

    def rate(self) -> float:
        """Step for a slice; return the games stepped a second."""
        steps, began = 0, time.perf_counter()
        while (took := time.perf_counter() - began) < self._seconds or not steps:
            self._advance(next(self._number))
            steps += 1
        return steps * self._games / took


def games_of(rom: Rom, *, is_pixels: bool) -> Vectors:
    """Return what gives so many games, stepped by so many threads."""
    tiles = GameOptions(frame_skip=FRAMES, rom=rom.source)
    options = replace(tiles, observation="pixels") if is_pixels else tiles
    source = GameFactory(options, rom.cartridge).envs()

    def games(count: int, threads: int) -> AbstractContextManager[Advance]:
        return our_vector(source, "batched", count, EnvConfig(threads=threads))

    return games


def bench_threads(rom: Rom, *, games: int, seconds: float) -> SpeedTable:
    """Measure pixels and tiles."""
    measured = [
        measure_scaling(name, games_of(rom, is_pixels=pixels), games=games, seconds=seconds)
        for name, pixels in (("pixels", True), ("tiles", False))
    ]
    rows = [
        (one.name, f"{one.median:.2f}", f"{one.allowed:.2f}", f"{one.median / one.allowed:.0%}")
        for one in measured
    ]
    header = ("a second thread", "brings", "free of each other", "share of that")
    return SpeedTable(
        "mario",
        f"{games} games of {rom.source}; {SLICE_SECONDS:g} s at a time, in turn",
        sections=(Section(header, rows),),
        values={
            "scaling": {
                one.name: [(each.scaling, each.allowed) for each in one.rounds] for one in measured
            }
        },
    )


def main(words: Sequence[str]) -> None:
    """Measure and print."""
    parser = command.parser("mario_threads", __doc__, task="mario", repeats=0)
    parser.add_argument("--num-envs", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=6.0, help="of pixels, and of tiles")
    parser.add_argument("--rom", default="", help="the .nes file, where it is not found")
    asked = parser.parse_args(words)
    found = bench_threads(find_rom(asked.rom), games=asked.num_envs, seconds=asked.seconds)
    command.show(found, as_json=asked.json)


if __name__ == "__main__":
    command.run(main)

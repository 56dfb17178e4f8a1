"""Measuring the game: our consoles, what is built on them, and other people's, in one run."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from longhaul.app.bench.env import EnvBenchRequest, our_vector
from longhaul.app.bench.mario_threads import Scaling, measure_scaling
from longhaul.app.bench.mario_threads import as_text as scaling_text
from longhaul.app.peers import mario as peer_mario
from longhaul.app.peers.mario import WARM_UP_SHARE
from longhaul.app.peers.script import isolated, run_peer_script
from longhaul.app.peers.vectors import DRAWN, Advance
from longhaul.app.text import columns
from longhaul.core.errors import ConfigError
from longhaul.envs.config import EnvConfig
from longhaul.envs.nes import layout
from longhaul.envs.nes.consoles import Consoles
from longhaul.envs.nes.picture import Picture
from longhaul.tasks.mario.actions import action_set
from longhaul.tasks.mario.game.games import mario_envs
from longhaul.tasks.mario.game.options import GameOptions
from longhaul.tasks.mario.game.stages import Stage
from longhaul.tasks.mario.game.starts import stage_start
from longhaul.tasks.mario.rom import Rom, find_rom

PEER_TITLES = {
    "nes-py": "nes-py raw core, 1 thread",
    "sync": "gymnasium sync over gym-super-mario-bros",
    "async": "gymnasium async over gym-super-mario-bros",
}
PEER_SECONDS = 120.0
"""Beside the measurement itself: starting 16 processes takes a while."""
FRAMES = 4
CORE_PIXELS, CORE_BLIND = "consoles alone, pixels, 1 thread", "consoles alone, unseen, 1 thread"
CORE_IDLE = "consoles alone, processor halted"
CORE_DRAWN = "consoles alone, drawn, not shrunk"
ONE_LINE = Picture(height=1, width=1, stack=1, first_line=239)
"""The whole screen is drawn, but only its last line is made smaller."""
PIXELS_1, PIXELS_2 = "longhaul pixels, 1 thread", "longhaul pixels, 2 threads"
TILES_1, TILES_2 = "longhaul tiles, 1 thread", "longhaul tiles, 2 threads"

System = Callable[[], AbstractContextManager[Advance]]


@dataclass(frozen=True, slots=True)
class Speed:
    """Agent steps a second, and a second of processor time, which other work does not change."""

    wall: float
    per_core: float | None
    """None where other processes do the work."""


@dataclass(frozen=True, slots=True)
class Speeds:
    """What one system did, once per repeat."""

    name: str
    each: tuple[Speed, ...]

    @property
    def wall(self) -> tuple[float, ...]:
        """Agent steps a second."""
        return tuple(speed.wall for speed in self.each)

    @property
    def per_core(self) -> tuple[float, ...]:
        """Agent steps a second of processor time; empty where it is not known."""
        known = tuple(speed.per_core for speed in self.each if speed.per_core is not None)
        return known if len(known) == len(self.each) else ()


@dataclass(frozen=True, slots=True)
class MarioBenchmark:
    """Speeds measured in turn on one machine, in agent steps a second of four frames each."""

    conditions: str
    measured: tuple[Speeds, ...]
    scaling: tuple[Scaling, ...]
    left_out: tuple[str, ...]

    def speeds(self, name: str) -> Speeds | None:
        """Return what was measured under a name."""
        return next((one for one in self.measured if one.name == name), None)

    def ratios(self) -> Iterator[tuple[str, tuple[float, ...]]]:
        """Yield what is worth comparing, repeat by repeat: per core where one thread works."""
        nes_py, sync, others = (PEER_TITLES[peer] for peer in ("nes-py", "sync", "async"))
        for upper, lower in (
            (CORE_PIXELS, nes_py),
            (PIXELS_1, nes_py),
            (PIXELS_1, sync),
            (TILES_1, CORE_BLIND),
            (PIXELS_1, CORE_PIXELS),
        ):
            one, other = self.speeds(upper), self.speeds(lower)
            if one and other and one.per_core and other.per_core:
                both = zip(one.per_core, other.per_core, strict=True)
                yield f"per core: {upper} / {lower}", tuple(a / b for a, b in both)
        one, other = self.speeds(PIXELS_2), self.speeds(others)
        if one and other:
            both = zip(one.wall, other.wall, strict=True)
            yield f"{PIXELS_2} / {others}", tuple(a / b for a, b in both)

    def costs(self) -> dict[str, float]:
        """Return where a decision with pixels spends its processor time, in microseconds."""
        found = {}
        for name in (CORE_IDLE, CORE_BLIND, CORE_DRAWN, CORE_PIXELS, PIXELS_1):
            speeds = self.speeds(name)
            if speeds is None or not speeds.per_core:
                return {}
            found[name] = 1e6 / statistics.median(speeds.per_core)
        blind, drawn = found[CORE_BLIND], found[CORE_DRAWN]
        return {
            "the game's processor, 4 frames": blind - found[CORE_IDLE],
            "the picture's timing, 4 frames": found[CORE_IDLE],
            "drawing 1 frame": drawn - blind,
            "shrinking it": found[CORE_PIXELS] - drawn,
            "the game layer": found[PIXELS_1] - found[CORE_PIXELS],
        }

    def as_text(self) -> str:
        """Return tables of speeds, ratios and costs."""
        rows = [
            (
                one.name,
                f"{statistics.median(one.wall):,.0f}",
                f"{statistics.median(one.wall) * FRAMES:,.0f}",
                f"{statistics.median(one.per_core) * FRAMES:,.0f}" if one.per_core else "",
            )
            for one in self.measured
        ]
        ratios = [
            (name, f"{statistics.median(found):.2f}", " ".join(f"{one:.2f}" for one in found))
            for name, found in self.ratios()
        ]
        costs = [(name, f"{cost:,.1f}") for name, cost in self.costs().items()]
        return "\n\n".join(
            [
                self.conditions,
                columns(rows, header=("mario", "steps/s", "frames/s", "frames/s per core")),
                columns(ratios, header=("ratio", "median", "each repeat")),
                scaling_text(self.scaling),
                columns(costs, header=("cost of a decision with pixels", "microseconds")),
                *self.left_out,
            ]
        )

    def as_json(self) -> str:
        """Return the measurements for programs."""
        return json.dumps(
            {
                "task": "mario",
                "conditions": self.conditions,
                "steps_per_second": {one.name: one.wall for one in self.measured},
                "steps_per_core_second": {
                    one.name: one.per_core for one in self.measured if one.per_core
                },
                "ratios": dict(self.ratios()),
                "scaling": {
                    one.name: [(each.scaling, each.allowed) for each in one.rounds]
                    for one in self.scaling
                },
                "costs": self.costs(),
                "left_out": self.left_out,
            }
        )


def bench_mario(request: EnvBenchRequest, *, rom: str = "", python: Path) -> MarioBenchmark:
    """Measure consoles, environments and peers in turn on stage 1-1 with random buttons."""
    found = find_rom(rom)
    systems = _systems(found, request.num_envs)
    peers = _peers(request.peer)
    left_out: tuple[str, ...] = ()
    if peers and not python.exists():
        left_out = (f"peers left out: there is no {python}; `make peers-mario` makes it",)
        peers = ()
    speeds: dict[str, list[Speed]] = {name: [] for name in systems}
    for _ in range(request.repeats):
        for name, system in systems.items():
            with system() as advance:
                speeds[name].append(measure(advance, request.num_envs, request.seconds))
        for peer in peers:
            speed = peer_speed(peer, python, request.num_envs, request.seconds)
            speeds.setdefault(PEER_TITLES[peer], []).append(speed)
    return MarioBenchmark(
        f"{request.num_envs} consoles on stage 1-1 of {found.source}, random buttons drawn before, "
        f"frame skip {FRAMES}, grey 84 x 84 x 4; {request.seconds:g} s each, in turn",
        tuple(Speeds(name, tuple(each)) for name, each in speeds.items()),
        _scaling(found, request),
        left_out,
    )


def measure(advance: Advance, count: int, seconds: float) -> Speed:
    """Return the speed of `count` games after a warm-up that does not count."""
    number = 0
    steps, took, used = 0, 0.0, 0.0
    for share in (WARM_UP_SHARE, 1.0):
        began, began_used, steps = time.perf_counter(), time.process_time(), 0
        while (took := time.perf_counter() - began) < seconds * share or not steps:
            advance(number)
            number += 1
            steps += 1
        used = time.process_time() - began_used
    return Speed(steps * count / took, steps * count / used)


def peer_speed(peer: str, python: Path, count: int, seconds: float) -> Speed:
    """Return the speed of one peer, measured by an interpreter of its own."""
    command = [*isolated(python, peer_mario.__file__), peer, str(count), str(seconds)]
    found = run_peer_script(peer, command, limit_seconds=seconds * 2 + PEER_SECONDS)
    wall = float(found["steps_per_second"])
    return Speed(wall, None if peer == "async" else wall / float(found["cpu_share"]))


def _peers(chosen: str) -> tuple[str, ...]:
    choices = {"none": (), "all": tuple(PEER_TITLES), **{name: (name,) for name in PEER_TITLES}}
    if chosen not in choices:
        raise ConfigError(f"--peer {chosen!r} is not known here; use one of {', '.join(choices)}")
    return choices[chosen]


def _games(rom: Rom, *, is_pixels: bool) -> Callable[[int, int], AbstractContextManager[Advance]]:
    """Return what gives so many games, stepped by so many threads."""
    tiles = GameOptions(frame_skip=FRAMES, rom=rom.source)
    options = replace(tiles, observation="pixels") if is_pixels else tiles
    source = mario_envs(options, rom.cartridge)

    def games(count: int, threads: int) -> AbstractContextManager[Advance]:
        return our_vector(source, "batched", count, EnvConfig(threads=threads))

    return games


def _systems(rom: Rom, count: int) -> dict[str, System]:
    tiles, pixels = _games(rom, is_pixels=False), _games(rom, is_pixels=True)
    return {
        CORE_IDLE: partial(_consoles, rom, count, draw=False, halted=True),
        CORE_BLIND: partial(_consoles, rom, count, draw=False),
        CORE_DRAWN: partial(_consoles, rom, count, ONE_LINE, draw=True),
        CORE_PIXELS: partial(_consoles, rom, count, draw=True),
        TILES_1: partial(tiles, count, 1),
        PIXELS_1: partial(pixels, count, 1),
        TILES_2: partial(tiles, count, 2),
        PIXELS_2: partial(pixels, count, 2),
    }


def _scaling(rom: Rom, request: EnvBenchRequest) -> tuple[Scaling, ...]:
    return tuple(
        measure_scaling(
            name,
            _games(rom, is_pixels=is_pixels),
            games=request.num_envs,
            seconds=request.seconds * request.repeats,
        )
        for name, is_pixels in (("pixels", True), ("tiles", False))
    )


@contextmanager
def _consoles(
    rom: Rom, count: int, picture: Picture | None = None, *, draw: bool, halted: bool = False
) -> Iterator[Advance]:
    """Give consoles without any game layer, put back to the start every 64 steps.

    In halted ones the picture goes on alone, as after an instruction that stops the processor.
    """
    start = stage_start(rom.cartridge, Stage(1, 1)).copy()
    start.view(np.int32)[layout.JAMMED] = int(halted)
    consoles = Consoles(rom.cartridge, count, picture)
    choices = np.array(action_set("simple").bytes, np.uint8)
    buttons = np.zeros((DRAWN, count, 2), np.uint8)
    buttons[:, :, 0] = np.random.default_rng(1).choice(choices, (DRAWN, count))

    def advance(number: int) -> None:
        if number % DRAWN == 0:
            consoles.states[:] = start
        consoles.step(buttons[number % DRAWN], frames=FRAMES, draw=draw)

    yield advance

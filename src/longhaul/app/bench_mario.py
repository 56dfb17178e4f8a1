"""Measuring the game: our consoles, what is built on them, and other people's, in one run."""

from __future__ import annotations

import json
import statistics
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

import longhaul.app.peer_mario as peer_script
from longhaul.app.bench import Measured
from longhaul.app.bench_env import EnvBenchRequest, our_vector, steps_per_second
from longhaul.app.peer_vectors import DRAWN, Advance
from longhaul.app.text import columns
from longhaul.core.errors import ConfigError
from longhaul.envs.config import EnvConfig
from longhaul.envs.nes.consoles import Consoles
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
PIXELS_1, PIXELS_2 = "longhaul pixels, 1 thread", "longhaul pixels, 2 threads"
TILES_1, TILES_2 = "longhaul tiles, 1 thread", "longhaul tiles, 2 threads"

System = Callable[[], AbstractContextManager[Advance]]


@dataclass(frozen=True, slots=True)
class MarioBenchmark:
    """Speeds measured in turn on one machine, in agent steps a second of four frames each."""

    conditions: str
    measured: tuple[Measured, ...]
    left_out: tuple[str, ...]

    def speed(self, name: str) -> Measured | None:
        """Return what was measured under a name."""
        return next((one for one in self.measured if one.name == name), None)

    def ratios(self) -> Iterator[tuple[str, tuple[float, ...]]]:
        """Yield what is worth comparing, repeat by repeat."""
        pairs = [
            (PIXELS_1, PEER_TITLES["nes-py"]),
            (CORE_PIXELS, PEER_TITLES["nes-py"]),
            *((PIXELS_2, PEER_TITLES[peer]) for peer in ("sync", "async")),
            (PIXELS_1, PEER_TITLES["sync"]),
            (PIXELS_2, PIXELS_1),
            (TILES_2, TILES_1),
            (TILES_1, CORE_BLIND),
            (PIXELS_1, CORE_PIXELS),
        ]
        for upper, lower in pairs:
            one, other = self.speed(upper), self.speed(lower)
            if one is not None and other is not None:
                both = zip(one.steps_per_second, other.steps_per_second, strict=True)
                yield f"{upper} / {lower}", tuple(a / b for a, b in both)

    def as_text(self) -> str:
        """Return tables of speeds and ratios."""
        rows = [
            (
                one.name,
                f"{one.median:,.0f}",
                f"{one.median * FRAMES:,.0f}",
                " ".join(f"{speed:,.0f}" for speed in one.steps_per_second),
            )
            for one in self.measured
        ]
        ratios = [
            (name, f"{statistics.median(found):.2f}", " ".join(f"{one:.2f}" for one in found))
            for name, found in self.ratios()
        ]
        blocks = [
            self.conditions,
            columns(rows, header=("mario", "steps/s", "frames/s", "each repeat")),
            columns(ratios, header=("ratio", "median", "each repeat")),
            *self.left_out,
        ]
        return "\n\n".join(blocks)

    def as_json(self) -> str:
        """Return the measurements for programs."""
        return json.dumps(
            {
                "task": "mario",
                "conditions": self.conditions,
                "steps_per_second": {one.name: one.steps_per_second for one in self.measured},
                "ratios": dict(self.ratios()),
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
    speeds: dict[str, list[float]] = {name: [] for name in systems}
    for _ in range(request.repeats):
        for name, system in systems.items():
            with system() as advance:
                measured = steps_per_second(advance, seconds=request.seconds)
                speeds[name].append(request.num_envs * measured)
        for peer in peers:
            speed = peer_speed(peer, python, request.num_envs, request.seconds)
            speeds.setdefault(PEER_TITLES[peer], []).append(speed)
    return MarioBenchmark(
        f"{request.num_envs} consoles on stage 1-1 of {found.source}, random buttons drawn before, "
        f"frame skip {FRAMES}, grey 84 x 84 x 4; {request.seconds:g} s each, in turn",
        tuple(Measured(name, tuple(each)) for name, each in speeds.items()),
        left_out,
    )


def peer_speed(peer: str, python: Path, count: int, seconds: float) -> float:
    """Return the agent steps a second of one peer, measured by an interpreter of its own."""
    script = Path(peer_script.__file__)
    command = [str(python), "-W", "ignore", str(script), peer, str(count), str(seconds)]
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=seconds * 2 + PEER_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise ConfigError(f"peer {peer} did not end within {error.timeout:.0f} s") from error
    lines = done.stdout.strip().splitlines()
    if done.returncode != 0 or not lines:
        last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise ConfigError(f"peer {peer} cannot be measured with {python}: {last}")
    return float(json.loads(lines[-1])["steps_per_second"])


def _peers(chosen: str) -> tuple[str, ...]:
    choices = {"none": (), "all": tuple(PEER_TITLES), **{name: (name,) for name in PEER_TITLES}}
    if chosen not in choices:
        raise ConfigError(f"--peer {chosen!r} is not known here; use one of {', '.join(choices)}")
    return choices[chosen]


def _systems(rom: Rom, count: int) -> dict[str, System]:
    tiles = GameOptions(frame_skip=FRAMES, rom=rom.source)
    pixels = replace(tiles, observation="pixels")

    def games(options: GameOptions, threads: int) -> System:
        source = mario_envs(options, rom.cartridge)
        return partial(our_vector, source, "batched", count, EnvConfig(threads=threads))

    return {
        CORE_BLIND: partial(_consoles, rom, count, draw=False),
        CORE_PIXELS: partial(_consoles, rom, count, draw=True),
        TILES_1: games(tiles, 1),
        PIXELS_1: games(pixels, 1),
        TILES_2: games(tiles, 2),
        PIXELS_2: games(pixels, 2),
    }


@contextmanager
def _consoles(rom: Rom, count: int, *, draw: bool) -> Iterator[Advance]:
    """Give consoles without any game layer, put back to the start every 64 steps."""
    start = stage_start(rom.cartridge, Stage(1, 1))
    consoles = Consoles(rom.cartridge, count)
    choices = np.array(action_set("simple").bytes, np.uint8)
    buttons = np.zeros((DRAWN, count, 2), np.uint8)
    buttons[:, :, 0] = np.random.default_rng(1).choice(choices, (DRAWN, count))

    def advance(number: int) -> None:
        if number % DRAWN == 0:
            consoles.states[:] = start
        consoles.step(buttons[number % DRAWN], frames=FRAMES, draw=draw)

    yield advance

"""Steps a second of Super Mario Bros.: our consoles, our environments, and other emulators."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np
from benchmarks.mario_threads import FRAMES, games_of
from benchmarks.peers import mario as peer_mario
from benchmarks.peers.mario import WARM_UP_SHARE
from benchmarks.processes import isolated, run_peer_script

from benchmarks import command
from longhaul.app.bench.table import Ratio, Section, Speeds, SpeedTable, ratio
from longhaul.app.bench.training import DRAWN, Advance, EnvBenchRequest, System
from longhaul.tasks.mario.actions import action_set
from longhaul.tasks.mario.console import layout
from longhaul.tasks.mario.console.consoles import Consoles
from longhaul.tasks.mario.console.picture import Picture
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
CORE_PIXELS, CORE_BLIND = "consoles alone, pixels, 1 thread", "consoles alone, unseen, 1 thread"
CORE_IDLE = "consoles alone, processor halted"
CORE_DRAWN = "consoles alone, drawn, not shrunk"
ONE_LINE = Picture(height=1, width=1, stack=1, first_line=239)
"""The whole screen is drawn, but only its last line is made smaller."""
PIXELS_1, PIXELS_2 = "longhaul pixels, 1 thread", "longhaul pixels, 2 threads"
TILES_1, TILES_2 = "longhaul tiles, 1 thread", "longhaul tiles, 2 threads"

Speed = tuple[float, float | None]
"""Agent steps a second, and a second of processor time, which other work does not change; None
where other processes do the work."""


def as_speeds(name: str, each: Sequence[Speed]) -> Speeds:
    """Return what one system did, once per repeat."""
    by_cpu = tuple(cpu for _, cpu in each if cpu is not None)
    return Speeds(name, tuple(wall for wall, _ in each), by_cpu if len(by_cpu) == len(each) else ())


def ratios(measured: Mapping[str, Speeds]) -> dict[str, Ratio]:
    """Return what is worth comparing, repeat by repeat: per core where one thread works."""
    nes_py, sync, others = (PEER_TITLES[peer] for peer in ("nes-py", "sync", "async"))
    found = {}
    for upper, lower in (
        (CORE_PIXELS, nes_py),
        (PIXELS_1, nes_py),
        (PIXELS_1, sync),
        (TILES_1, CORE_BLIND),
        (PIXELS_1, CORE_PIXELS),
    ):
        if upper in measured and lower in measured:
            both = measured[upper].per_cpu_second, measured[lower].per_cpu_second
            found[f"per core: {upper} / {lower}"] = ratio(*both)
    if PIXELS_2 in measured and others in measured:
        both = measured[PIXELS_2].per_second, measured[others].per_second
        found[f"{PIXELS_2} / {others}"] = ratio(*both)
    return found


def costs(measured: Mapping[str, Speeds]) -> dict[str, float]:
    """Return where a decision with pixels spends its processor time, in microseconds."""
    idle, blind, drawn, pixels, game = (
        1e6 / statistics.median(measured[name].per_cpu_second)
        for name in (CORE_IDLE, CORE_BLIND, CORE_DRAWN, CORE_PIXELS, PIXELS_1)
    )
    return {
        "the game's processor, 4 frames": blind - idle,
        "the picture's timing, 4 frames": idle,
        "drawing 1 frame": drawn - blind,
        "shrinking it": pixels - drawn,
        "the game layer": game - pixels,
    }


def bench_mario(
    request: EnvBenchRequest, peers: Sequence[str] = (), *, rom: str = "", python: Path
) -> SpeedTable:
    """Measure consoles, environments and peers in turn on stage 1-1 with random buttons."""
    found = find_rom(rom)
    systems = _systems(found, request.num_envs)
    left_out: tuple[str, ...] = ()
    if peers and not python.exists():
        left_out = (f"peers left out: there is no {python}; `make peers-mario` makes it",)
        peers = ()
    each: dict[str, list[Speed]] = {name: [] for name in systems}
    for _ in range(request.repeats):
        for name, system in systems.items():
            with system() as advance:
                each[name].append(measure(advance, request.num_envs, request.seconds))
        for peer in peers:
            speed = peer_speed(peer, python, request.num_envs, request.seconds)
            each.setdefault(PEER_TITLES[peer], []).append(speed)
    measured = {name: as_speeds(name, speeds) for name, speeds in each.items()}
    spent = costs(measured)
    shown = [(name, f"{cost:,.1f}") for name, cost in spent.items()]
    return SpeedTable(
        "mario",
        f"{request.num_envs} consoles on stage 1-1 of {found.source}, random buttons drawn before, "
        f"{FRAMES} frames a step, gray 84 x 84 x 4; {request.seconds:g} s each, in turn",
        tuple(measured.values()),
        ratios(measured),
        (Section(("cost of a decision with pixels", "microseconds"), shown),),
        left_out,
        {"costs": spent, "left_out": left_out},
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
    return steps * count / took, steps * count / used


def peer_speed(peer: str, python: Path, count: int, seconds: float) -> Speed:
    """Return the speed of one peer, measured by a separate interpreter."""
    command = [*isolated(python, peer_mario.__file__), peer, str(count), str(seconds)]
    found = run_peer_script(peer, command, limit_seconds=seconds * 2 + PEER_SECONDS)
    wall = float(found["steps_per_second"])
    return wall, None if peer == "async" else wall / float(found["cpu_share"])


def _systems(rom: Rom, count: int) -> dict[str, System]:
    tiles, pixels = games_of(rom, is_pixels=False), games_of(rom, is_pixels=True)
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


def main(words: Sequence[str]) -> None:
    """Measure and print."""
    parser = command.parser("mario", __doc__, task="mario")
    parser.add_argument("--peer", choices=("none", *PEER_TITLES, "all"), default="none")
    parser.add_argument("--num-envs", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=2.0, help="of each measurement")
    parser.add_argument("--rom", default="", help="the .nes file, where it is not found")
    parser.add_argument(
        "--peer-python", type=Path, default=Path(".venv-peers/bin/python"), help="has the peers"
    )
    asked = parser.parse_args(words)
    request = EnvBenchRequest(asked.num_envs, "batched", asked.seconds, asked.repeats)
    peers = {"none": (), "all": tuple(PEER_TITLES)}.get(asked.peer, (asked.peer,))
    found = bench_mario(request, peers, rom=asked.rom, python=asked.peer_python)
    command.show(found, as_json=asked.json)


if __name__ == "__main__":
    command.run(main)

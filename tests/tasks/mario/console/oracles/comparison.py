"""Comparing our console with another one, frame by frame."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from longhaul.tasks.mario.console.consoles import Consoles
from longhaul.tasks.mario.console.game import Cartridge
from longhaul.tasks.mario.console.layout import PC
from tests.tasks.mario.console.oracles.play import (
    AREA_POINTER,
    WORLD,
    Stage,
    all_stages,
    buttons,
    equip,
    is_running,
    title_is_ready,
)

Bytes = NDArray[np.uint8]
Pixels = NDArray[Any]

STACK = slice(0x100, 0x200)
"""Its unused part keeps what was there at power on, which differs from console to console."""
CLEARING = range(0x90CC, 0x90E8)
"""The game's loop that sets its memory to zero, downwards; it is longer than a frame has time."""
CLEARING_POINTER = slice(0x06, 0x08)
LONGEST_START = 400
LONGEST_DELAY = 3
"""Frames in a row that may be unfinished before they count as different."""


class Oracle(Protocol):
    """Another console."""

    ram: Bytes
    first_line: int
    """The first line that can be relied on: nes-py repeats sprites of the last one on line 0."""
    lines_shown: int
    """Lines of the screen that are of the last frame for certain, the others of the one before."""

    def step(self, pad_1: int) -> None:
        """Run one frame."""

    def screen(self) -> Pixels:
        """Return the whole screen in colors of its own, [240, 256]."""

    def keep(self) -> Callable[[], None]:
        """Return what brings the console back to the present moment."""


class Ours:
    """One console of ours, as the other ones are driven."""

    def __init__(self, cartridge: Cartridge) -> None:
        self.consoles = Consoles(cartridge, 1)
        self.ram: Bytes = self.consoles.ram[0]

    @property
    def pc(self) -> int:
        """Where the program is."""
        return int(self.consoles.registers[0, PC])

    def step(self, pad_1: int) -> None:
        """Run one frame."""
        self.consoles.step(np.array([pad_1], np.uint8), draw=False)

    def screen(self) -> Bytes:
        """Return the last frame in numbers of colors."""
        return self.consoles.color_numbers(0)

    def keep(self) -> Callable[[], None]:
        """Return what brings the console back to the present moment."""
        kept = self.consoles.states.copy()

        def bring_back() -> None:
            self.consoles.states[:] = kept

        return bring_back


@dataclass
class Findings:
    """What a comparison found."""

    frames: int = 0
    stages: set[Stage] = field(default_factory=set)
    areas: set[tuple[int, int]] = field(default_factory=set)
    """World and area in which Mario was seen to be played."""
    differing: list[str] = field(default_factory=list)
    clearing: list[str] = field(default_factory=list)
    """Frames that ended while the game cleared its memory, and one console had come further."""
    unfinished: list[str] = field(default_factory=list)
    """Frames whose work the other console had not done when it was stopped; soon equal again."""
    parted: list[str] = field(default_factory=list)
    """Where the other console lost a frame of the game's: from there on it is, in every byte, where
    ours was a frame before. Such a play is not compared any further."""
    screens: int = 0
    differing_screens: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        """Return the figures, and everything that differed, one a line."""
        figures = (
            f"{self.frames:,} frames of {len(self.stages)} stages ({len(self.areas)} areas), "
            f"{len(self.differing)} with other memory, {len(self.clearing)} cut while clearing, "
            f"{len(self.unfinished)} unfinished, {len(self.parted)} plays parted; "
            f"{self.screens:,} screens, {len(self.differing_screens)} with other pixels"
        )
        lists = (
            self.differing,
            self.parted,
            self.differing_screens,
            self.clearing,
            self.unfinished,
        )
        return "\n".join([figures, *(line for each in lists for line in each)])


class Colors:
    """The other console's colors, learned from the first screens and then held to."""

    def __init__(self) -> None:
        self._known = np.full(64, -1, np.int64)

    def learn(self, numbers: Bytes, seen: Pixels) -> None:
        """Take what most pixels of a color that was not seen before are shown as."""
        for number in np.unique(numbers):
            if self._known[number] < 0:
                values, counts = np.unique(seen[numbers == number], return_counts=True)
                self._known[number] = values[counts.argmax()]

    def of(self, numbers: Bytes) -> NDArray[np.int64]:
        """Return our screen in the colors of the other one."""
        translated: NDArray[np.int64] = self._known[numbers]
        return translated


def start(console: Oracle | Ours) -> None:
    """Run a console to the moment at which all of them are alike."""
    for _ in range(LONGEST_START):
        console.step(0)
        if title_is_ready(console.ram):
            return
    raise AssertionError("the title did not appear")


class MemoryCheck:
    """Compares memories frame by frame, and tells delays from differences."""

    def __init__(self, ours: Ours, other: Oracle, findings: Findings) -> None:
        self._ours, self._other, self._findings = ours, other, findings
        self._before = ours.ram.copy()
        self._waiting: list[str] = []
        self._late = 0  # of them, those in which the other one was where ours had been

    def look(self, where: str) -> bool:
        """Add what memories have in common to the findings; return whether to go on."""
        goes_on = self._look(where)
        self._before[:] = self._ours.ram
        return goes_on

    def _look(self, where: str) -> bool:
        self._findings.frames += 1
        ours, other = self._ours.ram, self._other.ram
        differs = ours != other
        differs[STACK] = False
        if not differs.any():
            self._findings.unfinished += self._waiting
            self._forget()
            return True
        places = np.flatnonzero(differs)
        told = " ".join(f"${address:04X}" for address in places[:8])
        line = f"{where}: {told}, at ${self._ours.pc:04X}"
        differs[CLEARING_POINTER] = False
        is_cleared = not ours[differs].any() or not other[differs].any()
        if self._ours.pc in CLEARING and is_cleared:
            self._findings.clearing.append(line)
            return True
        self._waiting.append(line)
        is_elsewhere = self._before != other
        is_elsewhere[STACK] = False
        self._late += not is_elsewhere.any()
        if len(self._waiting) <= LONGEST_DELAY:
            return True
        has_parted = self._late == len(self._waiting)
        if has_parted:
            self._findings.parted.append(self._waiting[0])
            self._findings.frames -= len(self._waiting)
            self._forget()
        self.end()
        return not has_parted

    def end(self) -> None:
        """Count what never became equal again as different."""
        self._findings.differing += self._waiting
        self._forget()

    def _forget(self) -> None:
        self._waiting = []
        self._late = 0


def compare_screens(wanted: Pixels, seen: Pixels, findings: Findings, where: str) -> None:
    """Add a screen to the findings."""
    findings.screens += 1
    wrong = wanted != seen
    if wrong.any():
        lines, across = np.nonzero(wrong)
        findings.differing_screens.append(
            f"{where}: {len(lines)} pixels, lines {lines.min()} to {lines.max()}, "
            f"from {across.min()} to {across.max()}"
        )


def beam_composite(now: Pixels, before: Pixels, seen: Pixels, lines: int) -> Pixels:
    """Return one frame above the beam and the one before it below, where the beam fits best.

    A console that is stopped in the middle of a frame shows this; `lines` are above the beam.
    """
    above = lines * now.shape[1]
    unlike_now = np.flatnonzero((now != seen).ravel()[above:])
    beam = above + int(unlike_now[0]) if len(unlike_now) else now.size
    composite: Pixels = np.concatenate([now.ravel()[:beam], before.ravel()[beam:]])
    return composite.reshape(now.shape)


@dataclass(frozen=True)
class Plan:
    """How much is played, and how often screens are looked at."""

    frames: int
    seeds: int = 1
    screens_every: int = 5
    stages: tuple[Stage, ...] = tuple(all_stages())


@dataclass
class Comparison:
    """Two consoles, brought to the same moment, and what was found of them so far."""

    ours: Ours
    other: Oracle
    findings: Findings = field(default_factory=Findings)
    colors: Colors = field(default_factory=Colors)

    def play(self, plan: Plan) -> Findings:
        """Play all stages of a plan on both consoles."""
        ours_back, other_back = self.ours.keep(), self.other.keep()
        for stage in plan.stages:
            for seed in range(plan.seeds):
                ours_back()
                other_back()
                self._play_stage(stage, seed, plan)
        return self.findings

    def _play_stage(self, stage: Stage, seed: int, plan: Plan) -> None:
        number = 1000 * stage.world + 100 * stage.stage + seed
        before = self.ours.screen()
        memory = MemoryCheck(self.ours, self.other, self.findings)
        for frame, held in enumerate(buttons(self.ours.ram, plan.frames, number)):
            self.ours.step(held)
            self.other.step(held)
            where = f"stage {stage.world}-{stage.stage}, seed {seed}, frame {frame}"
            if not memory.look(where):
                break
            until_look = -(frame + 1) % plan.screens_every
            if until_look == 1:
                before = self.ours.screen()
            elif until_look == 0:
                self._look(before, where)
            for ram in (self.ours.ram, self.other.ram):
                stage.choose(ram)
                equip(ram, seed)
            if is_running(self.ours.ram):
                area = (int(self.ours.ram[WORLD]), int(self.ours.ram[AREA_POINTER]))
                self.findings.areas.add(area)
        memory.end()
        self.findings.stages.add(stage)

    def _look(self, before: Bytes, where: str) -> None:
        """Compare the screens of this frame."""
        now, seen = self.ours.screen(), self.other.screen().astype(np.int64)
        lines = self.other.lines_shown
        self.colors.learn(now[:lines], seen[:lines])
        wanted = self.colors.of(now)
        if lines < len(now):
            wanted = beam_composite(wanted, self.colors.of(before), seen, lines)
        first = self.other.first_line
        compare_screens(wanted[first:], seen[first:], self.findings, where)

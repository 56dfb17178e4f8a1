"""Super Mario Bros. as a space for archive search: stages, cells, and what solves them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from longhaul.core.env import Array, Start
from longhaul.core.search import Search, Sight
from longhaul.envs.native.thread_pool import Crew
from longhaul.tasks.mario.evaluation import is_cleared
from longhaul.tasks.mario.game import memory as ram_at
from longhaul.tasks.mario.game import reward as at
from longhaul.tasks.mario.game.games import GameFactory
from longhaul.tasks.mario.game.memory import Bytes
from longhaul.tasks.mario.game.movies import DIGEST_DIGITS, memory_digest
from longhaul.tasks.mario.game.options import GameOptions
from longhaul.tasks.mario.game.stages import ALL_STAGES, STAGES_PER_WORLD
from longhaul.tasks.mario.game.starts import game_opening, snapshot_start
from longhaul.tasks.mario.rom import find_rom

DRAWN = {
    "NOOP": 4,
    "RIGHT": 6,
    "RIGHT+A": 8,
    "RIGHT+B": 24,
    "RIGHT+A+B": 30,
    "A": 8,
    "LEFT": 4,
    "LEFT+B": 4,
    "LEFT+A+B": 7,
    "DOWN": 5,
}
"""Buttons and how often they are drawn: mostly those that move Mario fast to the right."""
CELL_PIXELS = 16
FAST = 28
"""Speed, in sixteenths of a pixel per frame, from which a jump carries farther."""
LOWEST_LINE = 208
"""Below it Mario falls into a pit."""
MARGIN_FRAMES = 3.0


class StageSpace:
    """Games that all begin one stage, without sticky actions and without limits of time."""

    margin = MARGIN_FRAMES
    legs = 1

    def __init__(
        self, options: GameOptions, rom: str, stage: str, count: int, threads: int
    ) -> None:
        cartridge = find_rom(rom or options.rom).cartridge
        played = self._played(options)
        self._games = GameFactory(played, cartridge)(count)
        self._start: Start = ("stage", stage)
        self._opening: Bytes = np.zeros(0, np.uint8)
        self._crew = Crew(count, threads)
        self._step = self._games.native_step(self._crew.members)
        self._facts = {
            "cartridge": cartridge.digest[:DIGEST_DIGITS],
            "frame_skip": str(played.frame_skip),
            "buttons": " ".join(played.buttons),
        }

    @property
    def count(self) -> int:
        """How many games there are."""
        return self._games.count

    @property
    def weights(self) -> tuple[float, ...]:
        """How often each combination of buttons is drawn."""
        return tuple(DRAWN.values())

    @property
    def facts(self) -> Mapping[str, str]:
        """The cartridge, the frames of a decision and the buttons."""
        return self._facts

    def begin(self) -> None:
        """Put every game at the stage's start."""
        count = self._games.count
        starts: list[Start | None] = [self._start] * count
        self._games.reset(np.arange(count), np.zeros(count, np.int64), starts)

    def begin_leg(self, number: int) -> None:
        """There is one leg only."""

    def step(self, actions: NDArray[np.int64]) -> Sight:
        """Press buttons in every game for one decision."""
        self._crew.run(self._step, actions)
        return self.look()

    def save(self, env: int) -> Bytes:
        """Return a game's console and what was counted of its episode."""
        return self._games.save(env)

    def load(self, env: int, saved: Bytes) -> None:
        """Put a game into a saved state."""
        self._games.load(env, saved)

    def digest(self, env: int) -> str:
        """Return a digest of a game's memory."""
        return memory_digest(self._games.consoles.ram[env])

    def start(self, env: int) -> Start:
        """Return the hard start that begins where a game is."""
        return snapshot_start(self._games.consoles.states[env])

    def frame(self, env: int) -> Bytes | None:
        """Return the present picture of a game."""
        return self._games.frame(env)

    def close(self) -> None:
        """End the threads."""
        self._crew.close()
        self._games.close()

    def pressed(self, decisions: Sequence[int]) -> Bytes:
        """Replay decisions in the first game; return the buttons of every frame from the start on.

        Scenes pass without buttons.
        """
        games, table = self._games, self._games.actions.bytes
        self.begin()
        parts = [self._opening, np.zeros(1, np.uint8)]
        before = int(games.figures[0, at.FRAMES])
        held = games.options.frame_skip
        for choice in decisions:
            self.step(np.full(games.count, choice, np.int64))
            frames = int(games.figures[0, at.FRAMES])
            parts.append(np.full(held, table[choice], np.uint8))
            parts.append(np.zeros(frames - before - held, np.uint8))
            before = frames
        return np.concatenate(parts)

    def _played(self, options: GameOptions) -> GameOptions:
        """Return how the games are played."""
        return searched(options)

    def look(self) -> Sight:
        """Return where every game is now."""
        games = self._games
        figures, ram, over = games.figures, games.consoles.ram, games.over
        reason = figures[:, at.REASON]
        below = ram[:, ram_at.SCREENS_DOWN]
        falling = (below > 1) | ((below == 1) & (ram[:, ram_at.PLAYER_Y] > LOWEST_LINE))
        return Sight(
            cells=stage_cells(ram),
            cost=figures[:, at.FRAMES].astype(np.float64),
            reach=figures[:, at.PROGRESS].astype(np.float64),
            over=over.copy(),
            solved=over & ((reason == at.FLAG) | (reason == at.AXE)),
            kept=~over & ~falling,
        )


class WholeGameSpace(StageSpace):
    """The whole game from switching on, without warps, by buttons alone; each stage is a leg.

    Nothing is cut short, so what was pressed can be replayed as a movie on any console.
    """

    legs = len(ALL_STAGES)

    def __init__(self, options: GameOptions, rom: str, count: int, threads: int) -> None:
        super().__init__(options, rom, str(ALL_STAGES[0]), count, threads)
        opening = game_opening(self._games.consoles.cartridge)
        self._start = snapshot_start(opening.row)
        self._opening = opening.pressed
        self._leg = 0

    def begin_leg(self, number: int) -> None:
        """Search for the way through this stage."""
        self._leg = number

    def look(self) -> Sight:
        """Return where every game is now; a leg is solved when the next stage has begun."""
        sight, ram = super().look(), self._games.consoles.ram
        world, number = ram[:, ram_at.WORLD_NUMBER], ram[:, ram_at.STAGE_NUMBER]
        stage = world.astype(np.int64) * STAGES_PER_WORLD + number
        last = self._leg + 1 == self.legs
        return replace(
            sight,
            solved=sight.solved if last else ~sight.over & (stage == self._leg + 1),
            over=sight.over | ((stage != self._leg) & (stage != self._leg + 1)),
        )

    def _played(self, options: GameOptions) -> GameOptions:
        return replace(searched(options), ends_at_clear=False, ends_at_warp=True, cuts_scenes=False)


def searched(options: GameOptions) -> GameOptions:
    """Return how the game is played while it is searched, and by replays of what was found."""
    return GameOptions(
        rom=options.rom,
        frame_skip=options.frame_skip,
        buttons=tuple(DRAWN),
        stagnation_limit=0,
    )


def stage_cells(ram: Bytes) -> NDArray[np.int64]:
    """Return the cell of every console's memory, [N, 2048].

    States are alike that are in one area and have the same next pipe, within a square of 16 pixels,
    with the same answers given to a maze, on the ground or not, fast or not.
    """

    def byte(address: int) -> NDArray[np.int64]:
        return ram[:, address].astype(np.int64)

    memory = ram_at.Memory(ram)
    lines = np.clip(memory.y // CELL_PIXELS + 4, 0, 63)
    parts: tuple[tuple[Array, int], ...] = (
        (memory.area, 128),
        (byte(ram_at.AREA_POINTER), 256),
        (memory.x // CELL_PIXELS, 1024),
        (lines, 64),
        (byte(ram_at.MAZE_RIGHT) & 3, 4),
        (byte(ram_at.MAZE_PASSED) & 3, 4),
        (byte(ram_at.MAZE_AHEAD) > 0, 2),
        (byte(ram_at.FLOAT_STATE) == 0, 2),
        (memory.speed_x >= FAST, 2),
    )
    cells = np.zeros(len(ram), np.int64)
    for values, size in parts:
        cells = cells * size + values
    return cells


WHOLE_GAME = "whole-game"
"""The goal from switching on to the princess."""


def stage_space(
    options: GameOptions, rom: str, goal: str, count: int = 1, threads: int = 1
) -> StageSpace:
    """Return the games that search for a goal."""
    if goal == WHOLE_GAME:
        return WholeGameSpace(options, rom, count, threads)
    return StageSpace(options, rom, goal, count, threads)


def stage_search(options: GameOptions, rom: str) -> Search:
    """Return the search of every stage of the game, and of the whole of it."""
    return Search(
        goals=(*(str(stage) for stage in ALL_STAGES), WHOLE_GAME),
        by_name=(WHOLE_GAME,),
        space=lambda goal, count, threads: stage_space(options, rom, goal, count, threads),
        is_solved=is_cleared,
        origin=lambda goal: None if goal == WHOLE_GAME else ("stage", goal),
        reach="pixels of new ground",
    )

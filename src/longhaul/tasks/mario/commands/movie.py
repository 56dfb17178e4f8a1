"""Demonstrations as movies: every button of every frame, for longhaul's player and for FCEUX."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from longhaul.core.errors import ConfigError
from longhaul.engine.demo import Demo, check_facts, load_demo
from longhaul.runs.durable import replace_file, storage_errors
from longhaul.tasks.mario.game import memory as ram_at
from longhaul.tasks.mario.game.memory import WORLD_FINISHED, Bytes
from longhaul.tasks.mario.game.movies import Movie, memory_digest, write_fm2, write_movie
from longhaul.tasks.mario.game.options import GameOptions
from longhaul.tasks.mario.game.player import Player
from longhaul.tasks.mario.game.stages import ALL_STAGES, Stage
from longhaul.tasks.mario.rom import find_rom
from longhaul.tasks.mario.search_space import WHOLE_GAME, stage_space

FM2 = ".fm2"
QUEST_OVER = 4
"""Of the end of a world: the princess has said what she has to say."""
MOST_END_FRAMES = 3000


@dataclass(frozen=True, slots=True)
class Exported:
    """A movie of a demonstration, and where it leads."""

    path: Path
    frames: int
    stage: str
    cleared: bool
    princess: bool

    def as_text(self) -> str:
        """Return a line for people."""
        where = "the princess" if self.princess else "the end of its stage"
        words = where if self.cleared else f"stage {self.stage}, which is NOT cleared"
        return f"{self.path}: {self.frames} frames, to {words}"


def export_demo(demo_path: Path, out: Path, rom_path: str = "") -> Exported:
    """Write a demonstration as a movie; it is played first, to its end."""
    demo, rom = load_demo(demo_path), find_rom(rom_path)
    is_whole = demo.goal == WHOLE_GAME
    if out.suffix == FM2 and not is_whole:
        raise ConfigError(
            f"an .fm2 begins with switching on: only the whole game can be one, not {demo.goal}; "
            "give --out another ending for a movie of longhaul"
        )
    start = None if is_whole else Stage.parse(demo.goal)
    pressed = _pressed(demo, rom_path)
    player = Player(rom.cartridge, start)
    for byte in pressed.tolist():
        player.press(byte)
    if memory_digest(player.ram) != demo.end:
        raise ConfigError(
            f"{demo_path} cannot be a movie: {demo.goal} has scenes that the search cuts short, so "
            "buttons alone lead elsewhere; the goal whole-game has none"
        )
    if is_whole:
        pressed = _to_the_princess(player, pressed)
    facts = player.facts()
    movie = Movie.of(pressed, start, rom.cartridge).ended(player.ram)
    text = write_fm2(pressed, Path(rom.source).stem) if out.suffix == FM2 else write_movie(movie)
    with storage_errors(out):
        out.parent.mkdir(parents=True, exist_ok=True)
        replace_file(out, text.encode())
    return Exported(
        out,
        len(pressed),
        f"{facts.world}-{facts.stage}",
        facts.flag_get,
        is_with_the_princess(player.ram),
    )


def is_with_the_princess(ram: Bytes) -> bool:
    """Whether the last stage is over and the princess has spoken."""
    last = ALL_STAGES[-1]
    return bool(
        ram[ram_at.WORLD_NUMBER] + 1 == last.world
        and ram[ram_at.MODE] == WORLD_FINISHED
        and ram[ram_at.SUB_MODE] == QUEST_OVER
    )


def _pressed(demo: Demo, rom_path: str) -> Bytes:
    """Return the buttons of every frame of a demonstration."""
    space = stage_space(GameOptions(), rom_path, demo.goal)
    try:
        check_facts(demo, space, "the demonstration")
        return space.pressed(demo.decisions)
    finally:
        space.close()


def _to_the_princess(player: Player, pressed: Bytes) -> Bytes:
    """Let the end of the game pass; return all buttons."""
    frames = 0
    while frames < MOST_END_FRAMES and not is_with_the_princess(player.ram):
        player.press(0)
        frames += 1
    return np.concatenate([pressed, np.zeros(frames, np.uint8)])

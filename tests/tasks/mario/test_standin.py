"""The free cartridge under the game layer: everything an agent needs, without any ROM."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from longhaul.app.build.config import SessionOptions
from longhaul.app.build.sources import ConfigSources, resolve
from longhaul.app.session.run import run_session
from longhaul.app.session.start import begin_run
from longhaul.core.env import StepBuffers, VectorEnv
from longhaul.core.seeds import EpisodeSeeds
from longhaul.envs.serial import BatchedVectorEnv
from longhaul.runs.reader import read_metrics
from longhaul.runs.score import read_final_score
from longhaul.tasks.mario.console.picture import Picture
from longhaul.tasks.mario.console.standin_rom import stand_in
from longhaul.tasks.mario.game import reward as at
from longhaul.tasks.mario.game.games import GameFactory, Games
from longhaul.tasks.mario.game.options import GameOptions
from longhaul.tasks.mario.game.stages import ALL_STAGES
from longhaul.tasks.mario.game.starts import stage_start
from longhaul.tasks.mario.game.tiles import FOE, MARIO, SOLID
from longhaul.tasks.mario.rom import STAND_IN, find_rom
from tests.contracts.task_contract import TaskContract
from tests.contracts.vector_env_contract import Make, VectorEnvContract

NOTHING, RIGHT, RIGHT_A = range(3)
"""Of the set `simple`."""
NOTHING_AT_THE_END = ("evaluate.final_episodes=0", "report.at_end=false")
SIZE_OF_PICTURE = Picture(24, 24, stack=2)


class TestStandInTask(TaskContract):
    @pytest.fixture
    def name(self) -> str:
        return "mario:standin"


class TestStandInContract(VectorEnvContract):
    @pytest.fixture
    def make(self) -> Iterator[Make]:
        options = GameOptions(
            time_limit=22, frame_skip=2, observation="both", picture=SIZE_OF_PICTURE, trail=2
        )
        made: list[VectorEnv] = []

        def make(count: int, seeds: EpisodeSeeds) -> VectorEnv:
            source = GameFactory(options, stand_in()).envs()
            made.append(BatchedVectorEnv(source, count, seeds, threads=2))
            return made[-1]

        yield make
        for vector in made:
            vector.close()


def begin(options: GameOptions) -> tuple[Games, StepBuffers]:
    factory = GameFactory(options, stand_in())
    games, slots = factory(1), StepBuffers.allocate(factory.spec, 1)
    games.bind(slots)
    games.reset(np.arange(1), np.array([7]), [None])
    return games, slots


def play(games: Games, actions: list[int]) -> str:
    """Take actions, again and again, until the episode is over; return why it is."""
    for step in range(2000):
        games.step(0, 1, np.array([actions[step % len(actions)]]))
        if games.over[0]:
            break
    return games.ending(0).reason


def careful(slots: StepBuffers, last: int) -> int:
    """Return what a careful player does: run, and jump in front of pits, steps and walkers."""
    tiles, on_ground = slots.obs["tiles"][0], slots.obs["numbers"][0, 2] > 0
    if not on_ground:
        return last
    pit = not tiles[SOLID, 11, 5]
    step = tiles[SOLID, 10, 5:7].any()
    walker = tiles[FOE, :, 5:8].any()
    # A jump needs the button to be pressed anew.
    return RIGHT_A if (pit or step or walker) and last != RIGHT_A else RIGHT


def test_the_free_cartridge_is_found_by_its_name() -> None:
    assert find_rom(STAND_IN, {}).cartridge == stand_in()


def test_every_stage_can_be_started_and_is_another_one() -> None:
    starts = [stage_start(stand_in(), stage) for stage in ALL_STAGES[::5]]
    games, _ = begin(GameOptions(stages=("8-4",)))
    told = games.facts(0)
    assert (told.world, told.stage, told.x_pos, told.life, told.time) == (8, 4, 40, 2, 400)
    blocks = {row[0x500 : 0x500 + 416].tobytes() for row in starts}
    assert len(blocks) == len(starts)


def test_a_pit_a_walker_and_standing_still_end_an_episode() -> None:
    games, slots = begin(GameOptions())
    assert play(games, [RIGHT]) in ("pit", "enemy")
    assert slots.terminated[0]
    reasons = set()
    for stage in ("1-1", "1-2", "1-3", "1-4"):
        games, _ = begin(GameOptions(stages=(stage,)))
        reasons.add(play(games, [RIGHT]))
    assert reasons == {"pit", "enemy"}
    games, slots = begin(GameOptions(stagnation_limit=20))
    assert play(games, [NOTHING]) == "stagnation"
    assert slots.truncated[0]


def test_the_clock_ends_an_episode_when_it_has_run_out() -> None:
    games, _ = begin(GameOptions(stagnation_limit=0, frame_skip=60))
    assert play(games, [NOTHING]) in ("time_up", "enemy")


def test_what_is_around_the_runner_is_shown_as_tiles() -> None:
    games, slots = begin(GameOptions())
    for _ in range(3):
        games.step(0, 1, np.array([RIGHT]))
    tiles = slots.obs["tiles"][0]
    assert tiles[MARIO].any()
    assert tiles[SOLID, 11:].any()
    assert not tiles[SOLID, :6].any()
    assert games.figures[0, at.PROGRESS] > 0


@pytest.mark.parametrize("seed", [3, 4, 5])
def test_the_gains_of_an_episode_add_up_to_best_minus_start(seed: int) -> None:
    games, _ = begin(GameOptions())
    start = int(games.figures[0, at.X])
    gained, places = 0, [start]
    generator = np.random.default_rng(seed)
    for _ in range(80):
        # Back as often as forth: `LEFT` is the last of the set.
        games.step(0, 1, np.array([generator.choice([RIGHT, RIGHT_A, 6, 6])]))
        gained += int(games.figures[0, at.GAINED])
        places.append(int(games.memory.x[0]))
        if games.over[0]:
            break
    assert places != sorted(places), "it never went back"
    assert gained == max(places) - start == int(games.figures[0, at.PROGRESS])


def test_the_games_read_the_memory_their_consoles_write() -> None:
    games, _ = begin(GameOptions())
    assert np.shares_memory(games.memory.ram, games.consoles.states)
    before = games.memory.byte(0x09).copy()
    games.step(0, 1, np.array([RIGHT]))
    assert games.memory.byte(0x09) != before, "the frame counter stands still"


@pytest.mark.parametrize("stage", ["1-3", "3-2"])
def test_a_careful_player_gets_to_the_pole(stage: str) -> None:
    games, slots = begin(GameOptions(stages=(stage,)))
    action = RIGHT
    while not games.over[0]:
        action = careful(slots, action)
        games.step(0, 1, np.array([action]))
    ending = games.ending(0)
    assert ending.reason == "flag"
    assert ending.facts["stage"] == stage
    assert ending.metrics["progress"] > 1800


def test_the_stage_after_a_stage_is_the_next_one() -> None:
    games, slots = begin(GameOptions(stages=("1-3",), ends_at_clear=False))
    action = RIGHT
    while games.facts(0).stage == 3 and not games.over[0]:
        action = careful(slots, action)
        games.step(0, 1, np.array([action]))
    assert not games.over[0]
    assert (games.facts(0).world, games.facts(0).stage) == (1, 4)
    assert games.figures[0, at.CLEARED] == 1


@pytest.mark.slow
def test_its_preset_clears_its_first_stage(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """Ten minutes; docs/guide/mario-game.md has what three seeds reached."""
    config = resolve(ConfigSources("mario:standin", overrides=("report.at_end=false",)))
    run = begin_run(config, tmp_path).directory
    assert run_session(run, config, SessionOptions(quiet=True)).exit_code == 0
    score = read_final_score(run)
    assert score is not None
    record_property(score.metric, f"{score.value:.2f}")
    assert score.value > 0.6


def test_its_preset_is_chosen_by_itself() -> None:
    config = resolve(ConfigSources("mario:standin"))
    assert config.options["reward"]["death"] == -1.0
    assert resolve(ConfigSources("mario")).options["reward"]["death"] == -5.0


@pytest.mark.slow
def test_a_run_of_a_minute_learns_to_get_further(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    overrides = ("total_timesteps=400000", "evaluate.every_iterations=0", *NOTHING_AT_THE_END)
    config = resolve(ConfigSources("mario:standin", overrides=overrides))
    run = begin_run(config, tmp_path).directory
    assert run_session(run, config, SessionOptions(quiet=True)).exit_code == 0
    progress = [
        float(row["env/progress"]) for row in read_metrics(run).rows if "env/progress" in row
    ]
    quarter = len(progress) // 4
    first, last = statistics.mean(progress[:quarter]), statistics.mean(progress[-quarter:])
    record_property("progress of the first and last quarter", f"{first:.0f} {last:.0f}")
    assert last > 2 * first

"""Games as a vector environment: the contract, threads, settings, starts and endings."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from longhaul.core.env import BatchedEnvs, Start, StepBuffers, VectorEnv
from longhaul.core.errors import EnvError
from longhaul.core.seeds import EpisodeSeeds
from longhaul.core.settings import Settings
from longhaul.envs.checks import check_seeds
from longhaul.envs.serial import BatchedVectorEnv
from longhaul.envs.starts import STARTS
from longhaul.tasks.mario.console.consoles import Consoles
from longhaul.tasks.mario.console.game import Cartridge
from longhaul.tasks.mario.console.picture import Picture
from longhaul.tasks.mario.game import reward as at
from longhaul.tasks.mario.game.games import GameFactory, Games
from longhaul.tasks.mario.game.options import GameOptions
from longhaul.tasks.mario.game.stages import ALL_STAGES, STAGES
from longhaul.tasks.mario.game.starts import snapshot_start
from tests.contracts.vector_env_contract import (
    SEEDS,
    Make,
    VectorEnvContract,
    assert_same,
    play,
    through_checkpoint,
    wishes,
)

pytestmark = pytest.mark.emulator

OPTIONS = {
    "tiles": GameOptions(
        time_limit=22, frame_skip=2, sticky=0.25, noop_frames=5, stages=("1-1..1-2",), trail=3
    ),
    "both": GameOptions(
        time_limit=22,
        frame_skip=2,
        observation="both",
        picture=Picture(24, 24, stack=2),
        held_buttons=True,
        script="RIGHT:3",
        actions="right",
    ),
}
RIGHT_B = 3
"""Of the set `simple`."""


def envs(cartridge: Cartridge, name: str) -> BatchedEnvs:
    return GameFactory(OPTIONS[name], cartridge).envs()


def begin(
    options: GameOptions, cartridge: Cartridge, start: Start | None = None
) -> tuple[Games, StepBuffers]:
    factory = GameFactory(options, cartridge)
    games, slots = factory(1), StepBuffers.allocate(factory.spec, 1)
    games.bind(slots)
    games.reset(np.arange(1), np.array([7]), [start])
    return games, slots


def hold(games: Games, action: int, *, most: int = 1000) -> int:
    """Take one action until the episode is over; return the steps it took."""
    for step in range(1, most + 1):
        games.step(0, 1, np.array([action]))
        if games.over[0]:
            return step
    return most


class TestGameContract(VectorEnvContract):
    @pytest.fixture(params=[("tiles", 1), ("both", 2)], ids=str)
    def make(self, request: pytest.FixtureRequest, cartridge: Cartridge) -> Iterator[Make]:
        name, threads = request.param
        made: list[VectorEnv] = []

        def make(count: int, seeds: EpisodeSeeds) -> VectorEnv:
            made.append(BatchedVectorEnv(envs(cartridge, name), count, seeds, threads=threads))
            return made[-1]

        yield make
        for vector in made:
            vector.close()


def test_the_pixels_seen_are_those_a_console_draws(cartridge: Cartridge) -> None:
    options = GameOptions(observation="pixels", picture=Picture(24, 24, stack=2), frame_skip=3)
    games, slots = begin(options, cartridge)
    seen, alone = slots.obs["pixels"], Consoles(cartridge, 1, options.picture)
    assert seen.any()
    alone.states[:] = games.consoles.states
    alone.pictures[:] = seen
    for action in (1, RIGHT_B, 2):
        games.step(0, 1, np.array([action]))
        alone.step(np.array([games.actions.bytes[action]], np.uint8), frames=3)
        np.testing.assert_array_equal(seen, alone.pictures)


def test_held_buttons_are_told_beside_pixels(cartridge: Cartridge) -> None:
    picture = Picture(24, 24, stack=2)
    options = GameOptions(observation="pixels", picture=picture, held_buttons=True)
    games, slots = begin(options, cartridge)
    for name, told in (
        ("RIGHT+A+B", [1, 1]),
        ("RIGHT+B", [0, 1]),
        ("A", [1, 0]),
        ("NOOP", [0, 0]),
    ):
        games.step(0, 1, np.array([games.actions.names.index(name)]))
        assert slots.obs["held"][0].tolist() == told


def test_who_still_holds_the_button_does_not_jump_again(cartridge: Cartridge) -> None:
    """Which a picture of Mario on the ground cannot show."""
    picture = Picture(24, 24)
    options = GameOptions(observation="pixels", picture=picture, held_buttons=True)
    games, slots = begin(options, cartridge)
    jump, rest = (games.actions.names.index(name) for name in ("A", "NOOP"))

    def height(action: int) -> int:
        games.step(0, 1, np.array([action]))
        return -games.facts(0).y_pos

    ground = height(rest)
    first = max(height(jump) for _ in range(20))
    assert first > ground
    assert slots.obs["held"][0, 0] == 1
    assert {height(jump) for _ in range(10)} == {ground}
    assert height(rest) == ground
    assert max(height(jump) for _ in range(20)) == first


@pytest.mark.parametrize("threads", [2, 3, 40])
def test_results_do_not_depend_on_the_threads(cartridge: Cartridge, threads: int) -> None:
    source = envs(cartridge, "both")
    alone = BatchedVectorEnv(source, 7, SEEDS)
    shared = BatchedVectorEnv(source, 7, SEEDS, threads=threads)
    alone.reset()
    shared.reset()
    actions = wishes(alone, 30)
    assert_same(play(alone, actions), play(shared, actions))
    shared.close()


def test_one_seed_gives_one_episode(cartridge: Cartridge) -> None:
    assert check_seeds(envs(cartridge, "tiles")).findings == ()


def test_running_into_the_first_enemy_ends_the_episode(cartridge: Cartridge) -> None:
    games, slots = begin(GameOptions(), cartridge)
    steps = hold(games, RIGHT_B)
    ending = games.ending(0)
    assert ending.reason == "enemy"
    assert slots.terminated[0]
    assert not slots.truncated[0]
    assert steps == pytest.approx(26, abs=1)
    assert ending.metrics["progress"] == games.figures[0, at.X] - 40
    assert slots.terms["death"][0] == -1.0


def test_standing_still_is_cut_as_stagnation(cartridge: Cartridge) -> None:
    games, slots = begin(GameOptions(stagnation_limit=30), cartridge)
    assert hold(games, 0) == 30
    assert games.ending(0).reason == "stagnation"
    assert slots.truncated[0]
    assert not slots.terminated[0]


def test_walking_into_a_pit_is_told_apart_from_enemies(cartridge: Cartridge) -> None:
    games, _ = begin(GameOptions(stages=("1-3",)), cartridge)
    hold(games, RIGHT_B)
    assert games.ending(0).reason == "pit"


def test_an_episode_lasts_its_time_limit(cartridge: Cartridge) -> None:
    games, slots = begin(GameOptions(time_limit=12), cartridge)
    assert hold(games, 0) == 12
    assert games.ending(0).reason == "timeout"
    assert slots.truncated[0]


def test_the_gains_of_an_episode_add_up_to_best_minus_start(cartridge: Cartridge) -> None:
    games, _ = begin(GameOptions(), cartridge)
    start = int(games.figures[0, at.X])
    gained, best = 0, start
    generator = np.random.default_rng(3)
    for _ in range(60):
        games.step(0, 1, np.array([generator.choice([1, 6, 3, 6])]))
        gained += int(games.figures[0, at.GAINED])
        best = max(best, int(games.memory.x[0]))
        if games.over[0]:
            break
    assert gained == best - start == int(games.figures[0, at.PROGRESS])


def test_every_life_is_played_if_asked_for(cartridge: Cartridge) -> None:
    games, slots = begin(GameOptions(ends_at_death=False), cartridge)
    assert games.memory.lives[0] == 2
    steps = hold(games, RIGHT_B)
    assert steps > 3 * 25
    assert games.ending(0).metrics["deaths"] == 3
    assert slots.terminated[0]


def test_a_scripted_beginning_is_forced_and_marked(cartridge: Cartridge) -> None:
    games, slots = begin(GameOptions(script="LEFT:2,RIGHT+B"), cartridge)
    forced, executed = [], []
    for _ in range(4):
        games.step(0, 1, np.array([0]))
        forced.append(bool(slots.forced[0]))
        executed.append(int(games.figures[0, at.EXECUTED]))
    assert forced == [True, True, True, False]
    assert executed == [6, 6, 3, 0]


def test_sticky_actions_repeat_the_last_one_at_their_rate(cartridge: Cartridge) -> None:
    games, _ = begin(GameOptions(sticky=0.25, stagnation_limit=0), cartridge)
    generator = np.random.default_rng(0)
    repeats = 0
    last = 0
    for _ in range(400):
        wished = (last + 1 + int(generator.integers(0, 5))) % 6  # never the last one
        games.step(0, 1, np.array([wished]))
        repeats += int(games.figures[0, at.EXECUTED]) == last
        last = int(games.figures[0, at.EXECUTED])
        if games.over[0]:
            games.reset(np.arange(1), np.array([int(generator.integers(1 << 30))]), [None])
            last = 0
    assert 70 <= repeats <= 130


def test_all_scheduled_stages_are_drawn_by_their_weights(cartridge: Cartridge) -> None:
    games, _ = begin(GameOptions(stages=("1-1", "2-1"), stage_weights=(1.0, 3.0)), cartridge)
    seen = []
    for seed in range(200):
        games.reset(np.arange(1), np.array([seed]), [None])
        seen.append(str(games.facts(0).world))
    assert 30 <= seen.count("1") <= 70
    again = []
    for seed in range(200):
        games.reset(np.arange(1), np.array([seed]), [None])
        again.append(str(games.facts(0).world))
    assert seen == again


def test_the_setting_of_stages_takes_over_at_the_next_reset(cartridge: Cartridge) -> None:
    vector = BatchedVectorEnv(envs(cartridge, "tiles"), 2, SEEDS)
    vector.configure(Settings([STAGES], {STAGES.name: (("4-2", 1.0),)}))
    vector.reset()
    episodes = [e for record in play(vector, wishes(vector, 40)) for e in record.episodes]
    assert {episode.facts["stage"] for episode in episodes} == {"4-2"}


def test_a_snapshot_is_a_hard_start_and_goes_on_alike(cartridge: Cartridge) -> None:
    options = GameOptions(trail=4, trail_every=4)
    games, _ = begin(options, cartridge)
    for _ in range(12):
        games.step(0, 1, np.array([RIGHT_B]))
    footprint = games.trail.footprints(0)[-2]
    assert footprint.step == 8
    again, _ = begin(options, cartridge, snapshot_start(footprint.row))
    # One frame passes at every beginning, so that there is something to see.
    assert abs(int(again.memory.x[0]) - int(games.memory.x[0])) < 4 * 4 * 3
    assert again.figures[0, at.STARTED_HARD] == 1
    assert hold(again, RIGHT_B) < 26


def test_hard_starts_are_dealt_by_the_vector(cartridge: Cartridge) -> None:
    vector = BatchedVectorEnv(envs(cartridge, "tiles"), 2, SEEDS)
    vector.configure(Settings([STARTS], {STARTS.name: (("stage", "3-3"), ("stage", "5-1"))}))
    vector.reset()
    play(vector, wishes(vector, 21))
    records = play(vector, wishes(vector, 1))
    assert [episode.facts["stage"] for episode in records[0].episodes] == ["3-3", "5-1"]


@pytest.mark.parametrize(
    "start", [("stage", 3), "1-1", ("snapshot", "!"), ("snapshot", "eJwDAAAAAAE=")]
)
def test_a_start_that_is_none_is_refused(cartridge: Cartridge, start: Start) -> None:
    with pytest.raises(EnvError, match=r"start"):
        begin(GameOptions(), cartridge, start)


@pytest.mark.slow
def test_every_stage_begins_where_it_should(cartridge: Cartridge) -> None:
    for stage in ALL_STAGES:
        games, _ = begin(GameOptions(stages=(str(stage),)), cartridge)
        told = games.facts(0)
        assert (told.world, told.stage, told.x_pos) == (stage.world, stage.number, 40)
        assert told.playing
        assert told.life == 2


def test_a_state_saved_by_one_thread_goes_on_with_two(cartridge: Cartridge) -> None:
    source = envs(cartridge, "tiles")
    alone = BatchedVectorEnv(source, 5, SEEDS)
    alone.reset()
    actions = wishes(alone, 40)
    play(alone, actions[:15])
    shared = BatchedVectorEnv(source, 5, SEEDS, threads=2)
    shared.load_state_dict(through_checkpoint(alone.state_dict()))
    assert_same(play(alone, actions[15:]), play(shared, actions[15:]))
    shared.close()

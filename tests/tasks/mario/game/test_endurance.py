"""Many consoles, many constructions, many steps."""

from __future__ import annotations

import itertools
import os
import resource
from collections.abc import Callable

import numpy as np
import pytest

from longhaul.core.env import Array, StepBuffers
from longhaul.envs.serial import BatchedVectorEnv
from longhaul.tasks.mario.console.game import Cartridge
from longhaul.tasks.mario.console.picture import Picture
from longhaul.tasks.mario.game.games import GameFactory
from longhaul.tasks.mario.game.options import GameOptions
from tests.contracts.vector_env_contract import SEEDS, copied, wishes

pytestmark = pytest.mark.emulator

CONSOLES = 64
STEPS = int(os.environ.get("LONGHAUL_ENDURANCE_STEPS", "1000000"))
"""Agent steps of random play in the long test."""
EVERYWHERE = GameOptions(
    stages=("1-1..8-4",),
    actions="complex",
    sticky=0.1,
    noop_frames=30,
    stagnation_limit=150,
    trail=2,
)


@pytest.mark.parametrize("pieces", [(64,), (1,) * 64, (5, 40, 19)], ids=["whole", "each", "uneven"])
def test_splits_of_a_batch_change_nothing(cartridge: Cartridge, pieces: tuple[int, ...]) -> None:
    options = GameOptions(
        observation="both", picture=Picture(12, 12, stack=1), sticky=0.3, time_limit=9
    )
    factory = GameFactory(options, cartridge)
    borders = np.cumsum((0, *pieces)).tolist()
    actions = np.random.default_rng(2).integers(0, 7, (6, CONSOLES))
    found: list[dict[str, Array]] = []
    for splits in ([0, CONSOLES], borders):
        games, slots = factory(CONSOLES), StepBuffers.allocate(factory.spec, CONSOLES)
        games.bind(slots)
        games.reset(np.arange(CONSOLES), np.arange(CONSOLES), [None] * CONSOLES)
        for wished in actions:
            for begin, end in itertools.pairwise(splits):
                games.step(begin, end, wished)
        found.append(copied(slots) | {"consoles": games.consoles.states.copy()})
    for name, array in found[0].items():
        np.testing.assert_array_equal(array, found[1][name], err_msg=name)


def constructions(cartridge: Cartridge, times: int) -> None:
    factory = GameFactory(GameOptions(stages=("1-1..1-4",)), cartridge)
    for number in range(times):
        games = factory(CONSOLES)
        games.reset(np.arange(CONSOLES), number + np.arange(CONSOLES), [None] * CONSOLES)
        before = games.memory.byte(0x09).copy()
        games.step(0, CONSOLES, np.ones(CONSOLES, np.int64))
        # Real consoles: their frame counters run.
        assert (games.memory.byte(0x09) != before).all()
        assert games.memory.playing.all()
        games.close()


def test_batches_can_be_made_again_and_again(cartridge: Cartridge) -> None:
    constructions(cartridge, 3)


@pytest.mark.slow
def test_a_thousand_constructions_succeed(cartridge: Cartridge) -> None:
    constructions(cartridge, 1000)


@pytest.mark.slow
@pytest.mark.measures
def test_random_play_over_all_stages_neither_fails_nor_grows(
    cartridge: Cartridge, record_property: Callable[[str, object], None]
) -> None:
    vector = BatchedVectorEnv(GameFactory(EVERYWHERE, cartridge).envs(), CONSOLES, SEEDS, threads=2)
    vector.reset()
    actions = wishes(vector, 512)
    stages: set[str] = set()
    reasons: set[str] = set()
    after_warm_up = 0
    steps = STEPS // CONSOLES
    for number in range(steps):
        step = vector.step(actions[number % 512])
        stages.update(episode.facts["stage"] for episode in step.episodes)
        reasons.update(episode.reason for episode in step.episodes)
        if number == steps // 10:
            after_warm_up = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - after_warm_up
    record_property("steps", f"{steps * CONSOLES:,}")
    record_property("kilobytes grown", grown)
    assert len(stages) == 32
    assert {"enemy", "pit", "stagnation"} <= reasons
    assert grown < 32 * 1024
    vector.close()

"""Games brought back by seed and actions: in another process, after a kill, from a checkpoint."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from longhaul.core.env import VectorEnv
from longhaul.envs.config import ProcessesConfig
from longhaul.envs.processes.vector import ProcessVectorEnv
from longhaul.envs.serial import SerialVectorEnv
from longhaul.tasks.nethack.options import MapOptions, NetHackGameOptions
from longhaul.tasks.nethack.source import game_envs
from tests.contracts.vector_env_contract import SEEDS, Record, assert_same, play, wishes

pytestmark = pytest.mark.nethack

CAPPED = NetHackGameOptions(max_steps=70, map=MapOptions(view=True))
SKILLS = NetHackGameOptions(max_steps=250, play="skills")


def workers(count: int) -> ProcessesConfig:
    # A busy machine may need long; nothing here is meant to hang.
    return ProcessesConfig(workers=count, least_deadline_seconds=60.0)


@pytest.fixture(params=[CAPPED, SKILLS], ids=["keys", "skills"])
def options(request: pytest.FixtureRequest) -> NetHackGameOptions:
    chosen: NetHackGameOptions = request.param
    return chosen


@pytest.fixture
def serial(options: NetHackGameOptions) -> Iterator[SerialVectorEnv]:
    vector = SerialVectorEnv(game_envs(options), 3, SEEDS)
    yield vector
    vector.close()


def played(vector: VectorEnv, steps: int = 120) -> list[Record]:
    vector.reset()
    return play(vector, wishes(vector, steps))


@pytest.mark.thorough
def test_a_killed_worker_leaves_no_trace_in_its_games(
    serial: SerialVectorEnv, options: NetHackGameOptions
) -> None:
    apart = ProcessVectorEnv(game_envs(options), 3, SEEDS, config=workers(2))
    actions = wishes(serial, 120)
    apart.reset()
    records = play(apart, actions[:50])
    os.kill(apart.pids()[0], signal.SIGKILL)
    records += play(apart, actions[50:])
    apart.close()
    assert_same(played(serial), records)


def test_a_saved_game_goes_on_where_it_was(
    serial: SerialVectorEnv, options: NetHackGameOptions
) -> None:
    actions = wishes(serial, 120)
    serial.reset()
    play(serial, actions[:40])
    state = serial.state_dict()
    expected = play(serial, actions[40:])
    again = SerialVectorEnv(game_envs(options), 3, SEEDS)
    again.load_state_dict(state)
    assert_same(expected, play(again, actions[40:]))
    again.close()


SCRIPT = """
import sys
import numpy as np
from tests.tasks.nethack.games import drawn_actions, opened
game = opened()
seen = [game.shown() for _ in game.play(19, drawn_actions(150, 19))]
np.savez(sys.argv[1], **{f"{step}.{name}": part for step, one in enumerate(seen[100:])
                         for name, part in one.items()})
game.env.close()
"""


@pytest.mark.thorough
def test_a_fresh_process_rebuilds_the_game_from_seed_and_actions(tmp_path: Path) -> None:
    from tests.tasks.nethack.games import drawn_actions, opened

    path = tmp_path / "seen.npz"
    subprocess.run([sys.executable, "-c", SCRIPT, str(path)], check=True)
    game = opened()
    seen = [game.shown() for _ in game.play(19, drawn_actions(150, 19))]
    game.env.close()
    theirs = np.load(path)
    for step, one in enumerate(seen[100:]):
        for name, part in one.items():
            assert np.array_equal(part, theirs[f"{step}.{name}"])

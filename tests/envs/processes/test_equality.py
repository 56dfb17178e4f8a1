"""The processes runtime gives what the serial one gives, to the bit, whatever the env offers."""

from __future__ import annotations

import os
import signal

import pytest

from longhaul.core.settings import Setting, Settings
from longhaul.envs.gymnasium.env import GymnasiumFactory, gymnasium_envs
from longhaul.envs.serial import SerialVectorEnv
from longhaul.envs.starts import STARTS
from tests.contracts.vector_env_contract import SEEDS, Record, assert_same, play, wishes
from tests.envs.gymnasium_fakes import fake_id
from tests.envs.processes.conftest import Launch, Reports

STRIDE: Setting[float] = Setting("walk.stride", 1.0, "Length of a step")


@pytest.mark.parametrize(
    "name",
    [
        "SettingsWalk",
        pytest.param("ExactWalk", marks=pytest.mark.slow),
        "SplitMaskedWalk",
        pytest.param("DictWalk", marks=pytest.mark.slow),
        pytest.param("StackedWalk", marks=pytest.mark.slow),
    ],
)
def test_masks_settings_starts_and_parts_equal_those_of_the_serial_runtime(
    launch: Launch, reports: Reports, name: str
) -> None:
    source = gymnasium_envs(GymnasiumFactory(fake_id(name)))
    settings = Settings([STRIDE, STARTS], {STARTS.name: tuple(0.25 * n for n in range(9))})
    plain, apart = SerialVectorEnv(source, 5, SEEDS), launch(source, 5)
    seen: list[list[Record]] = []
    for vector in (plain, apart):
        vector.configure(settings)
        vector.reset()
        actions = wishes(plain)
        records = play(vector, actions[:20])
        vector.configure(settings.with_([STRIDE.to(0.5)]))
        for cut in (20, 50):
            if vector is apart:
                os.kill(apart.pids()[0], signal.SIGKILL)
            records += play(vector, actions[cut : cut + 30])
        seen.append(records)
    assert_same(*seen)
    assert apart.starts_used == plain.starts_used
    assert reports.kinds() == ["died", "replaced"] * 2

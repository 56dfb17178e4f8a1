"""The processes runtime keeps the contract of all vector envs, and equals the serial one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from longhaul.core.env import SingleEnvs, VectorEnv
from longhaul.core.seeds import EpisodeSeeds, ListedSeeds
from longhaul.core.spaces import Tier
from longhaul.envs.config import ProcessesConfig
from longhaul.envs.processes.vector import ProcessVectorEnv
from longhaul.envs.serial import SerialVectorEnv
from tests.contracts.vector_env_contract import Make, VectorEnvContract
from tests.envs.school import SchoolFactory

SOURCES = {
    "rows by replay": SchoolFactory(Tier.REPLAY).source(),
    "rows by snapshot": SchoolFactory(Tier.SNAPSHOT).source(),
}


class TestProcessesContract(VectorEnvContract):
    @pytest.fixture(
        params=["rows by replay", pytest.param("rows by snapshot", marks=pytest.mark.slow)]
    )
    def source(self, request: pytest.FixtureRequest) -> SingleEnvs:
        return SOURCES[request.param]

    @pytest.fixture
    def make(self, source: SingleEnvs) -> Iterator[Make]:
        made: list[VectorEnv] = []

        def make(count: int, seeds: EpisodeSeeds) -> VectorEnv:
            if isinstance(seeds, ListedSeeds):
                # The suite compares with dozens of these: the serial one is the better witness.
                made.append(SerialVectorEnv(source, count, seeds))
            else:
                config = ProcessesConfig(workers=1)
                made.append(ProcessVectorEnv(source, count, seeds, config=config))
            return made[-1]

        yield make
        for vector in made:
            vector.close()

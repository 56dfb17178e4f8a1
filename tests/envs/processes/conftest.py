"""Vector envs in processes that are closed at the end, and what they reported."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest

from longhaul.core.env import SingleEnvs
from longhaul.core.seeds import EpisodeSeeds
from longhaul.envs.config import ProcessesConfig
from longhaul.envs.faults import Fault, FaultPolicy, Listeners, Repro
from longhaul.envs.processes.vector import ProcessVectorEnv
from tests.contracts.vector_env_contract import SEEDS

# Deadlines short enough to wait for, long enough for a busy machine.
QUICK = ProcessesConfig(
    workers=2, least_deadline_seconds=1.0, step_seconds=1.5, reset_seconds=1.5, close_seconds=1.0
)


@dataclass
class Reports:
    """Everything a vector env reported."""

    faults: list[Fault] = field(default_factory=list)
    repros: list[Repro] = field(default_factory=list)
    marks: list[dict[str, object]] = field(default_factory=list)

    @property
    def listeners(self) -> Listeners:
        return Listeners(self.faults.append, self.repros.append, self.marks.append)

    def kinds(self) -> list[str]:
        return [fault.kind for fault in self.faults]


Launch = Callable[..., ProcessVectorEnv]


@pytest.fixture
def reports() -> Reports:
    return Reports()


@pytest.fixture
def launch(reports: Reports) -> Iterator[Launch]:
    made: list[ProcessVectorEnv] = []

    def launch(
        source: SingleEnvs,
        count: int = 4,
        config: ProcessesConfig = QUICK,
        seeds: EpisodeSeeds = SEEDS,
        most_dropped: int = 100,
    ) -> ProcessVectorEnv:
        faults = FaultPolicy(most_dropped, reports.listeners)
        vector = ProcessVectorEnv(source, count, seeds, config=config, faults=faults)
        made.append(vector)
        return vector

    yield launch
    for vector in made:
        vector.close()

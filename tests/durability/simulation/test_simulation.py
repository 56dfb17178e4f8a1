"""Many short histories full of faults, each decided by its seed, and none with a wrong result."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest

from longhaul.core.env import Step
from longhaul.core.seeds import DerivedSeeds, Seeds
from longhaul.core.spaces import Tier
from tests.durability.power import scratch
from tests.durability.simulation.chain import ChainEnv, ChainFactory
from tests.durability.simulation.history import AMPLE, History, simulate, undisturbed
from tests.durability.simulation.planted import BUGS
from tests.durability.simulation.watcher import Workload
from tests.durability.simulation.world import SimulatedVectorEnv, World, in_threads

SEEDS_IN_CI = 200
SEEDS_FOR_A_BUG = 1000

Expected = dict[Workload, dict[str, str]]


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    with TemporaryDirectory(dir=scratch()) as name:
        yield Path(name)


@pytest.fixture(scope="module")
def expected(folder: Path) -> Expected:
    return undisturbed(folder)


def found(histories: Iterator[History]) -> list[str]:
    return [
        f"{history.violation}; again: python -m tests.durability.simulation --seed {history.seed}"
        for history in histories
        if history.violation
    ]


def test_a_few_histories_go_well(folder: Path, expected: Expected) -> None:
    assert not found(simulate(range(20), folder, expected))


@pytest.mark.thorough
def test_no_history_is_ever_silently_wrong(folder: Path, expected: Expected) -> None:
    assert not found(simulate(range(20, SEEDS_IN_CI), folder, expected))


def test_a_seed_is_one_history(folder: Path, expected: Expected) -> None:
    seeds = (18, 29, 34)
    first, second = (list(simulate(seeds, folder, expected)) for _ in range(2))
    assert first == second
    assert sum(history.injected for history in first) > 50


@pytest.mark.parametrize("bug", sorted(BUGS))
def test_a_planted_bug_is_found(bug: str, folder: Path, expected: Expected) -> None:
    with BUGS[bug]():
        histories = simulate(range(SEEDS_FOR_A_BUG), folder, expected)
        first = next((history for history in histories if history.violation), None)
    assert first is not None
    assert first.injected


class OneDeath(World):
    """Nothing fails but one reset, in which the worker dies."""

    def __init__(self, reset: int) -> None:
        super().__init__(random.Random(0), rate=0.5)
        self._left = reset

    def strikes(self, fault: str, share: float = 1.0) -> bool:
        is_reset = fault == "reset writes nonsense and dies"
        self._left -= is_reset
        return is_reset and self._left == 0


def chain_envs(world: World, tier: Tier) -> SimulatedVectorEnv:
    ChainEnv.world = world
    return SimulatedVectorEnv(
        ChainFactory(tier).source(),
        3,
        DerivedSeeds(Seeds(5)),
        config=AMPLE,
    )


def shown(step: Step) -> tuple[object, ...]:
    slots = step.slots
    return slots.obs["obs"].tolist(), slots.reward.tolist(), slots.lost.tolist(), step.events


@pytest.mark.parametrize("tier", [Tier.SNAPSHOT, Tier.REPLAY])
@pytest.mark.parametrize("reset", range(1, 7))
def test_a_worker_that_dies_while_a_run_resumes_changes_nothing(tier: Tier, reset: int) -> None:
    actions = np.random.default_rng(1).integers(0, 4, (12, 3))
    quiet = World(random.Random(0), rate=0.0)
    with in_threads(quiet):
        whole = chain_envs(quiet, tier)
        whole.reset()
        for action in actions[:6]:
            whole.step(action)
        saved = whole.state_dict()
        expected = [shown(whole.step(action)) for action in actions[6:]]
        whole.close()
    world = OneDeath(reset)
    with in_threads(world):
        resumed = chain_envs(world, tier)
        resumed.load_state_dict(saved)
        assert [shown(resumed.step(action)) for action in actions[6:]] == expected
        resumed.close()

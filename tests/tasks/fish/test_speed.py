"""What a fish's step costs, in CPU time."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from longhaul.core.seeds import DerivedSeeds, Seeds
from longhaul.envs.serial import BatchedVectorEnv
from longhaul.tasks.fish.options import FishOptions
from longhaul.tasks.fish.world import world
from longhaul.tasks.fish.world.school import fish_envs
from longhaul.tasks.fish.world.step import step_schools


def steps_per_cpu_second(options: FishOptions, schools: int) -> float:
    """Return the rate of stepping, resets and checks of the vector env included."""
    vector = BatchedVectorEnv(fish_envs(options), schools, DerivedSeeds(Seeds(1)))
    vector.reset()
    actions = np.random.default_rng(0).integers(0, 5, (100, vector.rows))
    vector.step(actions[0])
    begun, steps = time.process_time(), 0
    for action in actions:
        steps += int(np.count_nonzero(vector.slots.active))
        vector.step(action)
    return steps / (time.process_time() - begun)


@pytest.mark.slow
@pytest.mark.measures
@pytest.mark.parametrize("inputs", ["world", "own_frame"])
def test_a_million_fish_step_in_a_cpu_second(
    inputs: str, record_property: Callable[[str, object], None]
) -> None:
    options = FishOptions(inputs="world" if inputs == "world" else "own_frame", short_share=0.8)
    fastest = max(steps_per_cpu_second(options, 128) for _ in range(3))
    record_property("fish steps per CPU second", f"{fastest:,.0f}")
    assert fastest > 1_000_000


@pytest.mark.slow
@pytest.mark.measures
def test_a_fish_costs_no_more_in_a_large_school(
    record_property: Callable[[str, object], None],
) -> None:
    small = max(steps_per_cpu_second(FishOptions(fish=25, short_share=0.8), 128) for _ in range(3))
    large = max(steps_per_cpu_second(FishOptions(fish=250, short_share=0.8), 13) for _ in range(3))
    record_property("speed of 250 over 25 fish", f"{large / small:.2f}")
    assert large > 0.8 * small


def test_every_module_with_native_code_counts_for_the_stamp() -> None:
    folder = Path(world.__file__).parent
    native = {path.stem for path in folder.glob("*.py") if "\n@kernel\n" in path.read_text("utf-8")}
    assert native | {"world"} == set(world.KERNEL_MODULES)


def test_compiled_code_belongs_to_the_sources_it_was_made_from() -> None:
    held = [cell.cell_contents for cell in step_schools.py_func.__closure__]
    assert world.world_stamp() in held

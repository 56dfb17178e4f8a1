"""Row 9 of the checklist: the curriculum's phases."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from longhaul.core.config import convert
from longhaul.core.control import Progress, View
from longhaul.core.errors import ConfigError
from longhaul.core.settings import Settings
from longhaul.tasks.fish.options import SCHOOL_SIZE
from longhaul.tasks.fish.training.curriculum import Curriculum
from longhaul.tasks.fish.training.options import SchoolPhase, TrainingOptions
from tests.tasks.fish.laboratory import CURRICULUM, curriculum


def test_the_recorded_curriculum_is_read() -> None:
    phases = curriculum().phases
    assert [phase.fish for phase in phases] == [15, 20, 25, 25, 25, 25, 25]
    assert curriculum().firsts[:3] == (1, 10, 20)
    assert curriculum().lasts[:3] == (9, 19, 28)
    assert curriculum().lasts[-1] == 60


def test_without_phases_there_is_one() -> None:
    assert Curriculum.of((), fish=25, total_iterations=60).phases == (SchoolPhase(25, 60),)
    assert Curriculum.of((), fish=25, total_iterations=0).phase_at(1000) == 1


def read(phases: object) -> Curriculum:
    options = convert({"curriculum": phases}, TrainingOptions, where="options.training")
    return Curriculum.of(options.curriculum, fish=25, total_iterations=60)


@pytest.mark.parametrize(
    ("phases", "problem"),
    [
        (
            [{"fish": 15, "iterations": 9}, {"fish": 20, "iterations": 10}],
            "add up to 19 iterations, and total_iterations = 60",
        ),
        ([{"fish": 15, "iterations": 9}, {"fish": 20}], "missing required field iterations"),
        ([{"fish": 15, "iterations": 0}], "iterations = 0 must be at least 1"),
        ([{"fish": 0, "iterations": 60}], "fish = 0 must be at least 1"),
        ([{"fish": 15, "iterations": -60}], "iterations = -60 must be at least 1"),
        ([{"fish": "a", "iterations": 60}], "expected int"),
        ([{"fish": 15, "iteration": 60}], "did you mean 'options.training.curriculum.iterations'"),
        ([60], "is a table of settings, not 60"),
        ("15:9,20:51", "is an array of tables, not '15:9,20:51'"),
    ],
)
def test_a_wrong_curriculum_is_refused_by_name(phases: object, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem) as refused:
        read(phases)
    assert "options.training.curriculum" in str(refused.value)


def test_a_curriculum_needs_a_run_counted_in_iterations() -> None:
    with pytest.raises(ConfigError, match="total_iterations must be set"):
        Curriculum.of(CURRICULUM, fish=25, total_iterations=0)


@settings(max_examples=20)
@given(st.lists(st.tuples(st.integers(1, 30), st.integers(1, 9)), min_size=1, max_size=6))
def test_every_iteration_trains_with_the_fish_of_its_phase(pairs: list[tuple[int, int]]) -> None:
    expected = [fish for fish, length in pairs for _ in range(length)]
    phases = tuple(SchoolPhase(fish, length) for fish, length in pairs)
    parsed = Curriculum.of(phases, fish=30, total_iterations=len(expected))
    controller = parsed.controller(SCHOOL_SIZE)
    present = Settings([replace(SCHOOL_SIZE, default=1, high=30)])
    trained = []
    for done in range(len(expected)):
        view = View(Progress(done), {}, present)
        present = present.with_(controller.decide(controller.initial(), view).assignments)
        trained.append(present[SCHOOL_SIZE])
    assert trained == expected
    numbers = [parsed.phase_at(iteration) for iteration in range(1, len(expected) + 1)]
    assert numbers == sorted(numbers)
    assert [pairs[number - 1][0] for number in numbers] == expected

"""Row 9 of the checklist: the curriculum's grammar, and the phases it makes."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from longhaul.core.control import Progress, View
from longhaul.core.errors import ConfigError
from longhaul.core.settings import Settings
from longhaul.tasks.fish.options import SCHOOL_SIZE
from longhaul.tasks.fish.training.curriculum import Curriculum
from tests.tasks.fish.laboratory import CURRICULUM, curriculum


def test_the_recorded_curriculum_is_read() -> None:
    phases = curriculum().phases
    assert [phase.fish for phase in phases] == [15, 20, 25, 25, 25, 25, 25]
    assert [(phase.first, phase.last) for phase in phases[:3]] == [(1, 9), (10, 19), (20, 28)]
    assert phases[-1].last == 60


def test_an_empty_text_is_one_phase() -> None:
    (phase,) = Curriculum.parse("", fish=25, total_iterations=60).phases
    assert (phase.fish, phase.first, phase.last) == (25, 1, 60)
    assert Curriculum.parse("", fish=25, total_iterations=0).phase_at(1000) == 1


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("15:9,20:10", "add up to 19 iterations, and total_iterations = 60"),
        ("15:9,20", "'20' has no colon; write fish:iterations"),
        ("15:0,20:60", "'15:0': 0 is not at least 1"),
        ("0:60", "'0:60': 0 is not at least 1"),
        ("15:-60", "-60 is not at least 1"),
        ("a:60", "invalid literal"),
        ("15:9,,20:51", "'' has no colon"),
    ],
)
def test_a_wrong_curriculum_is_refused_by_name(text: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem) as refused:
        Curriculum.parse(text, fish=25, total_iterations=60)
    assert "options.training.curriculum" in str(refused.value)


def test_a_curriculum_needs_a_run_counted_in_iterations() -> None:
    with pytest.raises(ConfigError, match="total_iterations must be set"):
        Curriculum.parse(CURRICULUM, fish=25, total_iterations=0)


@settings(max_examples=20, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 30), st.integers(1, 9)), min_size=1, max_size=6))
def test_every_iteration_trains_with_the_fish_of_its_phase(pairs: list[tuple[int, int]]) -> None:
    expected = [fish for fish, length in pairs for _ in range(length)]
    text = ",".join(f"{fish}:{length}" for fish, length in pairs)
    parsed = Curriculum.parse(text, fish=30, total_iterations=len(expected))
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

from __future__ import annotations

from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from longhaul.core.control import Progress
from longhaul.schedule.ramp import between, position, words

numbers = st.floats(-1e9, 1e9)


@hypothesis_settings(max_examples=200)
@given(start=numbers, end=numbers, share=st.floats(0, 1))
def test_a_value_between_two_others_is_never_outside_them(
    start: float, end: float, share: float
) -> None:
    assert min(start, end) <= between(start, end, share) <= max(start, end)
    assert between(start, end, 0.0) == start
    assert between(start, end, 1.0) == end


def test_every_axis_has_its_counter() -> None:
    progress = Progress(iteration=3, env_steps=250, episodes=7)
    assert position(progress, "iterations", 0) == 3
    assert position(progress, "env_steps", 0) == 250
    assert position(progress, "episodes", 0) == 7
    assert position(progress, "run", 1000) == 0.25


def test_a_run_that_goes_on_past_its_length_stays_at_its_end() -> None:
    assert position(Progress(env_steps=2000), "run", 1000) == 1.0


def test_places_are_told_in_words() -> None:
    assert words("env_steps", 1000) == "env step 1000"
    assert words("run", 0.255) == "25.5% of the run"

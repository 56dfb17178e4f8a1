"""Row 17 of the fish checklist: patience, duration and resolution of the warning."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from longhaul.schedule.start_queue import LowWarning, WarningState
from longhaul.tasks.fish.hard_starts.files import StageSpec
from longhaul.tasks.fish.lab.timeline import LoggedIteration, warning_events


def observed(*ratios: float | None, first: int = 1) -> list[LoggedIteration]:
    found = []
    for place, ratio in enumerate(ratios):
        known = {} if ratio is None else {"starts/tail_remaining_ratio": ratio}
        metrics = {"starts/tail_remaining": int(1000 * (ratio or 0)), **known}
        stage = StageSpec(1, type="main", label=f"stage{place}")
        found.append(LoggedIteration(first + place, metrics, {}, stage))
    return found


def states(warning: LowWarning, *ratios: float | None, first: int = 1) -> list[WarningState]:
    found, state = [], WarningState()
    for place, ratio in enumerate(ratios):
        state = warning.observe(state, first + place, ratio)
        found.append(state)
    return found


def test_the_example_of_version_42_is_active_from_57_and_lasts_4() -> None:
    warning = LowWarning(0.70, patience=3)
    ratios = (0.711, 0.703, 0.699, 0.697, 0.695, 0.692, 0.690, 0.687)
    seen = states(warning, *ratios, first=53)
    assert [state.hits for state in seen] == [0, 0, 1, 2, 3, 4, 5, 6]
    assert [state.since for state in seen] == [None] * 4 + [57] * 4
    assert [state.duration(53 + k) for k, state in enumerate(seen)] == [0, 0, 0, 0, 1, 2, 3, 4]
    (event,) = warning_events(warning, observed(*ratios, first=53), is_over=True)
    assert (event.iteration, event.remaining_ratio, event.threshold) == (57, 0.695, 0.70)
    assert (event.tail_stage_label, event.remaining) == ("stage4", 695)
    assert (event.resolved_iteration, event.duration_iterations) == (60, 4)
    assert event.clear_ratio is None


def test_a_ratio_that_rises_resolves_the_warning_and_starts_over() -> None:
    warning = LowWarning(0.5, patience=2)
    ratios = (0.5, 0.4, 0.4, 0.9, 0.4, 0.3)
    assert [state.hits for state in states(warning, *ratios)] == [1, 2, 3, 0, 1, 2]
    first, second = warning_events(warning, observed(*ratios), is_over=False)
    assert (first.iteration, first.resolved_iteration, first.duration_iterations) == (2, 4, 2)
    assert first.clear_ratio == 0.9
    assert (second.iteration, second.resolved_iteration) == (6, None)


def test_an_unknown_ratio_resolves_as_a_high_one() -> None:
    (event,) = warning_events(LowWarning(0.5, 1), observed(0.2, 0.2, None), is_over=True)
    assert (event.resolved_iteration, event.duration_iterations, event.clear_ratio) == (3, 2, None)


def test_a_threshold_of_zero_never_warns() -> None:
    assert warning_events(LowWarning(0.0, 1), observed(0.0, 0.0), is_over=True) == ()


@given(
    ratios=st.lists(st.one_of(st.none(), st.floats(0, 1)), min_size=1, max_size=40),
    threshold=st.floats(0.1, 0.9),
    patience=st.integers(1, 4),
)
def test_warnings_begin_after_patience_and_never_overlap(
    ratios: list[float | None], threshold: float, patience: int
) -> None:
    warning = LowWarning(threshold, patience)
    events = warning_events(warning, observed(*ratios), is_over=True)
    for event in events:
        before = ratios[event.iteration - patience : event.iteration]
        assert len(before) == patience
        assert all(ratio is not None and ratio <= threshold for ratio in before)
        assert event.resolved_iteration is not None
        assert event.duration_iterations is not None
        assert event.duration_iterations >= 1
    for one, next_one in itertools.pairwise(events):
        assert one.resolved_iteration is not None
        assert one.resolved_iteration < next_one.iteration

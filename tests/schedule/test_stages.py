"""Row 17 of the fish checklist: where the queue stands, on the reference numbers and at random."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longhaul.schedule.start_queue import QueueStage, StageTracker

LENGTHS = (8, 15, 24, 16, 25, 20)
ENVS = 128


def tracker(*types: str) -> StageTracker:
    stages = zip(LENGTHS, types, strict=True)
    return StageTracker(
        tuple(
            QueueStage(length * ENVS, stage_type, f"stage{number}")
            for number, (length, stage_type) in enumerate(stages, start=1)
        )
    )


REFERENCE = tracker("ne", "main", "main", "ne", "main", "ne")
"""Its lengths are those of version 38, its types come back more often."""


def resets_of_version_38(iterations: int) -> int:
    """Return the resets of all schools: after 224 steps, and where a phase begins."""
    age = resets = 0
    for iteration in range(iterations):
        if iteration in (0, 9, 19, 28, 36, 44, 52):
            age, resets = 0, resets + ENVS
        for _ in range(128):
            age += 1
            if age == 224:
                age, resets = 0, resets + ENVS
    return resets


def test_the_reference_stages_have_13824_places() -> None:
    assert REFERENCE.total == 13824
    assert REFERENCE.ends() == (1024, 2944, 6016, 8064, 11264, 13824)


def test_a_fresh_queue_is_at_the_beginning_of_its_first_stage() -> None:
    status = REFERENCE.status(0)
    assert (status.index, status.label, status.category) == (1, "stage1", "ne")
    assert (status.progress, status.remaining, status.remaining_ratio) == (0.0, 13824, 1.0)
    assert status.remaining_by_category == {"ne": 5632, "main": 8192}
    assert status.reentries_by_category == {"ne": 0, "main": 0}


def test_a_stage_is_over_when_all_of_it_is_consumed() -> None:
    assert (REFERENCE.status(1023).index, REFERENCE.status(1024).index) == (1, 2)
    assert REFERENCE.status(1023).progress == pytest.approx(1023 / 1024)


def test_the_resets_of_version_38_leave_what_it_logged_at_iteration_59() -> None:
    version_38 = tracker("ne", "main", "main", "main", "main", "main")
    status = version_38.status(resets_of_version_38(59))
    assert status.remaining_ratio == pytest.approx(0.648, abs=5e-4)
    assert (status.label, status.category) == ("stage3", "main")
    assert status.remaining_by_category == {"ne": 0, "main": status.remaining}


def test_a_stage_of_eight_iterations_lasted_ten_in_version_38() -> None:
    version_38 = tracker("ne", "main", "main", "main", "main", "main")
    stages = [version_38.status(resets_of_version_38(number)).index for number in (9, 10, 11)]
    assert stages == [1, 1, 2]


def test_types_count_how_often_they_come_back() -> None:
    status = REFERENCE.status(7000)
    assert status.index == 4
    assert status.reentries_by_category == {"ne": 1, "main": 1}
    assert status.reentries_by_category["ne"] == 1
    assert status.remaining_by_category == {"ne": 8064 - 7000 + 2560, "main": 3200}


def test_a_queue_that_is_used_up_stays_in_its_last_stage() -> None:
    status = REFERENCE.status(99999)
    assert (status.index, status.progress, status.remaining) == (6, 1.0, 0)
    assert status.consumed == 13824
    assert REFERENCE.position(13824) == 6


spans = st.lists(
    st.builds(
        QueueStage,
        capacity=st.integers(1, 40),
        category=st.sampled_from(["", "ne", "main"]),
        label=st.just("x"),
    ),
    min_size=1,
    max_size=6,
)


@given(spans=spans, consumed=st.integers(0, 300))
def test_what_is_left_adds_up_and_never_grows(spans: list[QueueStage], consumed: int) -> None:
    tracker = StageTracker(tuple(spans))
    status, later = tracker.status(consumed), tracker.status(consumed + 1)
    untyped = [span for span in spans if not span.category]
    left_untyped = sum(
        min(span.capacity, max(0, end - status.consumed))
        for span, end in zip(spans, tracker.ends(), strict=True)
        if span in untyped and not span.category
    )
    assert sum(status.remaining_by_category.values()) + left_untyped == status.remaining
    assert 0 <= status.progress <= 1
    assert later.remaining <= status.remaining
    assert later.index >= status.index
    assert all(
        later.reentries_by_category[name] >= count
        for name, count in status.reentries_by_category.items()
    )

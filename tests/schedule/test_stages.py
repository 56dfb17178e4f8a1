"""Row 17 of the fish checklist: where the queue stands, on the reference numbers and at random."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longhaul.schedule.start_queue import QueueStage, StageTracker

REFERENCE = StageTracker(
    tuple(
        QueueStage(length * 128, stage_type, f"stage{number}")
        for number, (length, stage_type) in enumerate(
            zip((8, 15, 24, 16, 25, 20), ("ne", "main", "main", "ne", "main", "ne"), strict=True),
            start=1,
        )
    )
)


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


def test_the_ratio_of_the_reference_run_at_iteration_59_is_reached_at_4866() -> None:
    # 0.648 was left after resets every 1.75 iterations and at phase changes: spec 5.4.
    status = REFERENCE.status(4866)
    assert status.remaining_ratio == pytest.approx(0.648, abs=5e-4)
    assert status.category == "main"
    assert status.reentries_by_category == {"ne": 0, "main": 1}


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

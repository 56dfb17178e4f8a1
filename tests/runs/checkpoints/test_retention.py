from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longhaul.runs.checkpoints.inspect import remove_leftovers, spread_out, temporary_folder
from longhaul.runs.checkpoints.store import CheckpointStore
from longhaul.runs.directory import RunDirectory
from longhaul.runs.lock import RunLock
from tests.runs.conftest import FakeClock, make_snapshot

MakeStore = Callable[..., CheckpointStore]


def iterations(store: CheckpointStore) -> list[int]:
    return sorted(int(path.name.split("-")[1]) // 100 for path in store.folder.glob("step-*"))


def test_the_newest_stay(make_store: MakeStore) -> None:
    store = make_store(keep_last=2, keep_best=0)
    for number in range(1, 6):
        store.save(make_snapshot(number))
    assert iterations(store) == [4, 5]


@pytest.mark.parametrize(("higher", "kept"), [(True, [1, 3, 6, 7]), (False, [4, 5, 6, 7])])
def test_the_best_stay_beside_them(make_store: MakeStore, kept: list[int], *, higher: bool) -> None:
    store = make_store(keep_last=2, keep_best=2, higher_is_better=higher)
    for number, score in enumerate([9.0, 5.0, 9.0, 1.0, 2.0, None, None], start=1):
        store.save(make_snapshot(number, score))
    assert iterations(store) == kept


def test_of_equal_scores_the_newest_stays(make_store: MakeStore) -> None:
    store = make_store(keep_last=1, keep_best=1)
    for number in range(1, 4):
        store.save(make_snapshot(number, 7.0))
    store.save(make_snapshot(4))
    assert iterations(store) == [3, 4]


@pytest.mark.parametrize("higher", [True, False])
def test_a_score_that_none_beats_would_be_the_best(make_store: MakeStore, *, higher: bool) -> None:
    store = make_store(higher_is_better=higher)
    assert store.would_be_best(7.0)
    store.save(make_snapshot(1, 7.0))
    assert store.would_be_best(7.0)
    assert store.would_be_best(8.0) == higher
    assert store.would_be_best(6.0) != higher


def test_scores_of_another_metric_do_not_count(make_store: MakeStore) -> None:
    make_store(best_metric="eval/other").save(make_snapshot(1, 99.0))
    store = make_store(keep_last=1, keep_best=1)
    store.save(make_snapshot(2, 1.0))
    store.save(make_snapshot(3))
    assert iterations(store) == [2, 3]


def test_a_damaged_checkpoint_is_neither_counted_nor_removed(make_store: MakeStore) -> None:
    store = make_store(keep_last=2, keep_best=0)
    broken = store.save(make_snapshot(1))
    part = broken / "learner.safetensors"
    content = bytearray(part.read_bytes())
    content[-1] ^= 1
    part.write_bytes(content)
    for number in range(2, 6):
        store.save(make_snapshot(number))
    assert iterations(store) == [1, 4, 5]
    assert part.read_bytes() == content


def test_leftovers_of_a_killed_writer_are_removed_and_nothing_else(
    run: RunDirectory, clock: FakeClock
) -> None:
    ours = temporary_folder(run.checkpoints)
    ours.mkdir()
    (ours / "learner.safetensors").write_bytes(b"half")
    theirs = run.checkpoints / ".tmp-notes"
    theirs.mkdir()
    outside = run.path / "outside"
    outside.mkdir()
    (run.checkpoints / f".tmp-{'0' * 32}").symlink_to(outside)
    with RunLock(run.lock, clock.clocks()) as lock:
        assert remove_leftovers(run.checkpoints, lock) == [ours]
    assert theirs.exists()
    assert outside.exists()


def test_nobody_cleans_without_the_lock(
    run: RunDirectory, clock: FakeClock, tmp_path: Path
) -> None:
    lock = RunLock(run.lock, clock.clocks())
    lock.close()
    with pytest.raises(ValueError, match="holder"):
        remove_leftovers(run.checkpoints, lock)
    with (
        RunLock(tmp_path / "lock", clock.clocks()) as other,
        pytest.raises(ValueError, match="lock"),
    ):
        remove_leftovers(run.checkpoints, other)


def test_checkpoints_spread_over_the_run_stay_beside_the_newest(make_store: MakeStore) -> None:
    store = make_store(keep_last=1, keep_best=0, keep_spread=4)
    for number in range(1, 14):
        store.save(make_snapshot(number))
    kept = iterations(store)
    assert kept[0] == 1
    assert kept[-1] == 13
    assert len(kept) == 4
    gaps = [after - before for before, after in pairwise(kept)]
    assert max(gaps) <= 2.5 * min(gaps)


@given(
    steps=st.sets(st.integers(0, 10_000), min_size=1, max_size=30),
    count=st.integers(0, 12),
)
def test_spreading_keeps_the_first_the_last_and_no_more_than_asked_for(
    steps: set[int], count: int
) -> None:
    places = {Path(str(step)): step for step in steps}
    chosen = [places[path] for path in spread_out(places, count)]
    assert chosen == sorted(chosen)
    assert len(chosen) == min(count, len(steps))
    if count:
        assert chosen[-1] == max(steps)
    if count > 1:
        assert chosen[0] == min(steps)

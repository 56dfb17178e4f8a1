from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from longhaul.web.curves import MOST_COLUMNS, Buckets, Stretches

VALUES = st.one_of(st.none(), st.floats(-1e6, 1e6), st.integers(-100, 100))


@st.composite
def logs(draw: st.DrawFn) -> tuple[list[dict[str, object]], list[int]]:
    values = draw(st.lists(VALUES, min_size=1, max_size=80))
    rows: list[dict[str, object]] = [
        {"x": number} if value is None else {"x": number, "loss": value}
        for number, value in enumerate(values)
    ]
    cuts = draw(st.lists(st.integers(0, len(rows)), max_size=6))
    return rows, sorted(cuts)


@given(logs(), st.integers(1, 12))
def test_means_and_extremes_are_those_of_the_rows(
    made: tuple[list[dict[str, object]], list[int]], capacity: int
) -> None:
    rows, cuts = made
    buckets = Buckets(capacity)
    for begin, end in zip([0, *cuts], [*cuts, len(rows)], strict=True):
        buckets.append(rows[begin:end])
    found = buckets.over("loss", "x")
    values = [float(row["loss"]) if "loss" in row else np.nan for row in rows]  # type: ignore[arg-type]  # a number where it is there
    stretches = [
        np.array(values[at : at + buckets.stride]) for at in range(0, len(rows), buckets.stride)
    ]
    known = [part[~np.isnan(part)] for part in stretches if not np.isnan(part).all()]
    assert len(stretches) <= capacity + capacity % 2
    np.testing.assert_allclose(found.mean, [part.mean() for part in known], rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(found.low, [part.min() for part in known])
    np.testing.assert_array_equal(found.high, [part.max() for part in known])


@given(
    st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=300),
    st.integers(3, 40),
)
def test_thinning_keeps_the_extremes_and_both_ends(values: list[float], most: int) -> None:
    y = np.array(values)
    series = Stretches(np.arange(len(y), dtype=np.float64), y, y, y)
    found = series.thinned(most)
    assert len(found) <= most
    assert (found.low.min(), found.high.max()) == (y.min(), y.max())
    assert (found.mean[0], found.mean[-1]) == (y[0], y[-1])
    assert (np.diff(found.x) > 0).all()


def test_a_short_log_is_kept_exactly() -> None:
    buckets = Buckets()
    buckets.append([{"x": 1, "loss": 0.1}, {"x": 2, "loss": 0.2}])
    found = buckets.over("loss", "x")
    assert (found.x.tolist(), found.mean.tolist()) == ([1.0, 2.0], [0.1, 0.2])
    assert buckets.last("loss") == 0.2


@pytest.mark.parametrize("odd", ["text", [1, 2], {"a": 1}, None, float("inf"), 10**400])
def test_what_is_no_number_is_absent_and_harms_nothing_else(odd: object) -> None:
    buckets = Buckets()
    buckets.append([{"x": 1, "loss": 1.0}, {"x": 2, "loss": odd}, {"x": 3, "loss": 3.0}])
    assert buckets.over("loss", "x").mean.tolist() == [1.0, 3.0]


def test_memory_depends_on_the_columns_and_not_on_the_rows() -> None:
    sizes = []
    for count in (10_000, 100_000):
        buckets = Buckets()
        for begin in range(0, count, 5000):
            buckets.append([{"x": begin + n, "loss": float(n)} for n in range(5000)])
        sizes.append(buckets.nbytes)
    assert sizes[0] == sizes[1] < 1_000_000


def test_names_beyond_the_limit_are_counted_and_not_kept() -> None:
    buckets = Buckets()
    buckets.append([{f"m/{number}": 1.0 for number in range(MOST_COLUMNS + 7)}])
    assert (len(buckets.names), buckets.left_out) == (MOST_COLUMNS, 7)


def test_a_look_between_two_places_has_a_neighbor_on_each_side() -> None:
    y = np.arange(10.0)
    found = Stretches(y, y, y, y).between(3.5, 6.5)
    assert found.x.tolist() == [3.0, 4.0, 5.0, 6.0, 7.0]


@given(st.integers(2, 300))
def test_columns_that_never_change_are_constants(count: int) -> None:
    found = Buckets(8)
    rows = [{"same": 0.1, "counts": float(number), "once": 3.0} for number in range(count)]
    found.append([{**row, **({} if at else {"rare": 1.0})} for at, row in enumerate(rows)])
    assert found.constants == ["same", "once", "rare"]
    found.append([{"same": 0.2, "counts": 1.0}])
    assert found.constants == ["once", "rare"]

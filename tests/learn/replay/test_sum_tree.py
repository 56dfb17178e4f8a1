from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from longhaul.learn.replay.sum_tree import SumTree, Weights


def weights(
    size: st.SearchStrategy[int],
) -> st.SearchStrategy[Weights]:
    number = st.floats(0, 1e6, allow_subnormal=False) | st.just(0.0)
    return size.flatmap(lambda n: arrays.arrays(np.float64, (n,), elements=number))


def filled(values: Weights) -> SumTree:
    tree = SumTree(len(values))
    tree.set_all(values)
    return tree


@given(weights(st.integers(1, 70)), st.data())
def test_single_changes_lead_to_the_tree_built_at_once(
    values: Weights, data: st.DataObject
) -> None:
    tree = SumTree(len(values))
    left = data.draw(st.permutations(range(len(values))))
    while left:
        take = data.draw(st.integers(1, len(left)))
        items, left = np.array(left[:take]), left[take:]
        tree.set(items, values[items])
    assert np.array_equal(tree._nodes, filled(values)._nodes)
    assert tree.total == pytest.approx(values.sum())


@given(weights(st.integers(1, 40)), st.floats(0, 1, exclude_max=True))
def test_a_point_is_found_where_a_running_sum_passes_it(values: Weights, share: float) -> None:
    tree = filled(values)
    if tree.total == 0:
        return
    point = share * tree.total
    found = int(tree.find(np.array([point]))[0])
    assert values[found] > 0
    edges = np.concatenate([[0.0], np.cumsum(values)])
    tolerance = 1e-9 * tree.total
    assert edges[found] - tolerance <= point <= edges[found + 1] + tolerance


def test_the_very_end_of_the_total_is_an_item_with_weight() -> None:
    tree = filled(np.array([0.1, 0.7, 0.2, 0.0, 0.0]))
    assert tree.find(np.array([tree.total, np.nextafter(tree.total, 0)])).tolist() == [2, 2]


def test_of_an_item_named_twice_the_last_weight_counts() -> None:
    tree = SumTree(3)
    tree.set(np.array([1, 1, 2]), np.array([5.0, 2.0, 1.0]))
    assert tree.weights.tolist() == [0.0, 2.0, 1.0]
    assert tree.total == 3.0


@pytest.mark.parametrize("bad", [-1.0, np.nan, np.inf])
def test_weights_that_cannot_be_drawn_by_are_refused(bad: float) -> None:
    tree = SumTree(4)
    with pytest.raises(ValueError, match="finite and not negative"):
        tree.set(np.array([1]), np.array([bad]))
    with pytest.raises(ValueError, match="finite and not negative"):
        tree.set_all(np.array([bad]))
    assert tree.total == 0.0


@pytest.mark.parametrize("spread", [1.0, 12.0], ids=["alike", "over twelve decades"])
def test_items_come_as_often_as_their_weight(spread: float) -> None:
    """Row 40 of the checklist: the divergence of the counts from theory is below 0.01."""
    generator = np.random.default_rng(3)
    values = 10.0 ** generator.uniform(-spread, 0.0, 300)
    tree = filled(values)
    draws = np.concatenate([tree.draw(256, generator) for _ in range(1000)])
    counted = np.bincount(draws, minlength=300) / draws.size
    theory = values / values.sum()
    seen = counted > 0
    divergence = float((counted[seen] * np.log(counted[seen] / theory[seen])).sum())
    assert divergence < 0.01

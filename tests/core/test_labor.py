"""Native functions that Python calls with arguments written down before."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

from longhaul.core.labor import bind
from longhaul.core.native import fetch


def _add(pointer: Any, index: int, member: int) -> int:
    total, (numbers, factor) = fetch(pointer)
    total[0] += factor * numbers[index] + member
    return int(total[0])


def test_a_function_works_on_its_arguments_as_long_as_it_can_be_called() -> None:
    total = np.zeros(1)
    call = bind(_add, (total, (np.arange(1000.0), 0.5))).caller()
    gc.collect()
    kept = [np.full(1000, -1.0) for _ in range(100)]
    assert call(999, 2) == 501
    assert total.tolist() == [501.5]
    assert len(kept) == 100


def test_other_arguments_of_the_same_types_need_nothing_compiled() -> None:
    first, second = np.zeros(1), np.zeros(1)
    link = bind(_add, (first, (np.arange(3.0), 2.0)))
    other = link.with_arguments((second, (np.arange(100.0), 3.0)))
    other.caller()(50, 0)
    link.caller()(2, 0)
    assert (first[0], second[0]) == (4.0, 150.0)
    with pytest.raises(AssertionError, match="other types"):
        link.with_arguments((second, (np.zeros((2, 2)), 3.0)))

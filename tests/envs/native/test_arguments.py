"""Arguments as words: native code has back what was written down."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

from longhaul.core.env import Array
from longhaul.core.labor import bind
from longhaul.core.native import fetch, words_of
from longhaul.envs.native.thread_pool import Chain, run_alone

RECORD = np.dtype([("pair", np.int32, (2,)), ("flag", np.uint8)], align=True)


class Inner(NamedTuple):
    """Numbers of all kinds."""

    number: int
    share: float
    is_set: bool


class Outer(NamedTuple):
    """Arrays of all kinds, and a tuple."""

    inner: Inner
    plane: Array
    records: Array
    columns: tuple[Array, ...]
    told: Array


def _tell(pointer: Any, index: int, member: int) -> int:
    given = fetch(pointer)
    told = given.told[index]
    told[0] = given.inner.number
    told[1] = given.inner.share
    told[2] = 1.0 if given.inner.is_set else 0.0
    told[3] = given.plane[index, 1]
    told[4] = given.records[index].pair[1]
    for column in range(len(given.columns)):
        told[5 + column] = given.columns[column][index]
    told[7] = given.plane.shape[0] * 100 + given.plane.shape[1]
    return 0


@pytest.mark.parametrize("is_set", [True, False])
@pytest.mark.parametrize("order", ["C", "F"])
def test_native_code_has_its_arguments_back(order: Any, *, is_set: bool) -> None:
    plane = np.array([[1, 2, 3], [4, 5, 6]], np.float32, order=order)
    records = np.zeros(2, RECORD)
    records["pair"] = [[7, -8], [9, -10]]
    columns = (np.array([11, 12], np.uint8), np.array([13, 14], np.uint8))
    told = np.zeros((2, 8))
    outer = Outer(Inner(-(2**40), 0.1, is_set), plane, records, columns, told)
    run_alone(Chain(bind(_tell, outer)), np.zeros(2, np.int64), 0, 2)
    first = [-(2.0**40), 0.1, is_set]
    assert told.tolist() == [[*first, 2, -8, 11, 13, 203], [*first, 5, -10, 12, 14, 203]]


def test_the_words_of_an_array_are_where_it_is_its_shape_and_strides() -> None:
    array = np.zeros((3, 4), np.int16)[:, ::2]
    assert words_of((array, 5)).tolist() == [array.ctypes.data, 3, 2, 8, 4, 5]

from __future__ import annotations

import math
import pickle
import struct
from collections import OrderedDict
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from safetensors.numpy import load as load_numpy
from safetensors.torch import load as load_torch
from safetensors.torch import save as save_torch

from longhaul.core.errors import CheckpointError
from longhaul.core.seeds import Seeds, generator_state, restore_generator
from longhaul.runs.checkpoints import manifest as exact_json
from longhaul.runs.checkpoints.state_tree import (
    join_state,
    parse_safetensors,
    safetensors_chunks,
    split_state,
)

ARRAY_TYPES = "float64 float32 float16 int64 int32 int16 int8 uint64 uint32 uint16 uint8 bool"


def through_files(state: dict[str, Any]) -> dict[str, Any]:
    """Return the state after a trip through JSON and safetensors bytes."""
    split = split_state(state, "part")
    tree = exact_json.loads(exact_json.dumps(split.tree))
    if not split.arrays:
        return join_state(tree, {})
    return join_state(tree, parse_safetensors(b"".join(safetensors_chunks(split.arrays))))


def same(left: Any, right: Any) -> bool:
    """Whether two trees are equal to the bit, tuples counting as lists."""
    if isinstance(left, tuple):
        left = list(left)
    if type(left) is not type(right):
        return False
    match left:
        case dict():
            return list(left) == list(right) and all(same(left[key], right[key]) for key in left)
        case list():
            return len(left) == len(right) and all(map(same, left, right))
        case float():
            return struct.pack("d", left) == struct.pack("d", right)
        case np.ndarray():
            alike = left.dtype == right.dtype and left.shape == right.shape
            return alike and bool(left.tobytes() == right.tobytes())
        case torch.Tensor():
            return (
                left.dtype == right.dtype
                and left.shape == right.shape
                and repr(left.tolist()) == repr(right.tolist())
            )
    return bool(left == right)


shapes = hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3)
arrays = st.sampled_from(ARRAY_TYPES.split()).flatmap(
    lambda name: hnp.arrays(np.dtype(name), shapes)
)
tensors = arrays.map(lambda array: torch.from_numpy(np.array(array)))
plain = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**200), 2**200),
    st.floats(),
    st.text(max_size=10),
    st.binary(max_size=10),
)
keys = st.one_of(st.text(max_size=6), st.sampled_from(["$", "$$", "$float", "a/b", "a"]))
trees = st.recursive(
    st.one_of(plain, arrays, tensors),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(keys, inner, max_size=4),
    ),
    max_leaves=12,
)


@settings(max_examples=100)
@given(st.dictionaries(keys, trees, max_size=5))
def test_every_state_comes_back_to_the_bit(state: dict[str, Any]) -> None:
    assert same(state, through_files(state))


@settings(max_examples=30)
@given(st.dictionaries(keys, trees, max_size=5))
def test_the_same_state_gives_the_same_bytes(state: dict[str, Any]) -> None:
    first, second = split_state(state, "part"), split_state(state, "part")
    assert exact_json.dumps(first.tree) == exact_json.dumps(second.tree)
    assert b"".join(safetensors_chunks(first.arrays)) == b"".join(safetensors_chunks(second.arrays))


@settings(max_examples=50)
@given(st.dictionaries(st.text("abc/_", min_size=1, max_size=4), arrays, min_size=1, max_size=4))
def test_the_files_are_safetensors_to_the_reference_library(
    state: dict[str, np.ndarray[Any, Any]],
) -> None:
    content = b"".join(safetensors_chunks(split_state(dict(state), "part").arrays))
    assert same(dict(sorted(state.items())), dict(sorted(load_numpy(content).items())))


def test_the_reference_library_reads_our_file_like_its_own() -> None:
    state = {
        "wide": torch.arange(6, dtype=torch.float64).reshape(2, 3),
        "b": torch.ones(3, dtype=torch.bfloat16),
        "a": torch.zeros(2, 2),
        "flag": torch.ones((), dtype=torch.bool),
    }
    ours = b"".join(safetensors_chunks(split_state(dict(state), "part").arrays))
    assert same(
        dict(sorted(load_torch(ours).items())), dict(sorted(load_torch(save_torch(state)).items()))
    )


def test_views_parameters_and_brain_floats_are_saved_by_value() -> None:
    base = torch.arange(24, dtype=torch.float32).reshape(4, 6)
    state = {
        "transposed": base.T,
        "strided": base[::2, 1::3],
        "expanded": torch.tensor([1.5]).expand(3),
        "brain": base.to(torch.bfloat16),
        "parameter": torch.nn.Parameter(torch.ones(2)),
        "array": np.arange(10)[::-3],
        "fortran": np.asfortranarray(np.arange(6).reshape(2, 3)),
    }
    back = through_files(state)
    assert torch.equal(back["transposed"], base.T)
    assert torch.equal(back["strided"], base[::2, 1::3])
    assert torch.equal(back["expanded"], torch.full((3,), 1.5))
    assert torch.equal(back["brain"], base.to(torch.bfloat16))
    assert torch.equal(back["parameter"], torch.ones(2))
    assert type(back["parameter"]) is torch.Tensor
    assert np.array_equal(back["array"], np.arange(10)[::-3])
    assert np.array_equal(back["fortran"], np.arange(6).reshape(2, 3))


def test_arrays_that_come_back_can_be_written_to() -> None:
    back = through_files({"array": np.zeros(3), "tensor": torch.zeros(3)})
    back["array"][0] = 1
    back["tensor"][0] = 1


def test_a_module_and_an_optimizer_without_numbers_as_keys_survive() -> None:
    module = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))
    module(torch.randn(5, 3))
    other = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))
    state = module.state_dict()
    assert isinstance(state, OrderedDict)
    other.load_state_dict(through_files({"module": state})["module"])
    assert all(
        torch.equal(a, b)
        for a, b in zip(module.state_dict().values(), other.state_dict().values(), strict=True)
    )


def test_a_random_generator_continues_where_it_was() -> None:
    generator = Seeds(5).generator("noise")
    generator.random(7)
    saved = through_files({"generator": generator_state(generator)})
    other = Seeds(6).generator("noise")
    restore_generator(other, saved["generator"])
    assert generator.random(5).tolist() == other.random(5).tolist()


def test_integers_beyond_python_s_printing_limit_survive() -> None:
    huge = -(7**20000)
    assert through_files({"huge": huge})["huge"] == huge


def test_a_nan_keeps_its_payload() -> None:
    odd = struct.unpack("d", b"\x01\x02\x03\x04\x05\x06\xf8\xff")[0]
    back = through_files({"odd": odd})["odd"]
    assert math.isnan(back)
    assert struct.pack("d", back) == struct.pack("d", odd)


class Custom:
    pass


@pytest.mark.parametrize(
    "value",
    [
        Custom(),
        {1, 2},
        1j,
        np.float32(1),
        np.float64(1),
        np.array([object()]),
        np.array(["text"]),
        np.zeros(2, dtype=[("a", "f4")]),
        np.ma.masked_array([1, 2]),
        torch.zeros(2, dtype=torch.complex64),
        torch.eye(2).to_sparse(),
        bytearray(b"x"),
        {1: 2},
        "\ud800",
        {"\ud800": 1},
    ],
    ids=lambda value: type(value).__name__,
)
def test_anything_else_is_refused_by_its_place(value: object) -> None:
    with pytest.raises(CheckpointError, match="part/inner/1"):
        split_state({"inner": [0, value]}, "part")


def test_a_tree_that_contains_itself_is_refused() -> None:
    loop: dict[str, Any] = {}
    loop["loop"] = loop
    with pytest.raises(CheckpointError, match="contains itself"):
        split_state(loop, "part")


def test_a_state_must_be_a_dict() -> None:
    with pytest.raises(CheckpointError, match="learner is a list"):
        split_state([1], "learner")  # type: ignore[arg-type]  # the mistake under test


class Payload:
    """Unpickling this would run code."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (pytest.fail, ("a pickle was run",))


@pytest.mark.parametrize("content", [pickle.dumps(Payload()), b"", b"\x00" * 7, b"\xff" * 64])
def test_bytes_that_are_no_safetensors_are_refused_and_not_run(content: bytes) -> None:
    with pytest.raises(ValueError, match="not safetensors"):
        parse_safetensors(content)


@pytest.mark.parametrize(
    "tree",
    [
        {"a": {"$tensor": "missing"}},
        {"a": {"$pickle": "there"}},
        {"a": {"$tensor": 3}},
        {"a": {"$float": "zz"}},
        {},
        [],
    ],
)
def test_a_tree_that_does_not_fit_its_arrays_is_refused(tree: Any) -> None:
    with pytest.raises((ValueError, struct.error)):
        join_state(tree, {"there": torch.zeros(1)})

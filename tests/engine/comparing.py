"""Comparing rollouts, states and policies to the bit, and passing states through a checkpoint."""

from __future__ import annotations

import json
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
import torch

from longhaul.core.state import State
from longhaul.runs.checkpoints.state_tree import (
    join_state,
    parse_safetensors,
    safetensors_chunks,
    split_state,
)


def assert_equal(left: Any, right: Any, where: str = "") -> None:
    """Compare trees of dataclasses, dicts, sequences, tensors and arrays, to the bit."""
    assert type(left) is type(right), where
    if is_dataclass(left):
        for field in fields(left):
            assert_equal(
                getattr(left, field.name), getattr(right, field.name), f"{where}.{field.name}"
            )
    elif isinstance(left, dict):
        assert list(left) == list(right), where
        for name in left:
            assert_equal(left[name], right[name], f"{where}.{name}")
    elif isinstance(left, (list, tuple)):
        assert len(left) == len(right), where
        for index, (one, two) in enumerate(zip(left, right, strict=True)):
            assert_equal(one, two, f"{where}[{index}]")
    elif isinstance(left, torch.Tensor):
        assert left.dtype == right.dtype, where
        assert torch.equal(left, right), where
    elif isinstance(left, np.ndarray):
        np.testing.assert_array_equal(left, right, err_msg=where)
    else:
        assert left == right, where


def through_checkpoint(state: State) -> State:
    """Return a state as a checkpoint brings it back."""
    split = split_state(state, "part")
    content = b"".join(safetensors_chunks(split.arrays))
    return join_state(json.loads(json.dumps(split.tree)), parse_safetensors(content))

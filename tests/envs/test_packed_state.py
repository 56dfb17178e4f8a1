from __future__ import annotations

import numpy as np
import pytest

from longhaul.core.seeds import generator_state
from longhaul.envs.packed_state import pack_state, unpack_state


def test_a_packed_state_comes_back_as_it_was() -> None:
    state = {
        "name": "pond",
        "count": 3,
        "none": None,
        "raw": b"\x00\x01",
        "nested": {"list": [1.5, True, {"deep": "x"}]},
        "cells": np.arange(6, dtype=np.int16).reshape(2, 3),
        "empty": np.zeros((0, 4), np.float32),
        "random": generator_state(np.random.default_rng(5)),
    }
    found = unpack_state(pack_state(state))
    assert found["random"] == state["random"]
    assert found["nested"] == state["nested"]
    assert found["raw"] == b"\x00\x01"
    for name in ("cells", "empty"):
        kept = state[name]
        assert isinstance(kept, np.ndarray)
        assert found[name].dtype == kept.dtype
        assert np.array_equal(found[name], kept)


def test_equal_states_are_packed_alike_whatever_the_order_of_their_keys() -> None:
    assert pack_state({"a": 1, "b": 2}) == pack_state({"b": 2, "a": 1})


def test_what_is_no_state_is_refused() -> None:
    with pytest.raises(TypeError):
        pack_state({"thing": object()})

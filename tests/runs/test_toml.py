from __future__ import annotations

import math
import tomllib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from longhaul.core.errors import ConfigError
from longhaul.runs.toml import write_toml

scalars = st.one_of(
    st.text(max_size=20),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False),
)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=20,
)


@settings(max_examples=100)
@given(st.dictionaries(st.text(max_size=8), values, max_size=5))
def test_whatever_is_written_reads_back_equal(table: dict[str, Any]) -> None:
    read = tomllib.loads(write_toml(table))
    assert read == table
    assert repr(sorted(map(str, read))) == repr(sorted(map(str, table)))


def test_truth_values_integers_and_floats_keep_their_types() -> None:
    read = tomllib.loads(write_toml({"a": True, "b": 1, "c": 1.0, "d": 1e300, "e": -0.0}))
    assert [type(value) for value in read.values()] == [bool, int, float, float, float]
    assert math.copysign(1, read["e"]) == -1


def test_nan_is_written_as_toml_has_it() -> None:
    assert math.isnan(tomllib.loads(write_toml({"x": float("nan")}))["x"])


def test_plain_entries_come_before_tables() -> None:
    long = "x" * 100  # too long for one line
    text = write_toml({"ppo": {"clip": 0.2}, "seed": 1, "stages": [{"name": long}, {"name": "b"}]})
    assert text == (
        f'seed = 1\n\n[ppo]\nclip = 0.2\n\n[[stages]]\nname = "{long}"\n\n[[stages]]\nname = "b"\n'
    )


def test_an_array_is_one_line_if_it_fits() -> None:
    rows = [[float(n), n + 0.5] for n in range(12)]
    text = write_toml({"hidden": [64, 64], "words": ["[", "]", ","], "rows": rows})
    assert text.startswith(
        'hidden = [64, 64]\nwords = ["[", "]", ","]\nrows = [\n    [0.0, 0.5],\n'
    )
    assert tomllib.loads(text)["rows"] == rows


def test_none_is_left_out_because_toml_has_no_word_for_it() -> None:
    assert write_toml({"a": None, "b": 1, "c": {"d": None}}) == "b = 1\n\n[c]\n"


def test_tuples_are_written_as_lists() -> None:
    assert tomllib.loads(write_toml({"sizes": (64, (1, 2))})) == {"sizes": [64, [1, 2]]}


@pytest.mark.parametrize("value", [b"bytes", object(), {1, 2}, [None]])
def test_what_toml_has_not_is_refused_by_name(value: object) -> None:
    with pytest.raises(ConfigError, match=r"a\.b"):
        write_toml({"a": {"b": value}})


def test_a_key_that_is_not_text_is_refused() -> None:
    with pytest.raises(ConfigError, match="key 1"):
        write_toml({"a": {1: 2}})


def test_text_that_is_not_unicode_is_refused() -> None:
    with pytest.raises(ConfigError, match="Unicode"):
        write_toml({"a": "\ud800"})

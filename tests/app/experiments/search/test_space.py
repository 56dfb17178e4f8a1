"""The grammar of search spaces."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longhaul.app.experiments.search.space import (
    Choice,
    Dimension,
    Range,
    parse_dimension,
    read_space,
)
from longhaul.core.errors import ConfigError

keys = st.lists(st.text("abcxyz_", min_size=1, max_size=6), min_size=1, max_size=3).map(".".join)
numbers = st.floats(-1e6, 1e6).map(float)
pairs = st.tuples(numbers, numbers).filter(lambda pair: pair[0] < pair[1])
positive = st.floats(1e-9, 1e6)
whole = st.tuples(st.integers(-1000, 1000), st.integers(1, 500), st.integers(1, 50))
words = st.text("abcdefgh", min_size=1, max_size=5)
options = st.one_of(
    st.integers(-99, 99).map(str),
    words,
    st.lists(st.integers(1, 512), min_size=1, max_size=3).map(str),
    words.map(lambda word: f'"{word}, {word}"'),
)


def whole_range(key: str, drawn: tuple[int, int, int]) -> Range:
    low, count, step = drawn
    return Range(key, low, low + count * step, is_whole=True, step=step)


dimensions = st.one_of(
    st.builds(lambda key, pair: Range(key, *pair), keys, pairs),
    st.builds(
        lambda key, low, factor: Range(key, low, low * factor, is_log=True),
        keys,
        positive,
        st.floats(1.5, 1e4),
    ),
    st.builds(whole_range, keys, whole),
    st.builds(
        lambda key, low, more: Range(key, low, low + more, is_whole=True, is_log=True),
        keys,
        st.integers(1, 500),
        st.integers(1, 500),
    ),
    st.builds(
        Choice,
        keys,
        st.lists(options, min_size=2, max_size=5, unique_by=lambda text: text.strip('"')).map(
            tuple
        ),
    ),
)


@given(dimensions)
def test_what_is_written_is_read_back(dimension: Dimension) -> None:
    assert parse_dimension(dimension.text) == dimension


@given(dimensions)
def test_the_ends_are_among_the_values(dimension: Dimension) -> None:
    for value in dimension.ends:
        assert dimension.nearest(dimension.setting(value)) == value


@given(dimensions.filter(lambda dimension: isinstance(dimension, Range)), numbers)
def test_the_nearest_value_is_within_the_range(dimension: Range, value: float) -> None:
    near = dimension.nearest(value)
    assert isinstance(near, (int, float))
    assert dimension.low <= near <= dimension.high
    if dimension.is_whole:
        assert (near - dimension.low) % dimension.step == 0
    elif dimension.low <= value <= dimension.high:
        assert near == value


@given(st.text(max_size=40))
def test_whatever_is_written_is_read_or_refused_in_words(text: str) -> None:
    told = ""
    try:
        parse_dimension(text)
    except ConfigError as error:
        told = str(error)
    assert told == "" or "--space" in told


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("learn.learning_rate", "--space takes KEY=KIND:VALUES"),
        ("learn.learning_rate=1e-5..1e-2", "--space takes KEY=KIND:VALUES"),
        ("learn.learning_rate=lgo:1e-5..1e-2", "did you mean 'log'"),
        ("a=log:1e-5", "a range is written LOW..HIGH"),
        ("a=log:0..1", "must begin above 0"),
        ("a=float:2..1", "the range is empty"),
        ("a=float:1..1", "the range is empty"),
        ("a=float:one..2", "'one' is not a number"),
        ("a=float:0..inf", "is not finite"),
        ("a=int:1.5..3", "is not a whole number"),
        ("a=int:1..4/9", "the step must be at least 1"),
        ("a=float:0..1/0.1", "only a range of kind int has a step"),
        ("a=choice:only", "at least two values"),
        ("a=choice:1,,2", "at least two values"),
        ("a=choice:1,2,1", "duplicate value"),
    ],
)
def test_a_mistake_is_told_in_one_line(text: str, complaint: str) -> None:
    with pytest.raises(ConfigError, match="--space") as caught:
        parse_dimension(text)
    assert complaint in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_upper_end_of_whole_numbers_is_on_the_grid() -> None:
    assert parse_dimension("n=int:1..10/4") == Range("n", 1, 9, is_whole=True, step=4)


def test_choices_mean_what_set_would_take() -> None:
    choice = parse_dimension("x=choice:true, 3, [64, 64], relu, 'a,b'")
    assert isinstance(choice, Choice)
    assert [choice.setting(option) for option in choice.options] == [
        True, 3, [64, 64], "relu", "a,b",
    ]  # fmt: skip


def test_a_file_is_laid_out_like_a_config(tmp_path: Path) -> None:
    file = tmp_path / "space.toml"
    file.write_text(
        '[learn]\nlearning_rate = "log:1e-5..1e-2"\n[policy]\nhidden = [[64], [64, 64]]\n'
        'activation = ["tanh", "relu"]\n'
    )
    assert read_space(file) == {
        "learn.learning_rate": Range("learn.learning_rate", 1e-5, 1e-2, is_log=True),
        "policy.hidden": Choice("policy.hidden", ("[64]", "[64, 64]")),
        "policy.activation": Choice("policy.activation", ("tanh", "relu")),
    }


@pytest.mark.parametrize("content", ["", "[learn]\nepochs = 3\n", '[learn]\nepochs = "int:3..1"\n'])
def test_a_file_nobody_can_search_is_refused_by_name(tmp_path: Path, content: str) -> None:
    file = tmp_path / "space.toml"
    file.write_text(content)
    with pytest.raises(ConfigError, match=r"space\.toml"):
        read_space(file)

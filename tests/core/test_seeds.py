from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from longhaul.core.seeds import DerivedSeeds, ListedSeeds, Seeds, generator_state, restore_generator

paths = st.lists(st.one_of(st.text(min_size=1, max_size=6), st.integers(0, 2**31)), max_size=3)
modestly = hypothesis_settings(max_examples=50)


@modestly
@given(root=st.integers(0, 2**63), path=paths)
def test_one_path_always_gives_one_stream(root: int, path: list[str | int]) -> None:
    one, other = Seeds(root).generator(*path), Seeds(root).generator(*path)
    assert np.array_equal(one.integers(0, 2**63, 4), other.integers(0, 2**63, 4))


@modestly
@given(path=paths, other=paths)
def test_different_paths_give_different_streams(
    path: list[str | int], other: list[str | int]
) -> None:
    if path != other:
        streams = [Seeds(5).generator(*p).integers(0, 2**63, 4).tolist() for p in (path, other)]
        assert streams[0] != streams[1]


def test_the_root_changes_every_stream() -> None:
    assert Seeds(1).integer("train", 3) != Seeds(2).integer("train", 3)


def test_streams_do_not_depend_on_the_process() -> None:
    # Python's own hash of a text differs from process to process; these numbers must not.
    program = "from longhaul.core.seeds import Seeds; print(Seeds(7).integer('train', 3, 5))"
    elsewhere = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONHASHSEED": "12345"},
        capture_output=True,
        check=True,
        text=True,
    )
    assert int(elsewhere.stdout) == Seeds(7).integer("train", 3, 5)


@modestly
@given(root=st.integers(0, 2**63), path=paths)
def test_integers_fit_any_environment(root: int, path: list[str | int]) -> None:
    assert 0 <= Seeds(root).integer(*path) < 2**31


def test_training_seeds_differ_by_env_episode_and_purpose() -> None:
    train, probe = DerivedSeeds(Seeds(3)), DerivedSeeds(Seeds(3), "probe")
    drawn = {deal.seed(env, k) for deal in (train, probe) for env in range(20) for k in range(20)}
    assert len(drawn) == 2 * 20 * 20


def test_listed_seeds_are_dealt_round_robin_and_then_again() -> None:
    deal = ListedSeeds((10, 11, 12, 13, 14), envs=2)
    assert [[deal.seed(env, episode) for env in range(2)] for episode in range(4)] == [
        [10, 11],
        [12, 13],
        [14, 10],
        [11, 12],
    ]
    assert [deal.case(env, 2) for env in range(2)] == [4, 5]


@modestly
@given(draws=st.integers(0, 50))
def test_a_generator_continues_from_its_state_through_json(draws: int) -> None:
    generator = Seeds(9).generator("noise")
    generator.integers(0, 10, draws, dtype=np.uint32)  # 32-bit draws leave half a word behind
    saved = json.loads(json.dumps(generator_state(generator)))
    other = Seeds(1).generator("else")
    restore_generator(other, saved)
    assert np.array_equal(generator.random(5), other.random(5))
    assert generator.integers(0, 9, 7, dtype=np.uint32).tolist() == (
        other.integers(0, 9, 7, dtype=np.uint32).tolist()
    )

"""Every Gymnasium space, both ways."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from longhaul.core.env import Array, StepBuffers
from longhaul.core.errors import ConfigError, EnvError
from longhaul.core.spaces import Continuous, Discrete, EnvSpec, MultiDiscrete, Part
from longhaul.envs.gymnasium.spaces import ObservationLayout, action_codec


def written(space: spaces.Space[Any], obs: Any) -> dict[str, Array]:
    layout = ObservationLayout(space)
    spec = EnvSpec("test", layout.parts, Discrete(2))
    slots = StepBuffers.allocate(spec, 1)
    for part in slots.obs.values():
        part.fill(9)  # what an earlier observation left behind
    row = {name: part[0] for name, part in slots.obs.items()}
    layout.refuse_foreign_kinds(obs)
    layout.writer(row)(obs)
    return row


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("float64", "float32"),
        ("float32", "float32"),
        ("float16", "float32"),
        ("uint8", "uint8"),
        ("int8", "int8"),
        ("int16", "int16"),
        ("int32", "int32"),
        ("int64", "int64"),
        ("uint16", "int32"),
        ("uint32", "int64"),
    ],
)
def test_a_box_keeps_its_values(given: str, kept: str) -> None:
    space = spaces.Box(0, 100, (2, 3), np.dtype(given).type)
    obs = np.arange(6, dtype=given).reshape(2, 3)
    row = written(space, obs)
    assert row["obs"].dtype == kept
    np.testing.assert_array_equal(row["obs"], obs)


def test_a_box_without_axes_becomes_one_number() -> None:
    space = spaces.Box(-1.0, 1.0, (), np.float32)
    assert written(space, np.float32(0.5))["obs"].tolist() == [0.5]


def test_lists_are_taken_as_arrays() -> None:
    assert written(spaces.Box(0, 9, (2,)), [1.0, 2.0])["obs"].tolist() == [1.0, 2.0]


@pytest.mark.parametrize(
    ("shape", "kept"),
    [
        ((10, 12, 3), (3, 10, 12)),
        ((84, 84, 4), (4, 84, 84)),
        ((7, 7, 1), (1, 7, 7)),
        ((4, 84, 84), (4, 84, 84)),
        ((5, 5, 5), (5, 5, 5)),
        ((20, 20), (20, 20)),
    ],
)
def test_images_come_channel_first(shape: tuple[int, ...], kept: tuple[int, ...]) -> None:
    image = np.random.default_rng(3).integers(0, 256, shape, np.uint8)
    row = written(spaces.Box(0, 255, shape, np.uint8), image)
    assert row["obs"].dtype == np.uint8
    expected = image if kept == shape else np.moveaxis(image, -1, 0)
    np.testing.assert_array_equal(row["obs"], expected)


def test_planes_of_flags_are_images_of_black_and_white() -> None:
    flags = np.random.default_rng(3).random((10, 10, 10)) < 0.5
    space = spaces.Box(0, 1, flags.shape, np.bool_)  # type: ignore[arg-type]
    row = written(space, flags)["obs"]
    assert row.dtype == np.uint8
    np.testing.assert_array_equal(row, 255 * np.moveaxis(flags, -1, 0))
    with pytest.raises(EnvError, match="float64"):
        written(space, flags * 0.5)


def test_a_float_array_of_an_images_shape_is_not_turned() -> None:
    assert ObservationLayout(spaces.Box(0, 1, (8, 8, 3))).parts["obs"] == Part((8, 8, 3))


def test_discrete_becomes_one_hot() -> None:
    space = spaces.Discrete(4, start=10)
    assert written(space, np.int64(12))["obs"].tolist() == [0, 0, 1, 0]


def test_multi_discrete_becomes_one_hots_side_by_side() -> None:
    space = spaces.MultiDiscrete([3, 2, 4], start=[0, 5, 0])
    expected = [0, 1, 0, 0, 1, 0, 0, 0, 1]
    assert written(space, np.array([1, 6, 3]))["obs"].tolist() == expected


def test_multi_discrete_of_two_axes_is_flattened() -> None:
    space = spaces.MultiDiscrete(np.full((2, 2), 2))
    obs = np.array([[0, 1], [1, 0]])
    assert written(space, obs)["obs"].tolist() == [1, 0, 0, 1, 0, 1, 1, 0]


def test_multi_binary_becomes_floats() -> None:
    row = written(spaces.MultiBinary((2, 2)), np.array([[1, 0], [0, 1]], np.int8))
    assert row["obs"].dtype == np.float32
    assert row["obs"].tolist() == [[1, 0], [0, 1]]


def test_nested_parts_are_named_by_their_path() -> None:
    space = spaces.Dict(
        {
            "near": spaces.Box(0, 9, (1,)),
            "far": spaces.Tuple((spaces.Discrete(2), spaces.Dict({"x": spaces.MultiBinary(1)}))),
        }
    )
    row = written(space, {"near": np.ones(1), "far": (1, {"x": np.ones(1)})})
    assert {name: part.tolist() for name, part in row.items()} == {
        "near": [1.0],
        "far.0": [0.0, 1.0],
        "far.1.x": [1.0],
    }


@pytest.mark.parametrize(
    "space",
    [
        spaces.Text(5),
        spaces.Sequence(spaces.Discrete(2)),
        spaces.Graph(spaces.Discrete(2), None),
        spaces.Dict({"words": spaces.Text(5)}),
        spaces.OneOf([spaces.Discrete(2), spaces.Discrete(3)]),
    ],
    ids=lambda space: type(space).__name__,
)
def test_an_unsupported_observation_space_is_named(space: spaces.Space[Any]) -> None:
    with pytest.raises(ConfigError, match=r"is not supported; supported are Box, Discrete"):
        ObservationLayout(space)


def test_an_empty_observation_space_is_refused() -> None:
    with pytest.raises(ConfigError, match="is empty"):
        ObservationLayout(spaces.Dict({}))


def test_two_parts_of_one_name_are_refused() -> None:
    inner = spaces.Dict({"b": spaces.Discrete(2)})
    with pytest.raises(ConfigError, match=r"one name to two parts: \['a\.b', 'a\.b'\]"):
        ObservationLayout(spaces.Dict({"a.b": spaces.Discrete(2), "a": inner}))


@pytest.mark.parametrize(
    ("space", "obs", "message"),
    [
        (spaces.Box(0, 1, (3,)), np.zeros(4), r"has shape \(4,\), but its space declares \(3,\)"),
        (spaces.Box(0, 1, (3,)), np.zeros(1), r"has shape \(1,\)"),
        (spaces.Box(0, 1, (3,)), 0.5, r"has shape \(\)"),
        (spaces.Discrete(3), 3, "is outside Discrete"),
        (spaces.Discrete(3, start=1), 0, "is outside Discrete"),
        (spaces.MultiDiscrete([2, 2]), np.array([0, 2]), "is outside MultiDiscrete"),
        (spaces.MultiDiscrete([2, 2]), np.array([0, -1]), "is outside MultiDiscrete"),
        (spaces.MultiDiscrete([2, 2]), np.array([0]), "is outside MultiDiscrete"),
        (spaces.MultiBinary(2), np.ones(3), "has shape"),
        (spaces.Box(0, 255, (1,), np.uint8), np.array([0.5]), "is float64, .* declares uint8"),
    ],
)
def test_an_observation_outside_its_space_is_an_error(
    space: spaces.Space[Any], obs: Any, message: str
) -> None:
    with pytest.raises(EnvError, match=message):
        written(space, obs)


def test_discrete_actions_are_shifted_to_the_spaces_start() -> None:
    plain, shifted = action_codec(spaces.Discrete(3)), action_codec(spaces.Discrete(3, start=-1))
    assert plain.spec == shifted.spec == Discrete(3)
    assert plain.decode(np.array([2])) == 2
    assert shifted.decode(np.array([2])) == 1
    assert type(plain.decode(np.array([2]))) is int


def test_multi_discrete_actions_take_the_spaces_shape_and_start() -> None:
    space = spaces.MultiDiscrete(np.array([[3, 4], [5, 6]]), start=np.array([[1, 0], [0, 0]]))
    codec = action_codec(space)
    assert codec.spec == MultiDiscrete((3, 4, 5, 6))
    action = codec.decode(np.array([[2, 3, 4, 5]]))
    assert action.tolist() == [[3, 3], [4, 5]]
    assert action in space


def test_multi_binary_actions_are_choices_of_two() -> None:
    space = spaces.MultiBinary((2, 2))
    codec = action_codec(space)
    assert codec.spec == MultiDiscrete((2, 2, 2, 2))
    assert codec.decode(np.array([[1, 0, 0, 1]])) in space


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_continuous_actions_are_clipped_to_their_bounds(dtype: type[np.floating[Any]]) -> None:
    space = spaces.Box(
        np.array([[-1.0, 0.0]], dtype), np.array([[1.0, np.inf]], dtype), dtype=dtype
    )
    codec = action_codec(space)
    assert codec.spec == Continuous((-1.0, 0.0), (1.0, float("inf")))
    action = codec.decode(np.array([[-7.0, 8.0]], np.float32))
    assert action.tolist() == [[-1.0, 8.0]]
    assert action.dtype == dtype


def test_an_action_is_the_envs_own_copy() -> None:
    for space in (spaces.MultiDiscrete([2, 2]), spaces.Box(-1.0, 1.0, (2,))):
        given = np.zeros(
            (1, 2), np.int64 if isinstance(space, spaces.MultiDiscrete) else np.float32
        )
        action = action_codec(space).decode(given)
        given[:] = 1
        assert action.tolist() == [0, 0]


@pytest.mark.parametrize(
    "space",
    [
        spaces.Text(5),
        spaces.Dict({"a": spaces.Discrete(2)}),
        spaces.Tuple((spaces.Discrete(2),)),
        spaces.Box(0, 9, (2,), np.int64),
    ],
    ids=lambda space: type(space).__name__,
)
def test_an_unsupported_action_space_is_named(space: spaces.Space[Any]) -> None:
    with pytest.raises(ConfigError, match="is not supported; supported are Discrete, Multi"):
        action_codec(space)

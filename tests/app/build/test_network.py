"""The size of the network, counted by hand."""

from __future__ import annotations

import pytest

from longhaul.app.build.components import build_task
from longhaul.app.build.network import NetworkSize, network_size
from tests.app.small import CARTPOLE, small_config


def size(task: str, *overrides: str) -> NetworkSize:
    config = small_config(task, *overrides)
    return network_size(config, build_task(config))


def weights(*layers: tuple[int, int]) -> int:
    return sum(inputs * outputs for inputs, outputs in layers)


def test_an_mlp_is_its_matrix_products() -> None:
    body, heads = [(4, 8), (8, 6)], [(6, 2), (6, 1)]
    found = size(CARTPOLE, "policy.hidden=[8,6]", "policy.value_network='shared'")
    assert found.flop == 2 * weights(*body, *heads)
    assert found.parameters == weights(*body, *heads) + 8 + 6 + 2 + 1


@pytest.mark.parametrize(("core", "gates"), [("gru", 3), ("lstm", 4)])
def test_a_memory_is_counted(core: str, gates: int) -> None:
    found = size(CARTPOLE, "policy.hidden=[8]", f"policy.core='{core}'", "policy.core_size=16")
    cell = gates * weights((8, 16), (16, 16))
    assert found.flop == 2 * (weights((4, 8), (16, 2), (16, 1)) + cell)
    assert found.parameters == weights((4, 8), (16, 2), (16, 1)) + cell + 8 + 2 * gates * 16 + 3


def test_a_convolution_is_counted_at_each_of_its_places() -> None:
    """Mario's stand-in in pixels through the Nature network: 84 x 84, four of them."""
    found = size(
        "mario:standin",
        "options.observation='pixels'",
        "policy.trunk='nature'",
        "policy.image_features=32",
        "policy.joint=[]",
    )
    places = ((20, 4 * 8 * 8, 32), (9, 32 * 4 * 4, 64), (7, 64 * 3 * 3, 64))
    images = sum(side * side * weights((inputs, outputs)) for side, inputs, outputs in places)
    assert found.flop >= 2 * (images + weights((7 * 7 * 64, 32)))
    assert found.flop < 1.01 * 2 * (images + weights((7 * 7 * 64, 32)))

"""What a configuration may say, and how it is told what is wrong."""

from __future__ import annotations

from typing import Any

import pytest

from longhaul.core.config import convert
from longhaul.core.errors import ConfigError
from longhaul.tasks.fish.options import FishOptions, FishStartOptions, sector_table


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"fishes": 3}, "unknown config key 'options.fishes'; did you mean 'options.fish'"),
        ({"fish": 0}, "options.fish = 0 must be at least 1"),
        ({"inputs": "frame"}, "there is no choice 'frame'.*own_frame"),
        ({"short_share": 1.5}, "options.short_share = 1.5 must be between"),
        ({"start": {"escape_boost_speed": 2.0}}, "options.start.escape_boost_speed = 2.0"),
        ({"start": {"escape_jitter": -1.0}}, "options.start.escape_jitter = -1.0"),
        ({"start": {"heading_bias": [[0, 60]]}}, r"heading_bias\[0\]: expected array of length 3"),
        ({"start": {"heading_bias": [[60, 0, 1]]}}, "needs 0 <= low < high <= 360"),
        ({"start": {"pre_roll_speed_bias": [[0, 1, 0]]}}, "a weight above 0"),
        ({"predator": {"count": 0}}, "options.predator.count = 0"),
        ({"predator": {"homing": -1.0}}, "options.predator.homing"),
        ({"neighbors": {"radius": 0.0}}, "options.neighbors.radius"),
        ({"reward": {"density_target": 3.0}}, "options.reward.density_target = 3.0"),
        ({"reward": {"density_penalty": -1.0}}, "options.reward.density_penalty = -1.0"),
        ({"obstacles": [[9.0, 0.0, 2.0]]}, "is not inside the stage"),
    ],
)
def test_a_mistake_is_named_with_its_key(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        convert(values, FishOptions, where="options")


def test_sectors_are_read_in_order_with_added_weights() -> None:
    sectors = sector_table(((0.0, 60.0, 1.1), (60.0, 90.0, 0.8)))
    assert sectors.tolist() == [[0.0, 60.0, 1.1], [60.0, 90.0, pytest.approx(1.9)]]
    assert sector_table(()).shape == (0, 3)


def test_only_the_original_drops_the_last_sector() -> None:
    assert len(FishStartOptions().headings()) == 8
    assert len(FishStartOptions(drops_last_sector=True).headings()) == 7


def test_settings_begin_at_the_options_values() -> None:
    options = FishOptions(fish=40, start=FishStartOptions(escape_boost_speed=0.8))
    boost, penalty, size = options.settings()
    assert (boost.default, penalty.default, size.default, size.high) == (0.8, 0.0, 40, 40)

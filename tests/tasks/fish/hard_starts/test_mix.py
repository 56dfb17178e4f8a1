"""Row 31 of the fish checklist: filter, scale, merge, weight; and provenance filled in."""

from __future__ import annotations

import math

import pytest

from longhaul.core.errors import ConfigError
from longhaul.tasks.fish.hard_starts.files import TailItem, merge
from longhaul.tasks.fish.hard_starts.mix import MixRecipe, choose, mix, multiplied, scale, weigh
from longhaul.tasks.fish.world.starts import (
    JointBias,
    PositionStart,
    SeedStart,
    ThrownStart,
    VelocityRange,
    heading,
    speed,
)


def thrown(angle: float, pace: float, weight: float = 1.0) -> TailItem:
    turn = math.radians(angle)
    velocity = (pace * math.cos(turn), pace * math.sin(turn))
    return TailItem(ThrownStart(velocity, after_pre_roll=True), weight)


POSITION = TailItem(
    PositionStart(((1.0, 2.0, 0.1, 0.2),), ((0.5, 0.5, 0.0, 2.0), (1.0, 1.0, 1.0, 0.0)))
)
FAST_NORTH, SLOW_NORTH, EAST = thrown(100, 2.0), thrown(100, 0.5), thrown(10, 2.0)


def test_filter_keeps_what_is_in_both_ranges() -> None:
    kept = choose([FAST_NORTH, SLOW_NORTH, EAST], VelocityRange((90, 150), (1.8, math.inf)))
    assert kept == (FAST_NORTH,)


def test_a_range_of_angles_may_pass_through_north_of_zero() -> None:
    assert choose([FAST_NORTH, EAST, thrown(340, 1)], VelocityRange((330, 30))) == (
        EAST,
        thrown(340, 1),
    )


def test_scaling_keeps_headings_and_tells_where_it_came_from() -> None:
    (scaled,) = scale([FAST_NORTH], 0.8)
    assert scaled.known_velocity is not None
    assert speed(scaled.known_velocity) == pytest.approx(1.6)
    assert heading(scaled.known_velocity) == pytest.approx(100)
    assert scaled.provenance == {"scaled_by": 0.8, "scaled_from": FAST_NORTH.id}


def test_scaling_a_position_scales_its_predators_and_leaves_the_fish() -> None:
    (scaled,) = scale([POSITION], 0.5)
    assert isinstance(scaled.start, PositionStart)
    assert scaled.start.fish == ((1.0, 2.0, 0.1, 0.2),)
    assert scaled.start.predators == ((0.5, 0.5, 0.0, 1.0), (1.0, 1.0, 0.5, 0.0))
    assert scaled.velocity == (0.0, 1.0)


def test_a_seed_must_be_pinned_before_it_is_filtered_or_scaled() -> None:
    with pytest.raises(ConfigError, match="pin"):
        scale([TailItem(SeedStart(3))], 0.8)
    with pytest.raises(ConfigError, match="pin"):
        choose([TailItem(SeedStart(3))], VelocityRange())


def test_merging_adds_the_weights_of_a_start_that_is_there_twice() -> None:
    merged = merge([FAST_NORTH, EAST], multiplied([FAST_NORTH], 2.0))
    assert [(item.id, item.weight) for item in merged] == [(FAST_NORTH.id, 3.0), (EAST.id, 1.0)]


def test_weights_follow_heading_and_speed_and_nothing_weighs_nothing() -> None:
    bias = JointBias(
        (VelocityRange((90, 150), (1.8, 9.0), 0.0), VelocityRange((0, 30), (0, 9), 2.5))
    )
    weighed = weigh([FAST_NORTH, SLOW_NORTH, EAST], bias)
    assert [(item.id, item.weight) for item in weighed] == [(SLOW_NORTH.id, 1.0), (EAST.id, 2.5)]


def test_a_mix_says_from_what_when_and_how_it_was_made() -> None:
    recipe = MixRecipe(
        VelocityRange((90, 150), (1.0, math.inf)),
        0.9,
        JointBias((VelocityRange(weight=2.0),)),
        "slower",
    )
    file = mix({"a.json": [FAST_NORTH, EAST], "b.json": [FAST_NORTH]}, recipe, now="today")
    assert file.generated_at == "today"
    assert file.source == "a.json, b.json"
    assert file.note == "slower; scaled by 0.9; weighted by 1 ranges"
    assert file.selection == {"angle_deg_min": 90, "angle_deg_max": 150, "min_speed": 1.0}
    assert file.clusters == ({"angle_range": [90.0, 120.0], "speed_range": [1.6, 2.0], "count": 1},)
    assert [item.weight for item in file.items] == [4.0]


@pytest.mark.parametrize("factor", [0, -1, math.nan])
def test_factors_that_turn_or_stop_predators_are_refused(factor: float) -> None:
    with pytest.raises(ConfigError, match="above 0"):
        scale([EAST], factor)
    with pytest.raises(ConfigError, match="above 0"):
        multiplied([EAST], factor)

"""How predators begin, told again from the numbers they were drawn from."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from longhaul.tasks.fish.evaluation.suites import FishSuite, fresh, version_38
from longhaul.tasks.fish.lab.pre_roll import (
    PreRollSample,
    block,
    histogram,
    suite_samples,
    summarize_pre_roll,
)
from longhaul.tasks.fish.options import FishEvaluationOptions, FishOptions
from longhaul.tasks.fish.world.starts import VelocityRange
from tests.tasks.fish.worlds import tank

SUITE = FishSuite("some", fresh(0, FishEvaluationOptions(episodes=60)).starts)


@pytest.fixture(scope="module")
def samples() -> tuple[PreRollSample, ...]:
    return suite_samples(SUITE, FishOptions())


def test_without_steps_the_start_is_what_the_numbers_say(
    samples: tuple[PreRollSample, ...],
) -> None:
    """The same seeds without a pre-roll show place and heading before it."""
    options = SUITE.options(FishOptions())
    still = replace(options, start=replace(options.start, pre_roll_steps=0))
    world = tank(
        still,
        seeds=tuple(start.seed for start in SUITE.starts),
        starts=tuple(start.as_value() for start in SUITE.starts),
    ).schools.world
    for sample, (x, y, vx, vy) in zip(samples, world.predators[:, 0].tolist(), strict=True):
        angle = math.radians(sample.spawn_angle_deg)
        place = (sample.spawn_radius * math.cos(angle), sample.spawn_radius * math.sin(angle))
        np.testing.assert_allclose(place, (x, y), atol=1e-5)
        turn = math.radians(sample.initial_heading_deg)
        np.testing.assert_allclose(
            (1.5 * math.cos(turn), 1.5 * math.sin(turn)), (vx, vy), atol=1e-5
        )
        assert sample.initial_speed == 1.5


def test_jitters_are_within_the_options_limits(samples: tuple[PreRollSample, ...]) -> None:
    for sample in samples:
        assert (
            len(sample.angle_jitter_deg) == len(sample.speed_scale) == sample.pre_roll_steps == 16
        )
        assert max(map(abs, sample.angle_jitter_deg)) <= math.degrees(0.3)
        assert all(0.8 <= scale <= 1.2 for scale in sample.speed_scale)


def test_gravity_turns_predators_north_during_the_pre_roll() -> None:
    """The reference figures: 16 % of headings before, 48 % after, lie in 60 to 120 degrees."""
    many = suite_samples(
        FishSuite("many", fresh(0, FishEvaluationOptions(episodes=600)).starts, fish=1),
        FishOptions(),
    )
    north = VelocityRange((60, 120))
    before = [north.holds((math.cos(a), math.sin(a)))
              for s in many for a in [math.radians(s.initial_heading_deg)]]  # fmt: skip
    after = [60 <= s.final_heading_deg < 120 for s in many]
    assert np.mean(before) == pytest.approx(0.16, abs=0.05)
    assert np.mean(after) == pytest.approx(0.48, abs=0.06)


def test_the_golden_start_of_seed_12345_ends_as_written() -> None:
    start = replace(version_38().starts[0], seed=12345, boost=0.8)
    (sample,) = suite_samples(FishSuite("one", (start,), 3, drops_last_sector=True), FishOptions())
    assert sample.final_speed == pytest.approx(math.hypot(0.111103, 0.271905), abs=1e-5)


def test_the_summary_wraps_angles_before_it_counts_them(
    samples: tuple[PreRollSample, ...],
) -> None:
    turned = [replace(s, spawn_angle_deg=s.spawn_angle_deg - 360) for s in samples]
    summary = summarize_pre_roll(turned)
    assert summary["sampled_episodes"] == 60
    assert sum(summary["spawn_angle_hist_deg"]["bins"]) == 60
    assert sum(summary["final_heading_hist_deg"]["bins"]) == 60
    assert len(summary["spawn_angle_hist_deg"]["bins"]) == 12
    for name in ("initial_speed_hist", "final_speed_hist"):
        assert len(summary[name]["bins"]) == 10
        assert sum(summary[name]["bins"]) == 60
    assert summary["prewarm_override_ratio"] == 0.0
    assert set(summary["final_speed"]) == {
        "count",
        "mean",
        "std",
        "p10",
        "p50",
        "p90",
        "min",
        "max",
    }


def test_overrides_are_counted_and_told(samples: tuple[PreRollSample, ...]) -> None:
    thrown = replace(samples[0], prewarm_velocity_override=True, prewarm_velocity=(1.0, 0.0))
    summary = summarize_pre_roll([thrown, *samples[1:4]])
    assert (summary["prewarm_override_count"], summary["prewarm_override_ratio"]) == (1, 0.25)
    assert thrown.as_row()["prewarm_velocity"] == (1.0, 0.0)
    assert "prewarm_velocity" not in samples[0].as_row()


def test_a_block_of_nothing_has_a_count_only() -> None:
    empty = block([])
    assert empty["count"] == 0
    assert {value for name, value in empty.items() if name != "count"} == {None}
    assert summarize_pre_roll([])["sampled_episodes"] == 0


def test_a_block_is_what_numpy_says() -> None:
    values = [3.0, 1.0, 4.0, 1.0, 5.0]
    found = block(values)
    assert (found["count"], found["min"], found["max"]) == (5, 1, 5)
    assert found["p10"] == pytest.approx(np.percentile(values, 10))
    assert found["std"] == pytest.approx(np.std(values))


def test_the_last_edge_belongs_to_the_last_bin() -> None:
    assert histogram([0.0, 1.0, 2.0], [0.0, 1.0, 2.0])["bins"] == [1, 2]

"""Row 16 of the fish checklist: a start that was written down is the same start again."""

from __future__ import annotations

import numpy as np
import pytest

from longhaul.core.errors import ConfigError
from longhaul.core.settings import Settings
from longhaul.tasks.fish.hard_starts.files import TailItem
from longhaul.tasks.fish.hard_starts.plan import fitted, pin, thin
from longhaul.tasks.fish.options import FishOptions
from longhaul.tasks.fish.world.starts import PositionStart, SeedStart, ThrownStart
from tests.tasks.fish.worlds import tank

OPTIONS = FishOptions(fish=12)


def test_a_pinned_seed_is_the_position_the_seed_leads_to() -> None:
    items = [TailItem(SeedStart(5, 0.8, 30)), TailItem(SeedStart(6)), TailItem(ThrownStart((1, 2)))]
    pinned = pin(items, OPTIONS)
    world = tank(FishOptions(fish=30), starts=(items[0].start.as_value(),)).schools
    assert pinned[0].start == world.present_start(0)
    assert [len(p.start.fish) for p in pinned if isinstance(p.start, PositionStart)] == [30, 12, 12]
    assert pinned[0].provenance["seed"] == 5
    plain = tank(OPTIONS, seeds=(6,), settings=Settings([])).schools.present_start(0)
    assert pinned[1].start == plain
    assert pin(pinned, OPTIONS) == pinned


def test_a_bare_velocity_after_the_pre_roll_is_the_pinned_predators() -> None:
    (pinned,) = pin([TailItem(ThrownStart((0.25, -1.5), after_pre_roll=True))], OPTIONS)
    assert pinned.velocity == (0.25, -1.5)


def test_thinning_keeps_the_fish_nearest_to_a_predator_in_order() -> None:
    fish = tuple((float(x), 0.0, 0.0, 0.1 * x) for x in (5, 1, 9, 2, 7))
    thinned = thin(PositionStart(fish, ((0.0, 0.0, 1.0, 0.0), (8.5, 0.0, 0.0, 0.0))), 3)
    assert [body[0] for body in thinned.fish] == [1.0, 9.0, 7.0]


def test_starts_are_fitted_into_smaller_schools_or_refused() -> None:
    big, _ = pin([TailItem(SeedStart(5, 0.8, 30)), TailItem(SeedStart(6))], OPTIONS)
    small = fitted(big, OPTIONS, where="options.tail")
    assert isinstance(small.start, PositionStart)
    assert len(small.start.fish) == 12
    with pytest.raises(ConfigError, match=r"30 fish, and options\.fish is 12"):
        fitted(TailItem(SeedStart(5, 0.8, 30)), OPTIONS, where="options.tail")
    two = PositionStart(((1, 1, 0, 0),), ((0, 0, 1, 0), (1, 0, 0, 0)))
    with pytest.raises(ConfigError, match="2 predators"):
        fitted(TailItem(two), OPTIONS, where="options.tail")


def test_a_pinned_start_kills_the_same_fish_in_the_first_step() -> None:
    seeds = [TailItem(SeedStart(seed, 0.8, 96)) for seed in range(20)]
    options = FishOptions(fish=96)
    recorded = tank(options, seeds=(0,) * 20, starts=tuple(i.start.as_value() for i in seeds))
    recorded.step(4)
    replayed = tank(
        options, seeds=(1,) * 20, starts=tuple(i.start.as_value() for i in pin(seeds, OPTIONS))
    )
    replayed.step(4)
    deaths = recorded.schools.world.deaths
    assert (deaths == 1).sum() > 10
    np.testing.assert_array_equal(replayed.schools.world.deaths, deaths)

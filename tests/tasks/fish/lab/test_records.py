"""Rows 16 and 18 of the fish checklist: records from real episodes, and starts that replay them."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

from longhaul.core.env import Episode
from longhaul.tasks.fish.evaluation.first_step import (
    METRICS,
    NORTH_TO_NORTH_WEST,
    FirstStepDeath,
    FirstSteps,
    cluster,
    first_step_metrics,
    first_step_record,
)
from longhaul.tasks.fish.evaluation.suites import (
    FishSuite,
    UnavoidableDeaths,
    begin_suite,
    unavoidable,
    version_38,
)
from longhaul.tasks.fish.hard_starts.files import TailItem, read_tail_file
from longhaul.tasks.fish.hard_starts.plan import pin
from longhaul.tasks.fish.lab.history import StageEvaluation, stage_summary, worst_seeds
from longhaul.tasks.fish.options import FishOptions, PredatorOptions
from longhaul.tasks.fish.world.school import SchoolFactory
from longhaul.tasks.fish.world.starts import PositionStart, SeedStart
from tests.tasks.fish.deaths import death
from tests.tasks.fish.worlds import tank

SUITE = FishSuite("v38-8", version_38().starts[:12], drops_last_sector=True)
OPTIONS = FishOptions(fish=25)


def played(suite: FishSuite, options: FishOptions, action: int = 4) -> tuple[Episode, ...]:
    """Return what one action for all fish comes to, cut after three steps."""
    world = suite.options(options)
    schools = SchoolFactory(world, follows_settings=False, keeps_facts=True)(len(suite.starts))
    schools.reset(
        np.arange(schools.count),
        np.array([start.seed for start in suite.starts]),
        [start.as_value() for start in suite.starts],
    )
    for _ in range(3):
        schools.step(0, schools.count, np.full(schools.count * world.fish, action))
    endings = [schools.ending(env) for env in range(schools.count)]
    return tuple(
        Episode(env, 0, start.seed, 3, 0.0, ending.reason, ending.metrics, ending.facts)
        for env, (start, ending) in enumerate(zip(suite.starts, endings, strict=True))
    )


@pytest.fixture(scope="module")
def floor() -> UnavoidableDeaths:
    return unavoidable(SUITE, OPTIONS)


@pytest.fixture(scope="module")
def deaths(floor: UnavoidableDeaths) -> tuple[FirstStepDeath, ...]:
    return FirstSteps.of(SUITE, OPTIONS, floor).deaths(played(SUITE, OPTIONS))


def test_there_is_a_record_for_every_fish_that_died_at_once(
    deaths: tuple[FirstStepDeath, ...],
) -> None:
    schools, _ = begin_suite(SUITE, SUITE.options(OPTIONS))
    before = schools.world.fish.copy()
    schools.step(0, 12, np.full(12 * 96, 4))
    world = schools.world
    dead = np.argwhere(world.deaths == 1).tolist()
    assert [[record.episode, record.fish_idx] for record in deaths] == dead
    for record in deaths:
        where = (record.episode, record.fish_idx)
        np.testing.assert_array_equal(record.fish_position, world.fish[where][:2])
        np.testing.assert_array_equal(record.start_velocity, before[where][2:])
        np.testing.assert_array_equal(
            (*record.predator_position, *record.predator_velocity),
            world.predators[record.episode, 0],
        )
        assert 0 <= record.distance < 0.7
        assert record.seed == SUITE.starts[record.episode].seed
        assert (record.timestep, record.predator_index) == (1, 0)


def test_the_doomed_are_told_from_those_that_could_have_lived(
    deaths: tuple[FirstStepDeath, ...], floor: UnavoidableDeaths
) -> None:
    """The first evaluation of the reference run has 20 unavoidable deaths."""
    assert sum(not record.avoidable for record in deaths) == floor.doomed.sum() == 20
    assert any(record.avoidable for record in deaths)


def test_the_catcher_is_the_predator_that_is_near() -> None:
    options = FishOptions(predator=PredatorOptions(count=3))
    suite = FishSuite("two", (SeedStart(1, 0.8), SeedStart(5, 0.8)))
    steps = FirstSteps.of(suite, options, unavoidable(suite, options))
    found = steps.deaths(played(suite, options))
    assert {record.predator_index for record in found} > {0}
    assert all(record.distance < 0.7 for record in found)


def test_a_record_comes_back_from_a_log(deaths: tuple[FirstStepDeath, ...]) -> None:
    assert [FirstStepDeath.of(json.loads(json.dumps(asdict(d)))) for d in deaths] == list(deaths)


def test_a_bad_start_made_again_from_a_worst_seeds_file_kills_the_same_fish(
    deaths: tuple[FirstStepDeath, ...], tmp_path: Path
) -> None:
    """Row 16: the same step-one deaths as recorded, in another world's configuration."""
    positions = {
        start.seed: item.start
        for start, item in zip(
            SUITE.starts,
            pin([TailItem(start) for start in SUITE.starts], SUITE.options(OPTIONS)),
            strict=True,
        )
    }
    content = worst_seeds(
        deaths, lambda record: positions[record.seed], run_name="r", generated_at="now"
    )
    path = tmp_path / "worst.json"
    path.write_text(json.dumps(content))
    for item in read_tail_file(path).items:
        assert isinstance(item.start, PositionStart)
        world = tank(FishOptions(fish=96, short_share=0.5), starts=(item.start.as_value(),))
        world.step(4)
        dead = np.flatnonzero(world.schools.world.deaths[0] == 1).tolist()
        assert dead == [d.fish_idx for d in deaths if d.seed == item.provenance["seed"]]
        assert item.provenance["fish_idx"] in dead


def test_a_worst_seeds_file_has_the_six_largest_clusters_with_samples() -> None:
    records = [death(30 * k + 5, 1.0, seed=k) for k in range(8) for _ in range(8 - k)]
    content = worst_seeds(records, lambda record: None, run_name="r", generated_at="now")
    assert (content["records"], content["run_name"]) == (36, "r")
    summary = content["summary"]
    assert (summary["total_events"], summary["angle_bin_deg"], summary["speed_bin"]) == (
        36,
        30,
        0.4,
    )
    assert [c["count"] for c in summary["clusters"]] == [8, 7, 6, 5, 4, 3]
    sample = summary["clusters"][1]["sample"]
    assert (sample["seed"], sample["iteration"], sample["fish_idx"]) == (1, 8, 1)
    assert sample["angle_deg"] == pytest.approx(35)
    assert sample["speed"] == pytest.approx(1.0)
    assert {"tail_stage_label", "tail_stage_type", "predator_velocity"} <= set(sample)
    assert "start" not in sample


def evaluations() -> list[StageEvaluation]:
    return [
        StageEvaluation(
            8, "ne", 100, (death(95, 1.7, seed=1), death(95, 1.7, seed=1), death(5, 1.0))
        ),
        StageEvaluation(16, "main", 200, (death(200, 0.5, seed=2),)),
        StageEvaluation(24, "main", 200, (death(200, 0.5, seed=2), death(100, 1.9, seed=4))),
        StageEvaluation(32, "rest", 200, ()),
    ]


def test_the_stage_summary_counts_and_normalizes_by_type() -> None:
    """Row 19: per-type counts and normalized rates."""
    summary = stage_summary(evaluations(), run_name="r", generated_at="now")["stage_summary"]
    assert (summary["total_events"], summary["evaluated_fish"]) == (6, 700)
    ne, main, rest = summary["stages"]
    assert (ne["stage_type"], ne["count"], ne["share"]) == ("ne", 3, 0.5)
    assert (main["count"], main["share"], main["per_1000_fish"]) == (3, 0.5, 7.5)
    assert ne["per_1000_fish"] == 30.0
    assert (main["iteration_min"], main["iteration_max"]) == (16, 24)
    assert main["top_share"] == {"mean": 0.75, "max": 1.0, "iteration_of_max": 16}
    assert main["sector_share"] == {"mean": 0.25, "max": 0.5, "iteration_of_max": 24}
    assert main["ne_high_speed_share"] == main["sector_share"]
    assert ne["predator_speed"]["count"] == 3
    assert ne["predator_speed"]["max"] == pytest.approx(1.7)
    assert (rest["count"], rest["share"], rest["top_share"]["mean"]) == (0, 0.0, None)


def test_the_stage_summary_says_where_it_is_from() -> None:
    content = stage_summary(evaluations(), run_name="r", generated_at="now")
    assert (content["generated_at"], content["run_name"], content["records"]) == ("now", "r", 6)
    json.dumps(content, allow_nan=False)


def test_an_evaluation_tells_its_shares_and_keeps_its_records(
    deaths: tuple[FirstStepDeath, ...], floor: UnavoidableDeaths
) -> None:
    steps, episodes = FirstSteps.of(SUITE, OPTIONS, floor), played(SUITE, OPTIONS)
    found = cluster(deaths)
    metrics = first_step_metrics(steps, episodes)
    assert metrics["eval/step_one_top_share"] == found.top_share
    assert metrics["eval/step_one_episodes"] == len({record.seed for record in deaths})
    assert (
        metrics["eval/step_one_sector_share"]
        == metrics["eval/step_one_ne_high_speed_share"]
        == NORTH_TO_NORTH_WEST.share(found)
    )
    rows = json.loads(json.dumps(first_step_record(steps, episodes)))["step_one_deaths"]
    assert [FirstStepDeath.of(row) for row in rows] == list(deaths)
    assert {metric.name for metric in METRICS} == set(metrics)


def test_episodes_that_kept_no_places_have_no_shares(floor: UnavoidableDeaths) -> None:
    steps = FirstSteps.of(SUITE, OPTIONS, floor)
    assert first_step_metrics(steps, [Episode(0, 0, 1, 1, 0.0, "over")]) == {}

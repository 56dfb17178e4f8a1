"""Evaluation suites: death tables, metrics with intervals, the bound, reference policies."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from longhaul.core.env import Episode
from longhaul.core.errors import ConfigError, suggestion
from longhaul.core.evaluation import Case, Column, Suite
from longhaul.core.metrics import Metric, Metrics
from longhaul.core.seeds import Seeds
from longhaul.core.statistics import Interval, interval, resample
from longhaul.tasks.fish.evaluation.first_step import METRICS as STEP_ONE_METRICS
from longhaul.tasks.fish.evaluation.first_step import (
    FirstSteps,
    first_step_metrics,
    first_step_record,
)
from longhaul.tasks.fish.evaluation.reference_policies import reference_policies
from longhaul.tasks.fish.evaluation.suites import (
    ITS_OWN,
    FishSuite,
    UnavoidableDeaths,
    films,
    fresh,
    play_suite,
    recorded,
    rehearsal,
    unavoidable,
    version_38,
)
from longhaul.tasks.fish.options import FishEvaluationOptions, FishOptions
from longhaul.tasks.fish.world.school import DEATH_STEPS, fish_envs

EARLY = (100, 150)
PERCENTILES = {"p10": 10, "p25": 25, "median_death_step": 50, "p75": 75, "p90": 90}


def survival_metrics(deaths: NDArray[np.int32], *, time_limit: int) -> dict[str, float]:
    """Return all metrics of episodes [episodes, fish] by name; survivors are -1.

    A fish that dies in the last step counts as dead in the survival rates, but as a survivor
    in `survival_fraction` and all percentiles, which see `time_limit` for both.
    """
    survived = (deaths < 0).mean(axis=1)
    steps = np.where(deaths < 0, time_limit, deaths).ravel()
    found = {
        "avg_final_survival_rate": survived.mean(),
        "min_final_survival_rate": survived.min(),
        # Fish do not come back, so the lowest rate within an episode is its last.
        "avg_min_survival_rate": survived.mean(),
        "min_of_min_survival_rate": survived.min(),
        "median_min_survival_rate": np.median(survived),
        "mean_death_step": steps.mean(),
        "survival_fraction": (steps >= time_limit).mean(),
        "total_fish_samples": steps.size,
        "step_one_death_count": (deaths == 1).sum(),
        "step_one_death_ratio": (deaths == 1).mean(),
    }
    found |= {f"early_death_fraction_{step}": (steps < step).mean() for step in EARLY}
    found |= {name: np.percentile(steps, share) for name, share in PERCENTILES.items()}
    return {name: float(value) for name, value in found.items()}


RESAMPLES = 1000
SCORE = "eval/score"
FILMS = "films"
MINIMUM_WEIGHT = 1e-4

METRICS = (
    Metric(
        SCORE,
        "ranks checkpoints: avg_final_survival_rate plus 0.0001 times min_final_survival_rate, "
        "which decides between equals",
    ),
    Metric("eval/avg_final_survival_rate", "mean over episodes of the share of survivors"),
    Metric("eval/min_final_survival_rate", "share of survivors in the worst episode"),
    Metric("eval/avg_min_survival_rate", "mean over episodes of the lowest share alive"),
    Metric("eval/min_of_min_survival_rate", "lowest share alive in any episode"),
    Metric("eval/median_min_survival_rate", "median over episodes of the lowest share alive"),
    Metric("eval/early_death_fraction_100", "share of all fish dead before step 100"),
    Metric("eval/early_death_fraction_150", "share of all fish dead before step 150"),
    Metric("eval/p10", "10th percentile of all fish's death steps, survivors counting as the last"),
    Metric("eval/p25", "25th percentile of all fish's death steps"),
    Metric("eval/median_death_step", "median of all fish's death steps"),
    Metric("eval/p75", "75th percentile of all fish's death steps"),
    Metric("eval/p90", "90th percentile of all fish's death steps"),
    Metric("eval/mean_death_step", "mean of all fish's death steps"),
    Metric("eval/survival_fraction", "share of fish alive before the last step"),
    Metric("eval/total_fish_samples", "number of fish measured"),
    Metric("eval/step_one_death_count", "deaths in the first step"),
    Metric("eval/step_one_death_ratio", "share of all fish that died in the first step"),
    Metric("eval/step_one_excess", "deaths in the first step that some action would have avoided"),
    Metric(
        "eval/step_one_excess_ratio", "avoidable deaths in the first step, as a share of all fish"
    ),
    Metric("eval/step_one_excess_per_1000", "avoidable deaths in the first step per thousand fish"),
    Metric("eval/survival_bound", "share of fish that could have survived the first step"),
    *STEP_ONE_METRICS,
)

COLUMNS = (
    Column("avg_final", "eval/avg_final_survival_rate", ".4f"),
    Column("min_final", "eval/min_final_survival_rate", ".4f"),
    Column("early100", "eval/early_death_fraction_100", ".4f"),
    Column("early150", "eval/early_death_fraction_150", ".4f"),
    Column("p10", "eval/p10", ".0f"),
    Column("step one", "eval/step_one_death_count", ".0f"),
    Column("step-one ratio", "eval/step_one_death_ratio", ".4f"),
)


def find_suite(name: str, sizes: FishEvaluationOptions = ITS_OWN) -> FishSuite:
    """Return the suite of this name: `v38`, `rehearsal`, `fresh` or `films`, of these sizes.

    With a number they rotate: other seeds for each, or what the reference run played then.
    """
    stem, dash, number = name.partition("-")
    if name == "v38":
        return version_38(sizes)
    numbered: dict[str, Callable[[int, FishEvaluationOptions], FishSuite]] = {
        "v38": recorded,
        "fresh": fresh,
        "rehearsal": rehearsal,
        FILMS: films,
    }
    if stem in numbered and (not dash or number.isdecimal()):
        return numbered[stem](int(number or 0), sizes)
    raise ConfigError(
        f"there is no suite {name!r}{suggestion(name, numbered)} (suites: "
        f"{', '.join(numbered)}, each also with a number, as in fresh-7)"
    )


def suites(options: FishOptions) -> Callable[[str], Suite]:
    """Return how to get a suite by its name, played in the world of these options."""
    return lambda name: FishEvaluation(find_suite(name, options.evaluation), options).suite()


@dataclass(frozen=True, slots=True)
class FishEvaluation:
    """A suite in a world."""

    listed: FishSuite
    options: FishOptions

    def suite(self) -> Suite:
        """Return the suite as the engine plays it."""
        bound = unavoidable(self.listed, self.options)
        limit = self.listed.options(self.options).time_limit
        steps = FirstSteps.of(self.listed, self.options, bound)
        return Suite(
            name=self.listed.name,
            envs=fish_envs(
                self.listed.options(self.options), follows_settings=False, keeps_facts=True
            ),
            cases=tuple(Case(start.seed, start.as_value()) for start in self.listed.starts),
            figures=lambda episodes: {
                **evaluation_metrics(death_table(episodes), bound, time_limit=limit),
                **first_step_metrics(steps, episodes),
            },
            score=lambda episode: episode.metrics["survival_rate"],
            conditions=self.options.evaluation.as_text(),
            columns=COLUMNS,
            intervals=lambda episodes: intervals(death_table(episodes), time_limit=limit),
            bounds=lambda: bounds(bound, time_limit=limit),
            references=self.references,
            record=lambda episodes: {**record(episodes), **first_step_record(steps, episodes)},
        )

    def references(self) -> dict[str, tuple[Episode, ...]]:
        """Play the suite with the reference policies; their returns are 0.

        They know one predator and no obstacles, but can be played in any world.
        """
        neighbors = replace(self.options.neighbors, inputs=False)
        seen = replace(self.options, inputs="world", neighbors=neighbors)
        generator = Seeds(0).generator("fish", "references", self.listed.name)
        return {
            name: self._episodes(play_suite(self.listed, seen, act, threads=2))
            for name, act in reference_policies(generator).items()
        }

    def _episodes(self, deaths: NDArray[np.int32]) -> tuple[Episode, ...]:
        limit = self.listed.options(self.options).time_limit
        return tuple(
            Episode(
                env=number,
                number=0,
                seed=start.seed,
                length=limit if (row < 0).any() else int(row.max()),
                episode_return=0.0,
                reason="time_limit" if (row < 0).any() else "all_dead",
                metrics={"survival_rate": float((row < 0).mean())},
                facts={DEATH_STEPS: row.tolist()},
            )
            for number, (start, row) in enumerate(zip(self.listed.starts, deaths, strict=True))
        )


def death_table(episodes: Sequence[Episode]) -> NDArray[np.int32]:
    """Return the death steps [episodes, fish], -1 for survivors."""
    return np.array([episode.facts[DEATH_STEPS] for episode in episodes], np.int32)


def evaluation_metrics(
    deaths: NDArray[np.int32], bound: UnavoidableDeaths, *, time_limit: int
) -> Metrics:
    """Return all metrics of an evaluation by name."""
    found = survival_metrics(deaths, time_limit=time_limit)
    fish = found["total_fish_samples"]
    excess = found["step_one_death_count"] - float(bound.counts.sum())
    found |= {
        "score": found["avg_final_survival_rate"]
        + MINIMUM_WEIGHT * found["min_final_survival_rate"],
        "step_one_excess": excess,
        "step_one_excess_ratio": excess / fish,
        "step_one_excess_per_1000": 1000 * excess / fish,
        "survival_bound": bound.best_average,
    }
    return {f"eval/{name}": value for name, value in found.items()}


def bounds(bound: UnavoidableDeaths, *, time_limit: int) -> Metrics:
    """Return the metrics of a policy that loses only the doomed fish."""
    return evaluation_metrics(
        np.where(bound.doomed, 1, -1).astype(np.int32), bound, time_limit=time_limit
    )


def intervals(deaths: NDArray[np.int32], *, time_limit: int) -> Mapping[str, Interval]:
    """Return 95 % bootstrap intervals over episodes; they are deterministic."""
    steps = np.where(deaths < 0, time_limit, deaths)
    shares = {
        "avg_final_survival_rate": deaths < 0,
        **{f"early_death_fraction_{step}": steps < step for step in EARLY},
        "step_one_death_ratio": deaths == 1,
    }
    generator = Seeds(0).generator("fish", "bootstrap")
    draws = resample(generator, len(deaths), RESAMPLES)
    found = {name: share.mean(axis=1)[draws].mean(axis=1) for name, share in shares.items()}
    found["p10"] = np.array([np.percentile(steps[draw], 10) for draw in draws])
    return {f"eval/{name}": interval(values) for name, values in found.items()}


def record(episodes: Sequence[Episode]) -> dict[str, Any]:
    """Return the seeds and death steps of an evaluation, for the run's events."""
    return {
        "episodes": [
            {
                "seed": episode.seed,
                "survival_rate": episode.metrics["survival_rate"],
                "dead": {
                    str(fish): step
                    for fish, step in enumerate(episode.facts[DEATH_STEPS])
                    if step >= 0
                },
            }
            for episode in episodes
        ]
    }

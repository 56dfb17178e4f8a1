"""Fixed lists of episodes to compare policies, how to play them, and unavoidable deaths."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from longhaul.core.env import Floats, StepBuffers
from longhaul.core.seeds import Seeds
from longhaul.envs.native.thread_pool import RangePool
from longhaul.tasks.fish.options import (
    FishEvaluationOptions,
    FishOptions,
    FishStartOptions,
    TailOptions,
)
from longhaul.tasks.fish.world.school import SchoolFactory, Schools
from longhaul.tasks.fish.world.starts import SeedStart
from longhaul.tasks.fish.world.world import ACTIONS

V38_BASE = 411232
V38_BOOSTS = (0.75, 0.75, 0.76, 0.78, 0.80, 0.80, 0.80)
V38_EPISODES = 12
V38_INTERVAL = 8
SUITE_FISH = 96
FILM_EPISODES = 12
FRESH_EPISODES = 100
FRESH_BOOST = 0.8
REHEARSAL_EPISODES = 64
REHEARSAL_FISH = 48


@dataclass(frozen=True, slots=True)
class FishSuite:
    """A frozen list of starts with the number of fish they are played with."""

    name: str
    starts: tuple[SeedStart, ...]
    fish: int = SUITE_FISH
    drops_last_sector: bool = False

    def options(self, options: FishOptions) -> FishOptions:
        """Return `options` with whole episodes, this many fish, and the declared starts.

        Inputs, predators and obstacles stay as they are.
        """
        return replace(
            options,
            fish=self.fish,
            acting="each",
            short_share=0.0,
            time_limit=500,
            tail=TailOptions(),
            start=FishStartOptions(drops_last_sector=self.drops_last_sector),
        )


ITS_OWN = FishEvaluationOptions()
"""Every suite with its own size and seeds."""


def version_38(sizes: FishEvaluationOptions = ITS_OWN) -> FishSuite:
    """Return the episodes of the reference run's seven evaluations, 84 by its own count.

    Their seeds are one series that was not restarted in between; their boost followed training.
    """
    generator = np.random.default_rng(sizes.seed_base or V38_BASE)
    starts = tuple(
        SeedStart(int(generator.integers(0, 2**31 - 1)), boost)
        for boost in V38_BOOSTS
        for _ in range(sizes.episodes or V38_EPISODES)
    )
    return FishSuite("v38", starts, sizes.fish or SUITE_FISH, drops_last_sector=True)


def recorded(iteration: int, sizes: FishEvaluationOptions = ITS_OWN) -> FishSuite:
    """Return the episodes of the reference run's last evaluation up to an iteration."""
    block = max(min(iteration // V38_INTERVAL, len(V38_BOOSTS)) - 1, 0)
    whole = version_38(sizes)
    count = len(whole.starts) // len(V38_BOOSTS)
    starts = whole.starts[block * count : (block + 1) * count]
    return replace(whole, name=f"v38-{iteration}", starts=starts)


def fresh(number: int = 0, sizes: FishEvaluationOptions = ITS_OWN) -> FishSuite:
    """Return episodes that were not used for design; each `number` has other episodes."""
    starts = _drawn("suite", number, sizes, FRESH_EPISODES)
    return FishSuite(f"fresh-{number}", starts, sizes.fish or SUITE_FISH)


def rehearsal(number: int = 0, sizes: FishEvaluationOptions = ITS_OWN) -> FishSuite:
    """Return the smaller suite that is played while training and picks the best checkpoint.

    None of its episodes is in the suites whose metrics are reported.
    """
    starts = _drawn("rehearsal", number, sizes, REHEARSAL_EPISODES)
    return FishSuite(f"rehearsal-{number}", starts, sizes.fish or REHEARSAL_FISH)


def films(number: int = 0, sizes: FishEvaluationOptions = ITS_OWN) -> FishSuite:
    """Return a few episodes with as many fish as films are to show."""
    starts = _drawn("films", number, sizes, FILM_EPISODES)
    return FishSuite(f"films-{number}", starts, sizes.film_fish or SUITE_FISH)


def _drawn(
    kind: str, number: int, sizes: FishEvaluationOptions, episodes: int
) -> tuple[SeedStart, ...]:
    """Return starts whose seeds follow from kind and number, and the seed base if there is one."""
    base = sizes.seed_base
    seeds, place = (Seeds(base), (number,)) if base else (Seeds(number), ())
    return tuple(
        SeedStart(seeds.integer("fish", kind, *place, case), FRESH_BOOST)
        for case in range(sizes.episodes or episodes)
    )


Act = Callable[[Floats], NDArray[np.int64]]
"""Returns the actions [rows] for observations [rows, inputs]."""


def play_suite(
    suite: FishSuite, options: FishOptions, act: Act, *, threads: int = 1
) -> NDArray[np.int32]:
    """Play every episode of the suite in the world of `options`; `act` decides for all fish.

    Return the death steps [episodes, fish], -1 for survivors.
    """
    options = suite.options(options)
    schools, slots = begin_suite(suite, options)
    pool = RangePool(schools.count, threads)
    try:
        while not schools.over.all():
            actions = act(slots.obs["obs"])

            def step(begin: int, end: int, actions: NDArray[np.int64] = actions) -> None:
                schools.step(begin, end, actions)

            pool.run(step)
    finally:
        pool.close()
    deaths: NDArray[np.int32] = schools.world.deaths.copy()
    return deaths


def begin_suite(suite: FishSuite, options: FishOptions) -> tuple[Schools, StepBuffers]:
    """Return schools at the starts of a suite, and the arrays they write into."""
    schools = SchoolFactory(options, follows_settings=False)(len(suite.starts))
    slots = StepBuffers.allocate(schools.spec, schools.count * schools.spec.rows)
    schools.bind(slots)
    schools.reset(
        np.arange(schools.count),
        np.array([start.seed for start in suite.starts]),
        [start.as_value() for start in suite.starts],
    )
    return schools, slots


@dataclass(frozen=True, slots=True)
class UnavoidableDeaths:
    """The fish of a suite that die in the first step whatever their action."""

    doomed: NDArray[np.bool_]  # [episodes, fish]

    @property
    def counts(self) -> NDArray[np.int64]:
        """[episodes], how many fish of each."""
        counts: NDArray[np.int64] = self.doomed.sum(axis=1)
        return counts

    @property
    def best_average(self) -> float:
        """The most the mean share of survivors can be."""
        return float(1 - self.doomed.mean())

    @property
    def best_minimum(self) -> float:
        """The most the share of survivors in the worst episode can be."""
        return float(1 - self.doomed.mean(axis=1).max())


def unavoidable(suite: FishSuite, options: FishOptions) -> UnavoidableDeaths:
    """Return the bound of a suite in the world of `options`, by trying all actions.

    No action changes a predator's first step, not even that of a homing one, so each fish can be
    tried separately.
    """
    schools, _ = begin_suite(suite, suite.options(options))
    before = schools.snapshot()
    doomed = np.ones(schools.world.alive.shape, np.bool_)
    for action in range(ACTIONS):
        schools.restore(before)
        schools.step(0, schools.count, np.full(doomed.size, action))
        doomed &= ~schools.world.alive
    return UnavoidableDeaths(doomed)

"""Fixed lists of episodes, on which policies are compared."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from longhaul.core.seeds import Seeds
from longhaul.tasks.fish.options import NeighbourOptions, Options, StartOptions
from longhaul.tasks.fish.starts import SeedStart
from longhaul.tasks.fish.tail.options import TailOptions

V38_BASE = 411232
V38_BOOSTS = (0.75, 0.75, 0.76, 0.78, 0.80, 0.80, 0.80)
V38_EPISODES = 12
V38_INTERVAL = 8
SUITE_FISH = 96
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

    def options(self, options: Options) -> Options:
        """Return `options` with whole episodes, this many fish, and the declared starts.

        What the fish see, who hunts and what stands in the way stay as they are.
        """
        return replace(
            options,
            fish=self.fish,
            acting="each",
            short_share=0.0,
            time_limit=500,
            tail=TailOptions(),
            start=StartOptions(drops_last_sector=self.drops_last_sector),
        )


def version_38() -> FishSuite:
    """Return the 84 episodes of the reference run's seven evaluations.

    Their seeds are one series that was not restarted in between; their boost followed training.
    """
    generator = np.random.default_rng(V38_BASE)
    starts = tuple(
        SeedStart(int(generator.integers(0, 2**31 - 1)), boost)
        for boost in V38_BOOSTS
        for _ in range(V38_EPISODES)
    )
    return FishSuite("v38", starts, drops_last_sector=True)


def recorded(iteration: int) -> FishSuite:
    """Return the 12 episodes of the reference run's last evaluation up to an iteration."""
    block = max(min(iteration // V38_INTERVAL, len(V38_BOOSTS)) - 1, 0)
    whole = version_38()
    first = block * V38_EPISODES
    starts = whole.starts[first : first + V38_EPISODES]
    return replace(whole, name=f"v38-{iteration}", starts=starts)


def fresh(number: int = 0, *, episodes: int = FRESH_EPISODES) -> FishSuite:
    """Return episodes no design has looked at; another `number`, other episodes."""
    seeds = Seeds(number)
    starts = (
        SeedStart(seeds.integer("fish", "suite", case), FRESH_BOOST) for case in range(episodes)
    )
    return FishSuite(f"fresh-{number}", tuple(starts))


def rehearsal(number: int = 0) -> FishSuite:
    """Return the smaller suite that is played while training and picks the best checkpoint.

    No episode of it is in the suites whose figures are reported.
    """
    seeds = Seeds(number)
    starts = (
        SeedStart(seeds.integer("fish", "rehearsal", case), FRESH_BOOST)
        for case in range(REHEARSAL_EPISODES)
    )
    return FishSuite(f"rehearsal-{number}", tuple(starts), fish=REHEARSAL_FISH)


REFERENCE_OPTIONS = Options(inputs="world", neighbours=NeighbourOptions(inputs=False))
"""The inputs reference policies read."""

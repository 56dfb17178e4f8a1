"""Games of which some begin where others ended."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from longhaul.core.env import Array, BatchedEnvs, Bools, Ending, Start, StepBuffers
from longhaul.core.seeds import Seeds
from longhaul.core.settings import Settings
from longhaul.core.spaces import EnvSpec
from longhaul.core.state import State
from longhaul.envs.native.thread_pool import NativeStep
from longhaul.tasks.mario.game.games import STAGE_FACT, Games
from longhaul.tasks.mario.game.memory import Bytes, Memory
from longhaul.tasks.mario.game.reward import BEST_X, CLEAR_REASONS, ELAPSED
from longhaul.tasks.mario.game.starts import snapshot_start
from longhaul.tasks.mario.options import FRONTIER_SHARE, HARD_SHARE, StartOptions
from longhaul.tasks.mario.source import GameSource

EPISODES_PER_FADE = 100


@dataclass(frozen=True, slots=True)
class Place:
    """A console in the middle of a stage, and how far from its start."""

    row: Bytes
    reach: int  # pixels of new ground from the stage's true start


@dataclass(slots=True)
class Stretch:
    """A part of a stage: the places kept in it and how many episodes recently ended there."""

    places: list[Place]
    ends: float = 0.0
    kept: int = 0  # places ever kept; finds the oldest

    def keep(self, place: Place, most: int) -> None:
        """Keep a place, instead of the oldest if there are `most`."""
        if len(self.places) < most:
            self.places.append(place)
        else:
            self.places[self.kept % most] = place
        self.kept += 1


class StagePlaces:
    """What is known of one stage."""

    def __init__(self, options: StartOptions) -> None:
        self._options = options
        self._stretches: dict[int, Stretch] = {}
        self._episodes = 0

    @property
    def farthest(self) -> int:
        """The reach of the farthest place, 0 without any."""
        reaches = [p.reach for s in self._stretches.values() for p in s.places]
        return max(reaches, default=0)

    @property
    def count(self) -> int:
        """How many places are kept."""
        return sum(len(stretch.places) for stretch in self._stretches.values())

    def end(self, reach: int, place: Place | None) -> None:
        """Count an episode that ended, without clearing the stage, at `reach`, with a place."""
        self.fade()
        number = reach // self._options.bin_pixels
        stretch = self._stretches.setdefault(number, Stretch([]))
        stretch.ends += 1.0
        if place is not None:
            stretch.keep(place, self._options.places_per_bin)

    def fade(self) -> None:
        """Count an episode; every so many, what ended long ago counts less."""
        self._episodes += 1
        if self._episodes % EPISODES_PER_FADE == 0:
            for stretch in self._stretches.values():
                stretch.ends *= self._options.memory

    def draw(self, *, frontier_share: float, draws: tuple[float, float, float]) -> Place | None:
        """Return the place that three numbers in [0, 1) choose, None if none is kept."""
        numbers = sorted(number for number, s in self._stretches.items() if s.places)
        if not numbers:
            return None
        if draws[0] < frontier_share:
            numbers = numbers[-self._options.frontier_bins :]
            weights = [1.0] * len(numbers)
        else:
            weights = [self._stretches[number].ends for number in numbers]
        goal = draws[1] * sum(weights)
        chosen = numbers[-1]
        for number, weight in zip(numbers, weights, strict=True):
            goal -= weight
            if goal < 0:
                chosen = number
                break
        places = self._stretches[chosen].places
        return places[int(draws[2] * len(places))]

    def state_dict(self) -> State:
        """Return all of it."""
        numbers = sorted(self._stretches)
        listed = [self._stretches[number] for number in numbers]
        places = [place for stretch in listed for place in stretch.places]
        state: dict[str, Any] = {
            "episodes": self._episodes,
            "numbers": numbers,
            "ends": [stretch.ends for stretch in listed],
            "kept": [stretch.kept for stretch in listed],
            "counts": [len(stretch.places) for stretch in listed],
            "reaches": [place.reach for place in places],
        }
        if places:
            state["rows"] = np.stack([place.row for place in places])
        return state

    def load_state_dict(self, state: State) -> None:
        """Go on from a saved state."""
        self._episodes = state["episodes"]
        self._stretches = {}
        first = 0
        for index, number in enumerate(state["numbers"]):
            last = first + state["counts"][index]
            places = [
                Place(np.array(state["rows"][at]), state["reaches"][at])
                for at in range(first, last)
            ]
            self._stretches[number] = Stretch(places, state["ends"][index], state["kept"][index])
            first = last


HARD, REACH = "hard", "reach"
"""Metrics of an episode: whether it began from a kept place, and its end's distance from the true
start, in pixels of new ground."""
ELSEWHERE = -1
"""The reach of an episode that began at a given start: unknown, so no place is kept of it."""
FASTEST_FRAME = 3
"""Pixels Mario runs in a frame, at most."""
FAIR_REASONS = ("enemy", "pit", "stagnation")
"""Ends that say something about the place; running out of time says it about the whole way."""


@dataclass(frozen=True, slots=True)
class HardFactory:
    """Makes batches of games with hard starts; picklable."""

    games: GameSource
    options: StartOptions

    def __call__(self, count: int) -> HardGames:
        """Return `count` games."""
        return HardGames(self.games(count), self.options)


def hard_envs(source: GameSource, options: StartOptions) -> BatchedEnvs:
    """Return the source of games in which hard starts are dealt."""
    return BatchedEnvs(source.spec, HardFactory(source, options))


class HardGames:
    """A batch of games that keeps the places where its episodes end, and deals them."""

    def __init__(self, games: Games, options: StartOptions) -> None:
        self._games = games
        self._options = options
        self._stages: dict[str, StagePlaces] = {}
        # Nothing is dealt before settings ask for it: until then a seed alone decides an episode,
        # which is what environments are checked for.
        self._hard_share = 0.0
        self._frontier_share = options.frontier_share
        self._base = np.zeros(games.count, np.int64)  # reach at the start of each episode
        self._is_hard = np.zeros(games.count, np.bool_)

    @property
    def spec(self) -> EnvSpec:
        """The shapes and promises of one game."""
        return self._games.spec

    @property
    def count(self) -> int:
        """How many games there are."""
        return self._games.count

    @property
    def over(self) -> Bools:
        """[count], True for games whose episode ended in the last step."""
        return self._games.over

    def bind(self, slots: StepBuffers) -> None:
        """Write into these arrays."""
        self._games.bind(slots)

    def configure(self, settings: Settings) -> None:
        """Take settings into account from each game's next reset on."""
        self._games.configure(settings)
        if HARD_SHARE.name in settings:
            most = 1.0 - self._options.fresh_floor
            self._hard_share = min(settings[HARD_SHARE], most)
        if FRONTIER_SHARE.name in settings:
            self._frontier_share = settings[FRONTIER_SHARE]

    def reset(
        self, envs: NDArray[np.int64], seeds: NDArray[np.int64], starts: list[Start | None]
    ) -> None:
        """Begin an episode in each of `envs`, some of them from kept places."""
        dealt = list(starts)
        for position, (env, seed) in enumerate(zip(envs.tolist(), seeds.tolist(), strict=True)):
            self._base[env], self._is_hard[env] = 0, False
            if starts[position] is not None:
                self._base[env] = ELSEWHERE
                continue
            place = self._draw(seed)
            if place is not None:
                dealt[position] = snapshot_start(place.row)
                self._base[env], self._is_hard[env] = place.reach, True
        self._games.reset(envs, seeds, dealt)

    def _draw(self, seed: int) -> Place | None:
        """Return the kept place an episode begins from, None for a fresh start."""
        if not self._stages:
            return None
        generator = Seeds(seed).generator("mario", "hard start")
        share, stage, *rest = generator.random(5).tolist()
        if share >= self._hard_share:
            return None
        known = sorted(name for name, places in self._stages.items() if places.count)
        if not known:
            return None
        places = self._stages[known[int(stage * len(known))]]
        return places.draw(frontier_share=self._frontier_share, draws=(rest[0], rest[1], rest[2]))

    def step(self, begin: int, end: int, actions: Array) -> None:
        """Step games `begin` to `end`."""
        self._games.step(begin, end, actions)

    def native_step(self, members: int) -> NativeStep:
        """Return how to step the games by so many threads."""
        return self._games.native_step(members)

    def ending(self, env: int) -> Ending:
        """Return how the episode of `env` ended, and keep a place of it."""
        ending = self._games.ending(env)
        base = int(self._base[env])
        if base == ELSEWHERE:
            unknown = {REACH: ending.metrics["progress"], HARD: 0.0}
            return replace(ending, metrics={**ending.metrics, **unknown})
        reach = base + int(ending.metrics["progress"])
        stage = str(ending.facts[STAGE_FACT])
        places = self._stages.setdefault(stage, StagePlaces(self._options))
        if ending.reason in CLEAR_REASONS:
            places.fade()
        elif ending.reason in FAIR_REASONS:
            places.end(reach, self._place(env, reach))
        metrics = {**ending.metrics, REACH: float(reach), HARD: float(self._is_hard[env])}
        return replace(ending, metrics=metrics)

    def _place(self, env: int, reach: int) -> Place | None:
        """Return a place of an episode that lies far enough before its end."""
        own = self._games.figures[env]
        fit = [
            one
            for one in self._games.trail.footprints(env)
            if own[ELAPSED] - one.step >= self._options.least_back
        ]
        if not fit:
            return None
        # Near its end or well before, as if drawn.
        chosen = fit[int(own[ELAPSED]) % len(fit)]
        back = int(own[BEST_X]) - int(Memory(chosen.row).x)
        most = FASTEST_FRAME * self._games.options.frame_skip * int(own[ELAPSED] - chosen.step)
        # A place in another area has another origin: what can be walked in the time stands for it.
        return Place(chosen.row, max(reach - (back if 0 <= back <= most else most), 0))

    def frame(self, env: int) -> Bytes | None:
        """Return the present picture of one game."""
        return self._games.frame(env)

    def snapshot(self) -> State:
        """Return the state of all games and all kept places."""
        return {
            "games": self._games.snapshot(),
            "base": self._base.copy(),
            "is_hard": self._is_hard.copy(),
            "hard_share": self._hard_share,
            "frontier_share": self._frontier_share,
            "stages": {name: places.state_dict() for name, places in self._stages.items()},
        }

    def restore(self, state: State) -> None:
        """Continue from a snapshot."""
        self._games.restore(state["games"])
        self._base[...] = state["base"]
        self._is_hard[...] = state["is_hard"]
        self._hard_share = state["hard_share"]
        self._frontier_share = state["frontier_share"]
        self._stages = {}
        for name, kept in state["stages"].items():
            self._stages[name] = StagePlaces(self._options)
            self._stages[name].load_state_dict(kept)

    def close(self) -> None:
        """Free what the games hold."""
        self._games.close()

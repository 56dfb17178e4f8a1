"""Games of which some begin where others ended."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from longhaul.core.env import Array, BatchedEnvs, Bools, Ending, Slots, Start
from longhaul.core.seeds import Seeds
from longhaul.core.settings import Settings
from longhaul.core.spaces import EnvSpec
from longhaul.core.state import State
from longhaul.envs.crew.crew import NativeStep
from longhaul.tasks.mario.game.figures import BEST_X, CLEAR_REASONS, ELAPSED
from longhaul.tasks.mario.game.games import STAGE_FACT, Games
from longhaul.tasks.mario.game.memory import Bytes, Memory
from longhaul.tasks.mario.game.starts import snapshot_start
from longhaul.tasks.mario.source import GameSource
from longhaul.tasks.mario.starts.options import FRONTIER_SHARE, HARD_SHARE, StartOptions
from longhaul.tasks.mario.starts.places import Place, StagePlaces

HARD, REACH = "hard", "reach"
"""Metrics of an episode: whether it began from a kept place, and its end's distance from the true
start, in pixels of new ground."""
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

    def bind(self, slots: Slots) -> None:
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
            place = self._draw(seed) if starts[position] is None else None
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
        """Tell how the episode of `env` ended, and keep a place of it."""
        told = self._games.ending(env)
        base = int(self._base[env])
        reach = base + int(told.metrics["progress"])
        stage = str(told.facts[STAGE_FACT])
        places = self._stages.setdefault(stage, StagePlaces(self._options))
        if told.reason in CLEAR_REASONS:
            places.fade()
        elif told.reason in FAIR_REASONS:
            places.end(reach, self._place(env, reach))
        metrics = {**told.metrics, REACH: float(reach), HARD: float(self._is_hard[env])}
        return replace(told, metrics=metrics)

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

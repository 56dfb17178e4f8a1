"""The places of a stage that are worth beginning from, and how one of them is drawn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from longhaul.core.state import State
from longhaul.tasks.mario.game.memory import Bytes
from longhaul.tasks.mario.starts.options import StartOptions

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
    kept: int = 0  # places ever kept, so that the oldest is known

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

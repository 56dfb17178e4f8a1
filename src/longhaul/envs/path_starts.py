"""Training that begins along a path which is known to lead to the goal.

Episodes begin at states of the path near its end first, and earlier ones as those are solved: the
backward algorithm of Salimans and Chen (2018), with a rate of success for every state instead of
one position.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from longhaul.core.env import Episode, Start
from longhaul.core.errors import CheckpointError
from longhaul.core.metrics import Metric, Metrics, Panel
from longhaul.core.seeds import Seeds
from longhaul.core.state import State
from longhaul.envs.config import PathConfig
from longhaul.envs.starts import STARTS_USED, StartDealer

PLACE, WON, RATE, EARLIEST = "path/place", "path/won", "path/true_rate", "path/earliest"
"""Of an episode: where on the path it began, from 0, the true start, to 1, the goal; whether it was
solved; and, at its end, the rate of the true start and the earliest place that is solved."""
TENTHS = 10
METRICS = (
    Metric("path/share", "share of the ended episodes that began along a path"),
    Metric("path/success", "share of those that were solved"),
    Metric("path/success_true", "share of the episodes from the true start that were solved"),
    Metric(
        "path/success/<tenth>",
        "share of the episodes from this tenth of the path that were solved; 1 is the first tenth",
    ),
    Metric(
        RATE,
        "rate of success from the true start over recent episodes; with several paths the mean",
    ),
    Metric(
        EARLIEST,
        "place of the earliest state with a rate of at least `env.path.threshold`: 1 is the goal, "
        "0 the true start; with several paths the mean",
    ),
)
PANEL = Panel(
    "Success along the path",
    (RATE, EARLIEST, *(f"path/success/{tenth}" for tenth in (1, 3, 5, 7, 9))),
    name="path",
    right=("path/share",),
    note="tenths of the path from the true start to the goal; the earliest solved place falls to 0",
)
NEVER = 0.02
"""Weight of a state that is always solved or never."""
WINDOW = 0.2
"""Weight on top of states in the window."""
BEFORE = 0.1
"""What is left of the weight of states before the window."""
MEMORY = 0.85
"""What is left of a state's counts after an episode from it."""
NEIGHBORS = ((0, 1.0), (-1, 1 / 3), (1, 1 / 3))
"""States learn alike: an episode also counts for the ones beside it, this much."""
LAST_STATES = 4
"""With nothing solved yet, the window ends so many states before the goal."""


@dataclass(frozen=True, slots=True)
class Path:
    """Starts that lead to a goal."""

    name: str
    starts: tuple[Start | None, ...]
    """The true start, None for the environment's usual one, then states in the path's order."""

    @property
    def digest(self) -> str:
        """Return a digest of all starts."""
        return hashlib.sha256(repr((self.name, self.starts)).encode()).hexdigest()


class PathRates:
    """Wins and tries from every state of one path; nothing is ever forgotten but by decay."""

    def __init__(self, size: int, config: PathConfig) -> None:
        self._config = config
        self.wins = np.zeros(size)  # decayed
        self.tries = np.zeros(size)
        self.ended = np.zeros(size, np.int64)  # episodes from each state, all of them
        self.solved = np.zeros(size, np.int64)

    @property
    def rates(self) -> NDArray[np.float64]:
        """The present rate of success of every state; 0 where nothing was tried."""
        return np.divide(self.wins, np.maximum(self.tries, 1e-9))

    @property
    def true_rate(self) -> float:
        """The rate of the true start."""
        return float(self.rates[0])

    @property
    def earliest(self) -> int:
        """The earliest state with enough success; one near the goal if there is none yet."""
        good = np.flatnonzero(self.rates >= self._config.threshold)
        return int(good[0]) if len(good) else max(len(self.wins) - LAST_STATES, 0)

    def count(self, state: int, *, won: bool) -> None:
        """Count an episode that began in a state."""
        self.ended[state] += 1
        self.solved[state] += won
        for step, weight in NEIGHBORS:
            other = state + step
            if 0 <= other < len(self.wins) and (other > 0 or step == 0):
                kept = 1 - (1 - MEMORY) * weight
                self.wins[other] = self.wins[other] * kept + (1 - kept) * won
                self.tries[other] = self.tries[other] * kept + (1 - kept)

    def choose(self, share: float, place: float) -> int:
        """Return the state that two numbers in [0, 1) choose."""
        floor = self._config.floor
        if share < floor + (1 - floor) * self.true_rate or len(self.wins) == 1:
            return 0
        rates = self.rates
        # Most is learned where an episode may be won or lost.
        weights = rates * (1 - rates) + NEVER
        last = self.earliest
        first = max(last - self._config.window, 0)
        weights[:first] *= BEFORE
        weights[first : last + 1] += WINDOW
        weights[0] = 0.0
        sums = np.cumsum(weights)
        return int(min(np.searchsorted(sums, place * sums[-1], side="right"), len(sums) - 1))

    def state_dict(self) -> State:
        """Return all counts."""
        return {name: getattr(self, name).copy() for name in COUNTS}

    def load_state_dict(self, state: State) -> None:
        """Go on from saved counts."""
        for name in COUNTS:
            getattr(self, name)[...] = state[name]


COUNTS = ("wins", "tries", "ended", "solved")
PATH_WEIGHT = 0.05
"""Weight of a path that is always solved; the others weigh as much more as they fail."""


class PathDealer(StartDealer):
    """Deals states of paths; which one depends on the episode's seed and on the counts alone."""

    def __init__(
        self, paths: Sequence[Path], config: PathConfig, is_solved: Callable[[Episode], bool]
    ) -> None:
        super().__init__()
        self._paths = tuple(paths)
        self._rates = [PathRates(len(path.starts), config) for path in paths]
        self._is_solved = is_solved
        self._places: dict[int, tuple[int, int]] = {}  # of each env: path and state, -1 for none

    def deal(self, env: int, seed: int) -> Start | None:
        """Return the state an episode begins in."""
        self._places.pop(env, None)
        offered = super().deal(env, seed)
        if offered is not None:
            return offered
        draws = Seeds(seed).generator("path").random(3).tolist()
        weights = np.cumsum([1 - rates.true_rate + PATH_WEIGHT for rates in self._rates])
        path = int(np.searchsorted(weights, draws[0] * weights[-1], side="right"))
        path = min(path, len(self._paths) - 1)
        state = self._rates[path].choose(draws[1], draws[2])
        self._places[env] = (path, state)
        return self._paths[path].starts[state]

    def finished(self, episode: Episode) -> Episode:
        """Count an episode that ended; return it with where it began."""
        if episode.env not in self._places:
            return episode
        path, state = self._places[episode.env]
        won = self._is_solved(episode)
        rates = self._rates[path]
        rates.count(state, won=won)
        metrics = dict(episode.metrics)
        if state == 0:
            metrics.pop(STARTS_USED, None)
        metrics |= {
            PLACE: state / len(rates.wins),
            WON: float(won),
            RATE: float(np.mean([one.true_rate for one in self._rates])),
            EARLIEST: float(np.mean([one.earliest / len(one.wins) for one in self._rates])),
        }
        return replace(episode, metrics=metrics)

    def state_dict(self) -> State:
        """Return the counts, and where the running episodes began."""
        return {
            **super().state_dict(),
            "paths": [path.digest for path in self._paths],
            "rates": [rates.state_dict() for rates in self._rates],
            "places": [[env, *place] for env, place in sorted(self._places.items())],
        }

    def load_state_dict(self, state: State) -> None:
        """Go on with saved counts; the paths must be the same."""
        if state.get("paths") != [path.digest for path in self._paths]:
            raise CheckpointError(
                "the checkpoint was trained along other paths: the files of env.path.demos, or the "
                "game they are for, have changed"
            )
        super().load_state_dict(state)
        for rates, saved in zip(self._rates, state["rates"], strict=True):
            rates.load_state_dict(saved)
        self._places = {env: (path, place) for env, path, place in state["places"]}


def path_metrics(episodes: Sequence[Episode]) -> Metrics:
    """Return the metrics of the episodes that were dealt by a `PathDealer`; empty without any."""
    own = [episode.metrics for episode in episodes if PLACE in episode.metrics]
    if not own:
        return {}
    along = [one for one in own if one[PLACE] > 0]
    true = [one[WON] for one in own if one[PLACE] == 0]
    found = {
        "path/share": len(along) / len(own),
        RATE: own[-1][RATE],
        EARLIEST: own[-1][EARLIEST],
    }
    if along:
        found["path/success"] = sum(one[WON] for one in along) / len(along)
    if true:
        found["path/success_true"] = sum(true) / len(true)
    for tenth in range(TENTHS):
        won = [one[WON] for one in along if int(one[PLACE] * TENTHS) == tenth]
        if won:
            found[f"path/success/{tenth + 1}"] = sum(won) / len(won)
    return found

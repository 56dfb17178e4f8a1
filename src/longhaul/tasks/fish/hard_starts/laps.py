"""The order in which a stage deals its starts: by weight, less replayed ones first.

The outcome of an episode from a start is the share of fish lost. A lap is a list of starts that is
dealt from its top and again; a new one is made at its end.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from longhaul.core.errors import ConfigError

LONGEST = 8
"""Longest lap, as a multiple of the number of its starts."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A start of a stage by its name, with its weight."""

    id: str
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class Replays:
    """The outcomes of one start so far."""

    count: int = 0
    recent: tuple[float, ...] = ()  # shares of fish lost, newest last
    out_until: int = 0  # the first iteration at which it may be dealt again

    def after(self, count: int, lost: float, *, window: int) -> Replays:
        """Return this with more episodes, which lost this share on average."""
        recent = (*self.recent, *(lost for _ in range(count)))[-window:] if window else ()
        return replace(self, count=self.count + count, recent=recent)


NEVER = Replays()


@dataclass(frozen=True, slots=True)
class LapRules:
    """Rules by which laps prefer, spare and set aside starts."""

    decay: float = 1.0
    """Weight of a start after each replay, as a share of that before."""
    window: int = 0
    """Replays in a row that must go badly before a start is set aside; 0: none is."""
    lost: float = 0.5
    """Share of fish lost from which on a replay went badly."""
    rest: int = 20
    """Iterations for which a start stays aside."""
    spared: float = 0.25
    """Share of the starts, the hardest ones, that is left out of the lap after a gate moved."""

    def __post_init__(self) -> None:
        if not 0 < self.decay <= 1:
            raise ConfigError(f"options.tail.decay = {self.decay} must be above 0 and at most 1")
        if not (0 <= self.lost <= 1 and 0 <= self.spared < 1):
            raise ConfigError(
                "options.tail.filter_lost must be in [0, 1] and gate_spared in [0, 1), not "
                f"{self.lost} and {self.spared}"
            )
        if self.window < 0 or self.rest < 1:
            raise ConfigError(
                "options.tail.filter_window must be 0 or more and filter_rest at least 1, not "
                f"{self.window} and {self.rest}"
            )

    def went_badly(self, replays: Replays) -> bool:
        """Whether a start has failed again and again."""
        recent = replays.recent[-self.window :] if self.window else ()
        return len(recent) == self.window > 0 and min(recent) >= self.lost

    def is_out(self, replays: Replays, iteration: int) -> bool:
        """Whether a start is set aside at this point of the run."""
        return iteration < replays.out_until


def settle(history: Mapping[str, Replays], rules: LapRules, iteration: int) -> dict[str, Replays]:
    """Return the history with those set aside that have failed again and again.

    Their record is cleared: a start that comes back is judged by later replays only.
    """
    return {
        name: replace(replays, recent=(), out_until=iteration + rules.rest)
        if rules.went_badly(replays) and not rules.is_out(replays, iteration)
        else replays
        for name, replays in history.items()
    }


def hardest(
    candidates: Sequence[Candidate], history: Mapping[str, Replays], share: float
) -> frozenset[str]:
    """Return the starts, up to a share of all, that lost most fish in their recent replays."""
    known = [
        (-sum(recent) / len(recent), place, candidate.id)
        for place, candidate in enumerate(candidates)
        if (recent := history.get(candidate.id, NEVER).recent)
    ]
    count = min(math.floor(share * len(candidates)), len(candidates) - 1)
    return frozenset(name for _, _, name in sorted(known)[:count])


def make_lap(
    candidates: Sequence[Candidate],
    history: Mapping[str, Replays],
    rules: LapRules,
    *,
    iteration: int,
    left_out: Collection[str] = (),
) -> tuple[str, ...]:
    """Return the names to deal next, in proportion to their weights, well mixed.

    If no start were left, none is set aside.
    """
    open_ones = [
        candidate
        for candidate in candidates
        if candidate.id not in left_out
        and not rules.is_out(history.get(candidate.id, NEVER), iteration)
    ]
    chosen = open_ones or list(candidates)
    counts = [history.get(candidate.id, NEVER).count for candidate in chosen]
    fewest = min(counts, default=0)
    weights = [
        # Relative to the freshest: after a thousand replays of all there is still a difference.
        max(candidate.weight * rules.decay ** (count - fewest), 1e-300)
        for candidate, count in zip(chosen, counts, strict=True)
    ]
    return _spread([candidate.id for candidate in chosen], weights)


def _spread(names: Sequence[str], weights: Sequence[float]) -> tuple[str, ...]:
    """Return names in proportion to their weights; next is always the one furthest behind."""
    if not names:
        return ()
    size = min(math.ceil(sum(weights) / min(weights) - 1e-9), LONGEST * len(names))
    size = max(size, len(names))
    taken = [0] * len(names)
    order = []
    for _ in range(size):
        # The divisor method of Sainte-Lague: proportional at every point, not only at the end.
        place = max(range(len(names)), key=lambda k: (weights[k] / (2 * taken[k] + 1), -k))
        taken[place] += 1
        order.append(names[place])
    return tuple(order)

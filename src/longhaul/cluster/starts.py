"""Hard starts shared out, so that all collectors together deal what one would have dealt."""

from __future__ import annotations

from dataclasses import dataclass

from longhaul.core.settings import Settings, SettingValue
from longhaul.core.state import State
from longhaul.envs.starts import STARTS, STARTS_LIMIT, listed, tupled

Pool = tuple[SettingValue, ...]


@dataclass(frozen=True, slots=True)
class StartShare:
    """The settings one collector is told, and whether its deal begins anew."""

    settings: Settings
    is_fresh: bool


class StartShares:
    """Deals hard starts out among collectors; they never decide how many there are.

    Without a limit every start goes to one collector. With one, what is left of it is split among
    the collectors that are about to begin, and what the others hold stays set aside for them, even
    for one that died: whoever takes its place is told the same.
    """

    def __init__(self, collectors: int) -> None:
        self._dealing: list[Pool] = [()] * collectors  # as of the last answer
        self._told: list[Pool] = [()] * collectors
        self._used = [0] * collectors
        self._held = [0] * collectors  # starts a collector under way may still deal

    def share(self, settings: Settings, collector: int, *, waiting: int) -> StartShare:
        """Return what a collector is told; `waiting` are about to be told, it included."""
        if STARTS.name not in settings:
            return StartShare(settings, is_fresh=False)
        starts = settings[STARTS]
        is_fresh = starts != self._dealing[collector]
        self._told[collector] = starts
        self._held[collector] = 0
        limit = settings[STARTS_LIMIT] if STARTS_LIMIT.name in settings else 0
        if not limit:
            own = starts[collector :: len(self._told)]
            return StartShare(settings.with_([STARTS.to(own)]), is_fresh)
        left = max(0, limit - sum(self._used) - sum(self._held))
        held = -(-left // max(1, waiting))
        self._held[collector] = held
        # A limit of 0 would mean none; whoever may deal nothing is offered nothing.
        own = self._part(starts, collector) if held else ()
        limited = STARTS_LIMIT.to(self._used[collector] + held)
        return StartShare(settings.with_([STARTS.to(own), limited]), is_fresh)

    def _part(self, starts: Pool, collector: int) -> Pool:
        """Return a collector's part of a pool that is dealt over and over: all of a small one."""
        if not starts or len(starts) >= len(self._told):
            return starts[collector :: len(self._told)]
        first = collector % len(starts)
        return starts[first:] + starts[:first]

    def dealt(self, collector: int, count: int) -> None:
        """Count what a collector has dealt; what it held and did not deal is free again."""
        self._used[collector] += count
        self._held[collector] = 0
        self._dealing[collector] = self._told[collector]

    @property
    def used(self) -> int:
        """Starts dealt since the run began."""
        return sum(self._used)

    def state_dict(self) -> State:
        """Return what was dealt; what is under way will be told again."""
        return {"used": list(self._used), "dealing": [listed(pool) for pool in self._dealing]}

    def load_state_dict(self, state: State) -> None:
        """Go on with saved counts."""
        self._used = [int(count) for count in state["used"]]
        pools = [tupled(pool) for pool in state["dealing"]]
        self._dealing = [pool if isinstance(pool, tuple) else () for pool in pools]
        self._told = list(self._dealing)
        self._held = [0] * len(self._used)

"""Where each collector of a run stands: hired, at work, waiting, or gone."""

from __future__ import annotations

from dataclasses import dataclass, field

from longhaul.cluster.config import EnvShare
from longhaul.cluster.ledger import Ticket
from longhaul.cluster.messages import CollectorHello, Fragment
from longhaul.core.settings import Settings
from longhaul.core.state import State


@dataclass(frozen=True, slots=True)
class CollectOrder:
    """What a collector is to do; kept until its fragment is settled, so it can be told again."""

    version: int
    weights: object
    """What the fleet calls the weights of that version."""
    settings: Settings
    deals_anew: bool


@dataclass(slots=True)
class CollectorSlot:
    """One share of the environments and whoever holds it at present."""

    share: EnvShare
    state: State | None = None
    """After the last settled fragment; None before the first."""
    order: CollectOrder | None = None
    ticket: Ticket | None = None
    """Open at the ledger from the asking to the settling."""
    fragment: Fragment | None = None
    """Here, but not yet learned from."""
    hello: CollectorHello | None = None
    """None while nobody is there."""
    asked_at: float = 0.0
    vacant_since: float = 0.0
    deaths: int = 0
    """In a row, without a fragment in between."""

    @property
    def is_live(self) -> bool:
        """Whether a collector is there."""
        return self.hello is not None

    @property
    def is_busy(self) -> bool:
        """Whether an answer is waited for."""
        return self.ticket is not None and self.fragment is None

    @property
    def is_idle(self) -> bool:
        """Whether a collector is there to be asked."""
        return self.is_live and self.ticket is None

    @property
    def newest_state(self) -> State | None:
        """Where whoever takes the seat next begins."""
        return self.state if self.fragment is None else self.fragment.state


@dataclass(slots=True)
class CollectorTally:
    """What happened since the last look."""

    lags: list[int] = field(default_factory=list)
    nbytes: int = 0
    put_seconds: float = 0.0
    wait_seconds: float = 0.0

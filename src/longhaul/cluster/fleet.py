"""What the learner needs of whoever runs its collectors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from longhaul.cluster.messages import Ask, Fragment, Weights
from longhaul.cluster.shares import EnvShare
from longhaul.cluster.worker import Hello
from longhaul.core.state import State


@dataclass(frozen=True, slots=True)
class Joined:
    """A collector is ready to be asked."""

    collector: int
    hello: Hello


@dataclass(frozen=True, slots=True)
class Answered:
    """A collector has brought a fragment."""

    collector: int
    fragment: Fragment


@dataclass(frozen=True, slots=True)
class Died:
    """A collector is no more, and neither is what it was doing."""

    collector: int
    error: str


News = Joined | Answered | Died


class Fleet(Protocol):
    """Runs collectors somewhere; everything but `begin` and `news` returns at once."""

    def begin(self) -> float:
        """Be ready to hire; return how many processors are free."""

    def hire(self, share: EnvShare, state: State | None) -> None:
        """Have a collector begin, from this state if there is one; it joins when it is ready."""

    def publish(self, weights: Weights) -> object:
        """Lay weights out for all collectors; return what `ask` refers to them by."""

    def ask(self, ask: Ask, weights: object) -> None:
        """Ask the collector of the ticket's share, which has joined, for a fragment."""

    def news(self, seconds: float) -> Sequence[News]:
        """Return what happened, as soon as something has or after this time."""

    def dismiss(self, collector: int) -> None:
        """End a collector at once; nothing is heard of it any more."""

    def close(self) -> None:
        """End all collectors."""

"""What a controller sees and what it answers: pure decisions over measurements."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from longhaul.core.metrics import Metrics
from longhaul.core.progress import Progress
from longhaul.core.settings import Assignment, Settings

S = TypeVar("S")


@dataclass(frozen=True, slots=True)
class View:
    """Everything a decision may depend on."""

    progress: Progress
    metrics: Metrics
    settings: Settings


@dataclass(frozen=True, slots=True)
class Decision(Generic[S]):
    """A controller's next state, the settings it changes, and the reason in words."""

    state: S
    assignments: tuple[Assignment, ...] = ()
    why: str = ""
    metrics: Metrics = field(default_factory=dict)


class Controller(Protocol[S]):
    """A frozen dataclass of configuration with one pure method over a frozen state."""

    @property
    def name(self) -> str:
        """The controller's unique name within its schedule."""

    @property
    def reads(self) -> tuple[str, ...]:
        """Names of the metrics it looks at."""

    @property
    def writes(self) -> tuple[str, ...]:
        """Names of the settings it may change."""

    def initial(self) -> S:
        """Return the state before the first iteration."""

    def decide(self, state: S, view: View) -> Decision[S]:
        """Return the next state and the settings to change."""

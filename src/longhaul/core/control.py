"""Controllers, what they see and decide, and the progress of a run."""

from __future__ import annotations

from collections.abc import Sized
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, Protocol, TypeVar

from longhaul.core.metrics import Metrics
from longhaul.core.settings import Assignment, Setting, Settings


class Collected(Protocol):
    """The counts of a rollout."""

    @property
    def env_steps(self) -> int:
        """Transitions by rows that really acted."""

    @property
    def episodes(self) -> Sized:
        """Episodes that ended in the rollout."""


@dataclass(frozen=True, slots=True)
class Progress:
    """Counters of finished work; the only notion of time a decision may use."""

    iteration: int = 0
    env_steps: int = 0
    episodes: int = 0

    def after(self, rollout: Collected) -> Progress:
        """Return the progress once this rollout has been learned from."""
        return Progress(
            self.iteration + 1,
            self.env_steps + rollout.env_steps,
            self.episodes + len(rollout.episodes),
        )


@dataclass(frozen=True, slots=True)
class RunLength:
    """How long a run is trained: counted in episodes or iterations if given, else in steps."""

    total_timesteps: int = 0
    total_iterations: int = 0
    total_episodes: int = 0

    @property
    def unit(self) -> Literal["steps", "iterations", "episodes"]:
        """What the length is counted in."""
        if self.total_episodes:
            return "episodes"
        return "iterations" if self.total_iterations else "steps"

    @property
    def total(self) -> int:
        """The length; 0 if it is unknown."""
        return self.total_episodes or self.total_iterations or self.total_timesteps

    @property
    def key(self) -> str:
        """The config key that holds the length."""
        return {"steps": "total_timesteps"}.get(self.unit, f"total_{self.unit}")

    def done(self, progress: Progress) -> int:
        """Return how much of the length is done, in its unit."""
        if self.total_episodes:
            return progress.episodes
        return progress.iteration if self.total_iterations else progress.env_steps

    def share(self, progress: Progress) -> float | None:
        """Return how much is done, from 0 to 1; None if no end is known."""
        return min(self.done(progress) / self.total, 1.0) if self.total else None


UNKNOWN_LENGTH = RunLength()

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


@dataclass(frozen=True, slots=True)
class NoState:
    """The state of a controller that has none."""


class Stateless:
    """A controller whose decisions follow from the progress and the settings alone."""

    __slots__ = ()

    @property
    def reads(self) -> tuple[str, ...]:
        """No metric."""
        return ()

    def initial(self) -> NoState:
        """Return the empty state."""
        return NoState()


class _HasSetting(Protocol):
    @property
    def setting(self) -> Setting[Any]: ...


class WritesOne:
    """A controller that writes its `setting` only."""

    __slots__ = ()

    @property
    def writes(self: _HasSetting) -> tuple[str, ...]:
        """The setting."""
        return (self.setting.name,)

"""Saying what is wrong while a run goes on: to its logs, and to whoever watches."""

from __future__ import annotations

from collections.abc import Callable

from longhaul.core.control import View
from longhaul.core.hint import Hint
from longhaul.core.metrics import Metrics
from longhaul.core.progress import Progress
from longhaul.core.state import State
from longhaul.hints.advisor import Hints


def tell_nobody(progress: Progress, hint: Hint) -> None:
    """Keep a hint from being shown; it is in the logs all the same."""


class Speaker:
    """Consults the rules without a clock once an iteration; a part of the checkpoint."""

    def __init__(
        self,
        hints: Hints | None = None,
        tell: Callable[[Progress, Hint], None] = tell_nobody,
    ) -> None:
        self._hints = hints or Hints((), {})
        self._tell = tell

    def of(self, view: View) -> tuple[Hint, ...]:
        """Return what is worth saying about this iteration, for the run's events."""
        said = self._hints.take(view.progress, view.metrics)
        for hint in said:
            self._tell(view.progress, hint)
        return said

    def state_dict(self) -> State:
        """Return what the rules remember."""
        return self._hints.state_dict()

    def load_state_dict(self, state: State) -> None:
        """Go on where the saved rules stood."""
        self._hints.load_state_dict(state)


class TimedSpeaker:
    """Consults the rules with a clock; a metric sink, as those are given the timings too.

    What they say depends on this process and machine, so it goes into the sessions: the events of
    two runs of one config are the same byte for byte.
    """

    def __init__(
        self,
        hints: Hints,
        tell: Callable[[Progress, Hint], None],
        note: Callable[[Progress, Hint], None],
    ) -> None:
        self._hints = hints
        self._tell = tell
        self._note = note

    def write(self, progress: Progress, metrics: Metrics) -> None:
        """Take one iteration's metrics and timings."""
        for hint in self._hints.take_timed(progress, metrics):
            self._tell(progress, hint)
            self._note(progress, hint)

    def close(self) -> None:
        """Nothing: hints are told at once."""

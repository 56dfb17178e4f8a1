"""Reporting hints during a run: to its logs and to the display."""

from __future__ import annotations

from collections.abc import Callable

from longhaul.core.control import Progress, View
from longhaul.core.hint import Hint
from longhaul.core.parts import Recorded, RunListener
from longhaul.core.state import State
from longhaul.hints.advisor import Hints

Report = Callable[[Progress, Hint], None]


def report_nowhere(progress: Progress, hint: Hint) -> None:
    """Show nothing; the hint is still logged."""


class HintReporter(RunListener):
    """Consults the rules once an iteration; a part of the checkpoint.

    The loop asks `of` for hints without a clock, which go into the events. Rules with a clock see
    the timings, as a listener of the run. Their hints depend on this process and machine, so they
    go into the sessions: the events of two runs of one config are the same byte for byte.
    """

    def __init__(
        self,
        hints: Hints | None = None,
        show: Report = report_nowhere,
        note: Report = report_nowhere,
    ) -> None:
        self._hints = hints or Hints((), {})
        self._show = show
        self._note = note

    def of(self, view: View) -> tuple[Hint, ...]:
        """Return this iteration's hints, for the run's events."""
        said = self._hints.take(view.progress, view.metrics)
        for hint in said:
            self._show(view.progress, hint)
        return said

    def iteration(self, recorded: Recorded) -> None:
        """Show and log the hints of rules with a clock."""
        for hint in self._hints.take_timed(recorded.progress, recorded.values):
            self._show(recorded.progress, hint)
            self._note(recorded.progress, hint)

    def state_dict(self) -> State:
        """Return what the rules remember."""
        return self._hints.state_dict()

    def load_state_dict(self, state: State) -> None:
        """Go on where the saved rules stood."""
        self._hints.load_state_dict(state)

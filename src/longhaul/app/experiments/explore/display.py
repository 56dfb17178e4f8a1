"""What is shown while goals are searched: a live panel, or a line every few seconds."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TextIO

from rich.console import Console
from rich.live import Live
from rich.panel import Panel
from rich.table import Table

from longhaul.app.build.env_output import own_streams
from longhaul.app.experiments.explore.search import SearchStatus
from longhaul.app.session.display import Throttle
from longhaul.report.summary import duration


class ExploreDisplay(AbstractContextManager["ExploreDisplay"]):
    """Shows searches; this one shows nothing."""

    def __exit__(self, *_: object) -> None:
        """Leave the last state on the screen."""

    def show(self, status: SearchStatus) -> None:
        """Show how the present search stands."""

    def done(self, status: SearchStatus) -> None:
        """Show how a search ended."""

    def notice(self, text: str) -> None:
        """Show one message."""


def choose_explore_display(goals: int, *, reach: str, quiet: bool) -> ExploreDisplay:
    """Return the display that fits the error stream."""
    if quiet:
        return ExploreDisplay()
    stream = own_streams().err
    return LiveSearches(stream, goals, reach) if stream.isatty() else SearchLines(stream, reach)


class SearchLines(ExploreDisplay):
    """A line every few seconds, and one for each goal."""

    def __init__(self, stream: TextIO, reach: str, *, seconds: float = 5.0) -> None:
        self._stream = stream
        self._reach = reach
        self._throttle = Throttle(seconds)

    def show(self, status: SearchStatus) -> None:
        """Write a line if the last one is old enough."""
        if self._throttle.ready():
            self.notice(f"{status.goal}: {in_words(status, self._reach)}")

    def done(self, status: SearchStatus) -> None:
        """Write how a search ended."""
        self.notice(f"{status.goal}: {outcome(status)}, {in_words(status, self._reach)}")

    def notice(self, text: str) -> None:
        """Write a line."""
        self._stream.write(text + "\n")
        self._stream.flush()


class LiveSearches(ExploreDisplay):
    """A panel with the present search and a table of those that ended."""

    def __init__(self, stream: TextIO, goals: int, reach: str) -> None:
        self._goals = goals
        self._reach = reach
        self._ended: list[SearchStatus] = []
        self._notice = ""
        self._now: SearchStatus | None = None
        self._throttle = Throttle(0.25)
        self._live = Live(console=Console(file=stream), auto_refresh=False)

    def __enter__(self) -> LiveSearches:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.update(self._panel(), refresh=True)
        self._live.stop()

    def show(self, status: SearchStatus) -> None:
        """Draw the panel again a few times a second."""
        self._now = status
        if self._throttle.ready():
            self._live.update(self._panel(), refresh=True)

    def done(self, status: SearchStatus) -> None:
        """Move a search to the table."""
        self._ended.append(status)
        self._now = None
        self._live.update(self._panel(), refresh=True)

    def notice(self, text: str) -> None:
        """Show one message below the table."""
        self._notice = text

    def _panel(self) -> Panel:
        table = Table("goal", "", "cells", self._reach, "steps", "time", box=None)
        for status in (*self._ended, *([] if self._now is None else [self._now])):
            table.add_row(
                status.goal,
                "searching" if status is self._now and status.legs == 1 else outcome(status),
                f"{status.cells:,}",
                f"{status.reach:,.0f}",
                f"{status.steps:,}",
                duration(status.seconds),
            )
        solved = sum(status.solved for status in self._ended)
        title = f"explore: {solved} of {self._goals} solved"
        return Panel(table, title=title, subtitle=self._notice or None)


def outcome(status: SearchStatus) -> str:
    """Return how a search ended, in words."""
    if not status.solved:
        return "not solved" if status.legs == 1 else f"{status.leg} of {status.legs} parts solved"
    return "solved" if status.verified else "solved, but NOT repeated by a replay"


def in_words(status: SearchStatus, reach: str) -> str:
    """Return the figures of a search."""
    return (
        f"{status.cells:,} cells, farthest {status.reach:,.0f} {reach}, {status.steps:,} steps, "
        f"{duration(status.seconds)}"
    )

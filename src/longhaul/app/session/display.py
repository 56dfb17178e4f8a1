"""What a person sees while a run trains: a live panel, plain lines, or JSON for programs."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TextIO

from longhaul.app.build.env_output import own_streams, tell_prints
from longhaul.core.control import Progress
from longhaul.core.errors import without_controls
from longhaul.core.hint import Hint
from longhaul.core.metrics import Metrics
from longhaul.core.parts import Recorded, RunListener

MEAN_RETURN = "eval/mean_reward"


class Display(RunListener):
    """Shows a run; this one shows nothing."""

    def open(self, title: str, *, total: int, score: str = MEAN_RETURN) -> None:
        """Open the display; `score` is the metric the task is judged by."""

    def iteration(self, recorded: Recorded) -> None:
        """Show one iteration."""
        self.write(recorded.progress, recorded.values)

    def write(self, progress: Progress, metrics: Metrics) -> None:
        """Show one iteration's metrics and timings."""

    def stage(self, name: str) -> None:
        """Show what the run is doing now."""

    def advance(self, stage: str, done: int, total: int) -> None:
        """Show how many episodes of a long stage are over."""

    def notice(self, text: str) -> None:
        """Show one message."""

    def hint(self, progress: Progress, hint: Hint) -> None:
        """Show what the run says is wrong."""

    def close(self) -> None:
        """Leave the last state on the screen."""


def choose_display(*, as_json: bool, quiet: bool) -> Display:
    """Return the display that fits where the output goes."""
    if quiet:
        return Display()
    display: Display
    streams = own_streams()
    if as_json:
        display = Unfailing(JsonLines(streams.out), streams.out)
    elif streams.err.isatty():
        from longhaul.app.session.live import LivePanel

        display = Unfailing(LivePanel(), streams.err)
    else:
        display = Unfailing(PlainLines(streams.err), streams.err)
    tell_prints(display.notice)
    return display


class Unfailing(Display):
    """A display that falls silent once its output fails: training goes on, its logs have it all.

    The reader of a pipe may have left, a disk may be full, a terminal may be closed.
    """

    def __init__(self, display: Display, stream: TextIO) -> None:
        self.shown = display
        self._stream = stream

    def open(self, title: str, *, total: int, score: str = MEAN_RETURN) -> None:
        """Open the display."""
        self._show(lambda: self.shown.open(title, total=total, score=score))

    def write(self, progress: Progress, metrics: Metrics) -> None:
        """Show one iteration."""
        self._show(lambda: self.shown.write(progress, metrics))

    def stage(self, name: str) -> None:
        """Show what the run is doing now."""
        self._show(lambda: self.shown.stage(name))

    def advance(self, stage: str, done: int, total: int) -> None:
        """Show how many episodes of a long stage are over."""
        self._show(lambda: self.shown.advance(stage, done, total))

    def notice(self, text: str) -> None:
        """Show one happening."""
        self._show(lambda: self.shown.notice(without_controls(text)))

    def hint(self, progress: Progress, hint: Hint) -> None:
        """Show what the run says is wrong."""
        self._show(lambda: self.shown.hint(progress, hint))

    def close(self) -> None:
        """Leave the last state on the screen."""
        self._show(self.shown.close)

    def _show(self, show: Callable[[], None]) -> None:
        try:
            show()
        except (OSError, ValueError) as error:
            if isinstance(error, ValueError) and not self._stream.closed:
                raise
            self.shown = Display()
            # What is still buffered would fail again when the process ends.
            with suppress(OSError, ValueError):
                nowhere = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nowhere, self._stream.fileno())
                os.close(nowhere)


class Throttle:
    """Says yes at most once in so many seconds; what waits for a yes is not lost."""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._clock = clock
        self._last = -float("inf")

    def ready(self) -> bool:
        """Whether enough time has passed since the last yes."""
        now = self._clock()
        if now - self._last < self._seconds:
            return False
        self._last = now
        return True


class PlainLines(Display):
    """One line every few seconds, for logs and pipes."""

    def __init__(self, stream: TextIO, *, seconds: float = 5.0) -> None:
        self._stream = stream
        self._throttle = Throttle(seconds)
        self._total = 0
        self._score = MEAN_RETURN
        self._unshown: tuple[Progress, Metrics] | None = None

    def open(self, title: str, *, total: int, score: str = MEAN_RETURN) -> None:
        """Write the title."""
        self._total = total
        self._score = score
        self._line(title)

    def write(self, progress: Progress, metrics: Metrics) -> None:
        """Write a line if the last one is old enough."""
        self._unshown = (progress, metrics)
        if self._throttle.ready():
            self._show()

    def advance(self, stage: str, done: int, total: int) -> None:
        """Write how far a long stage is, if the last line is old enough."""
        self._show()
        if self._throttle.ready():
            self._line(f"{stage}: {done} of {total} episodes")

    def notice(self, text: str) -> None:
        """Write the happening."""
        self._line(text)

    def hint(self, progress: Progress, hint: Hint) -> None:
        """Write the hint."""
        self._line(f"hint ({hint.rule}, iteration {progress.iteration:,}): {hint.text}")

    def close(self) -> None:
        """Write the last iteration if it was not shown."""
        self._show()

    def _show(self) -> None:
        if self._unshown is None:
            return
        progress, metrics = self._unshown
        self._unshown = None
        share = 100 * progress.env_steps / max(self._total, 1)
        words = [f"{progress.env_steps:,} steps ({min(share, 100):.0f} %)"]
        headlines = (RETURN, score_headline(self._score), *HEADLINES)
        words += [
            f"{label} {metrics[name]:{form}}" for label, name, form in headlines if name in metrics
        ]
        self._line("  ".join(words))

    def _line(self, text: str) -> None:
        self._stream.write(text + "\n")
        self._stream.flush()


class JsonLines(Display):
    """One JSON object a line, at most one iteration a second, for programs."""

    def __init__(self, stream: TextIO, *, seconds: float = 1.0) -> None:
        self._stream = stream
        self._throttle = Throttle(seconds)
        self._unshown: dict[str, object] | None = None

    def open(self, title: str, *, total: int, score: str = MEAN_RETURN) -> None:
        """Say what begins."""
        self._line({"event": "begin", "title": title, "total_timesteps": total})

    def write(self, progress: Progress, metrics: Metrics) -> None:
        """Write the iteration if the last one is old enough."""
        self._unshown = {
            "event": "iteration",
            "iteration": progress.iteration,
            "env_steps": progress.env_steps,
            "episodes": progress.episodes,
            "metrics": dict(metrics),
        }
        if self._throttle.ready():
            self._show()

    def advance(self, stage: str, done: int, total: int) -> None:
        """Write how far a long stage is, if the last line is old enough."""
        self._show()
        if self._throttle.ready():
            self._line({"event": "progress", "stage": stage, "done": done, "total": total})

    def notice(self, text: str) -> None:
        """Write the happening."""
        self._line({"event": "notice", "text": text})

    def hint(self, progress: Progress, hint: Hint) -> None:
        """Write the hint."""
        self._line({"iteration": progress.iteration, **hint.as_row()})

    def close(self) -> None:
        """Write the last iteration if it was not shown."""
        self._show()

    def _show(self) -> None:
        if self._unshown is not None:
            self._line(self._unshown)
            self._unshown = None

    def _line(self, row: dict[str, object]) -> None:
        self._stream.write(json.dumps(row, allow_nan=False) + "\n")
        self._stream.flush()


def score_headline(score: str) -> tuple[str, str, str]:
    """Return label, metric and format of the figure a task is judged by."""
    if score == MEAN_RETURN:
        return ("evaluation", score, ",.1f")
    return (score.removeprefix("eval/").replace("_", " "), score, ".4g")


RETURN = ("return", "rollout/ep_rew_mean", ".1f")
HEADLINES = (
    ("length", "rollout/ep_len_mean", ".0f"),
    ("steps/s", "time/session_fps", ",.0f"),
    ("kl", "train/approx_kl", ".4f"),
    ("value loss", "train/value_loss", ".3g"),
)

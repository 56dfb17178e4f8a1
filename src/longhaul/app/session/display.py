"""What is shown while a run trains: a live panel, plain lines, or JSON for programs."""

from __future__ import annotations

import json
import os
import sys
import time
from abc import abstractmethod
from collections.abc import Callable, Mapping
from contextlib import suppress
from html import escape
from typing import Any, TextIO

from longhaul.app.build.env_output import notify_prints, own_streams
from longhaul.core.control import Progress, RunLength
from longhaul.core.errors import without_controls
from longhaul.core.hint import Hint
from longhaul.core.metrics import Metrics
from longhaul.core.parts import Recorded, RunListener

MEAN_RETURN = "eval/mean_reward"


class Display(RunListener):
    """Shows a run; this one shows nothing."""

    def open(self, title: str, *, length: RunLength, score: str = MEAN_RETURN) -> None:
        """Open the display; `score` is the task's main metric."""

    def iteration(self, recorded: Recorded) -> None:
        """Show one iteration."""
        self.write(recorded.progress, recorded.values)

    def write(self, progress: Progress, metrics: Metrics) -> None:
        """Show one iteration's metrics and timings."""

    def stage(self, name: str) -> None:
        """Show the current stage."""

    def advance(self, stage: str, done: int, total: int) -> None:
        """Show how many episodes of a long stage are done."""

    def notice(self, text: str) -> None:
        """Show one message."""

    def hint(self, progress: Progress, hint: Hint) -> None:
        """Show a hint."""

    def close(self) -> None:
        """Leave the last state on the screen."""


def choose_display(*, as_json: bool, quiet: bool) -> Display:
    """Return the display that fits the output stream."""
    if quiet:
        return Display()
    display: Display
    streams = own_streams()
    if as_json:
        display = Unfailing(JsonLines(streams.out), streams.out)
    elif (shell := notebook_shell()) is not None:
        display = Unfailing(NotebookBar(streams.err, shell), streams.err)
    elif streams.err.isatty():
        from longhaul.app.session.live import LivePanel

        display = Unfailing(LivePanel(), streams.err)
    else:
        display = Unfailing(PlainLines(streams.err), streams.err)
    notify_prints(display.notice)
    return display


def guarded(name: str) -> Callable[..., None]:
    """Return a method that calls the shown display's method of this name."""

    def call(self: Unfailing, *args: Any, **kwargs: Any) -> None:
        self.call(name, *args, **kwargs)

    return call


class Unfailing(Display):
    """A display that shows nothing more once its output fails, while training continues.

    The reader of a pipe may be gone, a disk may be full, a terminal may be closed.
    """

    def __init__(self, display: Display, stream: TextIO) -> None:
        self.shown = display
        self._stream = stream

    open = guarded("open")
    write = guarded("write")
    stage = guarded("stage")
    advance = guarded("advance")
    hint = guarded("hint")
    close = guarded("close")

    def notice(self, text: str) -> None:
        """Show one message."""
        self.call("notice", without_controls(text))

    def call(self, name: str, *args: Any, **kwargs: Any) -> None:
        """Call a method of the shown display, and replace that if its output fails."""
        try:
            getattr(self.shown, name)(*args, **kwargs)
        except (OSError, ValueError) as error:
            if isinstance(error, ValueError) and not self._stream.closed:
                raise
            self.shown = Display()
            # Buffered output would fail again when the process ends.
            with suppress(OSError, ValueError):
                nowhere = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nowhere, self._stream.fileno())
                os.close(nowhere)


class Throttle:
    """Is ready at most once in so many seconds."""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._clock = clock
        self._last = -float("inf")

    def ready(self) -> bool:
        """Whether enough time has passed since it was last ready."""
        now = self._clock()
        if now - self._last < self._seconds:
            return False
        self._last = now
        return True


class Lines(Display):
    """Lines on a stream, with at most one iteration in so many seconds."""

    def __init__(self, stream: TextIO, *, seconds: float) -> None:
        self._stream = stream
        self._throttle = Throttle(seconds)
        self._unshown: tuple[Progress, Metrics] | None = None

    def write(self, progress: Progress, metrics: Metrics) -> None:
        """Write the iteration if the last line is old enough."""
        self._unshown = (progress, metrics)
        if self._throttle.ready():
            self._show()

    def advance(self, stage: str, done: int, total: int) -> None:
        """Write the progress of a long stage if the last line is old enough."""
        self._show()
        if self._throttle.ready():
            self._line(self._stage_line(stage, done, total))

    def close(self) -> None:
        """Write the last iteration if it was not shown."""
        self._show()

    def _show(self) -> None:
        if self._unshown is not None:
            unshown, self._unshown = self._unshown, None
            self._line(self._iteration_line(*unshown))

    def _line(self, text: str) -> None:
        self._stream.write(text + "\n")
        self._stream.flush()

    @abstractmethod
    def _iteration_line(self, progress: Progress, metrics: Metrics) -> str: ...

    @abstractmethod
    def _stage_line(self, stage: str, done: int, total: int) -> str: ...


class PlainLines(Lines):
    """One line every few seconds, for logs and pipes."""

    def __init__(self, stream: TextIO, *, seconds: float = 5.0) -> None:
        super().__init__(stream, seconds=seconds)
        self._length = RunLength()
        self._score = MEAN_RETURN

    def open(self, title: str, *, length: RunLength, score: str = MEAN_RETURN) -> None:
        """Write the title."""
        self._length = length
        self._score = score
        self._line(title)

    def notice(self, text: str) -> None:
        """Write the message."""
        self._line(text)

    def hint(self, progress: Progress, hint: Hint) -> None:
        """Write the hint."""
        self._line(f"hint ({hint.rule}, iteration {progress.iteration:,}): {hint.text}")

    def _iteration_line(self, progress: Progress, metrics: Metrics) -> str:
        share = self._length.share(progress) or 0.0
        words = [f"{progress.env_steps:,} steps ({100 * share:.0f} %)"]
        headlines = (RETURN, score_headline(self._score), *HEADLINES)
        words += [
            f"{label} {metrics[name]:{form}}" for label, name, form in headlines if name in metrics
        ]
        return "  ".join(words)

    def _stage_line(self, stage: str, done: int, total: int) -> str:
        return f"{stage}: {done} of {total} episodes"


def notebook_shell() -> Any | None:
    """Return IPython's shell if this process is the kernel of a notebook, else None."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    return shell if hasattr(shell, "kernel") else None


class NotebookBar(PlainLines):
    """A bar over one line, redrawn in the cell's output; messages are printed beside it."""

    def __init__(self, stream: TextIO, shell: Any) -> None:
        super().__init__(stream, seconds=0.5)
        self._publish = shell.display_pub.publish
        self._place = {"display_id": f"longhaul-{os.urandom(8).hex()}"}
        self._is_drawn = False
        self._last: tuple[str, int, int] | None = None

    def close(self) -> None:
        """Leave the last iteration in the cell."""
        self._show()
        if self._last is not None:
            self._draw(*self._last)

    def _show(self) -> None:
        if self._unshown is not None:
            (progress, metrics), self._unshown = self._unshown, None
            line, length = self._iteration_line(progress, metrics), self._length
            self._last = (line, length.done(progress), length.total)
            self._draw(*self._last)

    def advance(self, stage: str, done: int, total: int) -> None:
        """Draw the progress of a long stage if the last drawing is old enough."""
        self._show()
        if self._throttle.ready():
            self._draw(self._stage_line(stage, done, total), done, total)

    def _draw(self, text: str, done: int, total: int) -> None:
        bar = f'<progress value="{done}" max="{max(total, 1)}" style="width:100%"></progress>'
        self._publish(
            {"text/plain": text, "text/html": f"{bar}<br>{escape(text)}"},
            transient=self._place,
            update=self._is_drawn,
        )
        self._is_drawn = True


class JsonLines(Lines):
    """One JSON object a line, at most one iteration a second, for programs."""

    def __init__(self, stream: TextIO, *, seconds: float = 1.0) -> None:
        super().__init__(stream, seconds=seconds)

    def open(self, title: str, *, length: RunLength, score: str = MEAN_RETURN) -> None:
        """Write that the run begins."""
        self._line(as_line({"event": "begin", "title": title, length.key: length.total}))

    def notice(self, text: str) -> None:
        """Write the message."""
        self._line(as_line({"event": "notice", "text": text}))

    def hint(self, progress: Progress, hint: Hint) -> None:
        """Write the hint."""
        self._line(as_line({"iteration": progress.iteration, **hint.as_row()}))

    def _iteration_line(self, progress: Progress, metrics: Metrics) -> str:
        return as_line(
            {
                "event": "iteration",
                "iteration": progress.iteration,
                "env_steps": progress.env_steps,
                "episodes": progress.episodes,
                "metrics": dict(metrics),
            }
        )

    def _stage_line(self, stage: str, done: int, total: int) -> str:
        return as_line({"event": "progress", "stage": stage, "done": done, "total": total})


def as_line(row: Mapping[str, object]) -> str:
    """Return a row as JSON."""
    return json.dumps(row, allow_nan=False)


def score_headline(score: str) -> tuple[str, str, str]:
    """Return label, metric and format of the task's main metric."""
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

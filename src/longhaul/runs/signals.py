"""Signals as requests that the loop checks after each iteration."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

_Old = Callable[[int, FrameType | None], object] | int | signal.Handlers | None


class Stopped(KeyboardInterrupt):
    """A signal requested a stop during work that can be repeated."""


class SignalRequests:
    """Turns SIGINT and SIGTERM into a request to stop and SIGUSR1 into one to save.

    The loop checks the request after each iteration. Work without state to save is interrupted
    inside `ending_at_once`. A second SIGINT always stops at once. Handlers are installed on
    entering, only in the main thread, as Python requires; the old ones are restored on leaving.
    """

    def __init__(self, on_checkpoint: Callable[[], None] = lambda: None) -> None:
        self.on_checkpoint = on_checkpoint
        self._stop: signal.Signals | None = None
        self._interrupts = 0
        self._under_way = ""  # the work inside `ending_at_once`
        self._old: dict[signal.Signals, _Old] = {}

    @contextmanager
    def ending_at_once(self, what: str) -> Iterator[None]:
        """Raise `Stopped` inside when a signal requests a stop or has done so before."""
        self._under_way = what
        try:
            self.check()
            yield
        finally:
            self._under_way = ""

    def check(self) -> None:
        """Raise `Stopped` if a stop was requested inside `ending_at_once`.

        For loops around foreign code, which may have caught the exception of the handler.
        """
        if self._stop is not None and self._under_way:
            raise Stopped(f"{self.stop_reason} during {self._under_way}")

    @property
    def stop_reason(self) -> str | None:
        """Why the run must stop; None while it continues."""
        return None if self._stop is None else f"stopped by {self._stop.name}"

    @property
    def exit_code(self) -> int:
        """128 plus the number of the signal, as in shells; 0 if there was none."""
        return 0 if self._stop is None else 128 + self._stop.value

    def __enter__(self) -> SignalRequests:
        if threading.current_thread() is threading.main_thread():
            for number, handler in (
                (signal.SIGINT, self._request_stop),
                (signal.SIGTERM, self._request_stop),
                (signal.SIGUSR1, self._request_checkpoint),
            ):
                self._old[number] = signal.signal(number, handler)
        return self

    def __exit__(self, *_: object) -> None:
        self._restore()

    def _restore(self) -> None:
        while self._old:
            number, handler = self._old.popitem()
            # None: the old handler was not set from Python and cannot be restored.
            signal.signal(number, signal.SIG_DFL if handler is None else handler)

    def _request_stop(self, number: int, frame: FrameType | None) -> None:
        self._stop = self._stop or signal.Signals(number)
        if number == signal.SIGINT:
            self._interrupts += 1
            if self._interrupts > 1:
                self._restore()
                raise KeyboardInterrupt
        self.check()

    def _request_checkpoint(self, number: int, frame: FrameType | None) -> None:
        self.on_checkpoint()

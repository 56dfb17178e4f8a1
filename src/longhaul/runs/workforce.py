"""All worker processes of a run, and since when each has given no sign of life."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from longhaul.core.workers import Workers
from longhaul.runs.clocks import Clocks
from longhaul.runs.heartbeat import WorkerBeat


class Workforce:
    """Knows every group of workers that is at work; several threads may ask it."""

    def __init__(self, clocks: Clocks) -> None:
        self._clocks = clocks
        self._lock = threading.Lock()
        self._groups: list[Workers] = []
        self._signs: dict[int, tuple[int, float]] = {}  # by process: signs of life, and since when

    def add(self, group: Workers) -> None:
        """Take in workers that begin."""
        with self._lock:
            self._groups.append(group)

    def remove(self, group: Workers) -> None:
        """Forget workers that are about to end."""
        with self._lock:
            self._groups = [one for one in self._groups if one is not group]

    def groups(self) -> Sequence[Workers]:
        """Return the groups that are at work."""
        with self._lock:
            return tuple(self._groups)

    def beats(self) -> list[WorkerBeat]:
        """Return what every worker does, and for how long it has shown no progress."""
        now = self._clocks.monotonic()
        beats: list[WorkerBeat] = []
        signs: dict[int, tuple[int, float]] = {}
        for group in self.groups():
            for state in group.states():
                known = self._signs.get(state.pid)
                is_same = known is not None and known[0] == state.signs
                since = known[1] if known is not None and is_same else now
                signs[state.pid] = (state.signs, since)
                beats.append(
                    WorkerBeat(state.worker, state.pid, state.stage, state.env, now - since)
                )
        self._signs = signs
        return beats

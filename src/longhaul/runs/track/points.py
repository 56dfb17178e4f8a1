"""A run's iterations as points, live and from its logs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from longhaul.core.metrics import Alias, alias_curves
from longhaul.core.parts import Recorded
from longhaul.core.progress import Progress
from longhaul.core.settings import SettingValue
from longhaul.runs.directory import RunDirectory
from longhaul.runs.jsonl import Row
from longhaul.runs.reader import read_events, read_metrics
from longhaul.runs.track.tracker import Point

WALL = "time/wall"
"""The timing that says when an iteration ended."""
_COUNTERS = ("iteration", "episodes")


@dataclass(frozen=True, slots=True)
class Points:
    """Makes points of what is measured, with the settings and the old names beside it."""

    directory: RunDirectory
    opening: Mapping[str, SettingValue]
    """The settings the run began with."""
    aliases: tuple[Alias, ...] = ()

    def scalars(self, recorded: Recorded) -> Mapping[str, float]:
        """Return the numbers of an iteration."""
        progress = recorded.progress
        counters = {"iteration": progress.iteration, "episodes": progress.episodes}
        measured = {**recorded.metrics, **recorded.timings, **counters}
        return self._named(measured, recorded.settings.values())

    def history(self, known_steps: int, until: Progress) -> Iterator[Point]:
        """Yield the iterations of the logs that a tracker with so many steps lacks."""
        rows = read_metrics(self.directory).rows
        settings = settings_by_iteration(rows, read_events(self.directory).rows, self.opening)
        for row, present in zip(rows, settings, strict=True):
            steps = row.get("env_steps")
            if isinstance(steps, int) and known_steps < steps <= until.env_steps:
                yield Point(steps, float(row.get(WALL, 0.0)), self._named(row, present))

    def _named(
        self, measured: Mapping[str, Any], settings: Mapping[str, SettingValue]
    ) -> dict[str, float]:
        named = {
            name: float(value)
            for name, value in measured.items()
            if isinstance(value, (int, float)) and ("/" in name or name in _COUNTERS)
        }
        for name, value in settings.items():
            if isinstance(value, (int, float)):
                named[f"setting/{name}"] = float(value)
        return named | alias_curves(self.aliases, {**settings, **measured})


def settings_by_iteration(
    rows: Iterable[Row], events: Sequence[Row], opening: Mapping[str, SettingValue]
) -> list[dict[str, Any]]:
    """Return the settings each row ran with; what is decided counts from the next one on."""
    moves: dict[Any, dict[str, Any]] = {}
    for event in events:
        for move in event.get("moves", ()):
            moves.setdefault(event.get("iteration"), {})[move["setting"]] = move["new"]
    present: dict[str, Any] = dict(opening)
    found = []
    for row in rows:
        found.append(present)
        if row.get("iteration") in moves:
            present = {**present, **moves[row["iteration"]]}
    return found

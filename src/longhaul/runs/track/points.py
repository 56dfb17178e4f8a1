"""A run's iterations as points, live and from its logs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from longhaul.core.control import Progress
from longhaul.core.metrics import Alias, alias_curves
from longhaul.core.parts import Recorded
from longhaul.core.settings import SettingValue
from longhaul.runs.directory import RunDirectory
from longhaul.runs.logs.jsonl import iterate_rows
from longhaul.runs.reader import merged_rows, moves_by_iteration
from longhaul.runs.track.tracker import Point

WALL = "time/wall"
"""The timing that says when an iteration ended."""
_COUNTERS = ("iteration", "episodes")


@dataclass(frozen=True, slots=True)
class Points:
    """Makes points of metrics, settings and old metric names."""

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
        """Yield the iterations of the logs after `known_steps`."""
        moves = moves_by_iteration(iterate_rows(self.directory.events))
        present: dict[str, Any] = dict(self.opening)
        for row in merged_rows(self.directory):
            steps = row.get("env_steps")
            if isinstance(steps, int) and known_steps < steps <= until.env_steps:
                yield Point(steps, float(row.get(WALL, 0.0)), self._named(row, present))
            # A decision applies from the next iteration on.
            present = {**present, **moves.get(row["iteration"], {})}

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

"""The result table of all speed measurements, as text and as JSON."""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from longhaul.app.build.text import columns

Ratio = tuple[float, ...]
"""One speed over another, repeat by repeat."""


@dataclass(frozen=True, slots=True)
class Speeds:
    """The steps per second of one system, once per repeat."""

    name: str
    per_second: tuple[float, ...]
    per_cpu_second: tuple[float, ...] = ()
    """Steps per second of CPU time; empty if that was not measured."""

    @property
    def median(self) -> float:
        """The median of the steps per second."""
        return statistics.median(self.per_second)


def ratio(upper: Sequence[float], lower: Sequence[float]) -> Ratio:
    """Return one system's speeds over another's, repeat by repeat."""
    return tuple(a / b for a, b in zip(upper, lower, strict=True))


@dataclass(frozen=True, slots=True)
class Section:
    """An additional table below the speeds; not part of the JSON."""

    header: tuple[str, ...]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True, slots=True)
class SpeedTable:
    """Speeds of several systems, measured in turn on one machine."""

    task: str
    conditions: str
    speeds: tuple[Speeds, ...] = ()
    ratios: Mapping[str, Ratio] = field(default_factory=dict)
    sections: tuple[Section, ...] = ()
    notes: tuple[str, ...] = ()
    """Lines below the tables."""
    values: Mapping[str, Any] = field(default_factory=dict)
    """Additional values of the JSON."""

    def __getitem__(self, name: str) -> Speeds:
        """Return the speeds of a system by its name."""
        return next(one for one in self.speeds if one.name == name)

    def as_text(self) -> str:
        """Return the tables and notes."""
        blocks = [self.conditions]
        if self.speeds:
            blocks.append(self._speed_columns())
        if self.ratios:
            rows = [
                (name, f"{statistics.median(found):.2f}", " ".join(f"{one:.2f}" for one in found))
                for name, found in self.ratios.items()
            ]
            blocks.append(columns(rows, header=("ratio", "median", "each repeat")))
        blocks += [columns(one.rows, header=one.header) for one in self.sections if one.rows]
        return "\n\n".join([*blocks, *self.notes])

    def _speed_columns(self) -> str:
        by_cpu = any(one.per_cpu_second for one in self.speeds)
        rows = []
        for one in self.speeds:
            cpu = f"{statistics.median(one.per_cpu_second):,.0f}" if one.per_cpu_second else ""
            each = " ".join(f"{speed:,.0f}" for speed in one.per_second)
            rows.append((one.name, f"{one.median:,.0f}", *([cpu] if by_cpu else []), each))
        return columns(
            rows,
            header=(
                self.task,
                "steps/s",
                *(["steps/CPU-s"] if by_cpu else []),
                "steps/s, each repeat",
            ),
        )

    def as_values(self) -> dict[str, Any]:
        """Return the measurements as plain values."""
        by_cpu = {one.name: one.per_cpu_second for one in self.speeds if one.per_cpu_second}
        return {
            "task": self.task,
            "conditions": self.conditions,
            "steps_per_second": {one.name: one.per_second for one in self.speeds},
            **({"steps_per_cpu_second": by_cpu} if by_cpu else {}),
            "ratios": dict(self.ratios),
            **self.values,
        }

    def as_json(self) -> str:
        """Return the measurements for programs."""
        return json.dumps(self.as_values())

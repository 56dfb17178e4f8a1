"""What was measured of training on the game, as tables and for programs."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from longhaul.app.bench.mario import Speed
from longhaul.app.text import columns
from longhaul.nets.config import ImagePrecision

EQUAL_PRECISION: ImagePrecision = "float32"
"""What every peer computes with."""


@dataclass(frozen=True, slots=True)
class Trained:
    """One system's speeds, once per repeat."""

    name: str
    each: tuple[Speed, ...]
    shares: dict[str, float] = field(default_factory=dict)
    """Where the time of the last repeat went; only of ours."""
    has_our_consoles: bool = True
    precision: str = EQUAL_PRECISION
    """What image networks computed with."""

    @property
    def wall(self) -> tuple[float, ...]:
        """Agent steps a second."""
        return tuple(speed.wall for speed in self.each)

    @property
    def per_core(self) -> tuple[float, ...]:
        """Agent steps a second of processor time, of all its processes."""
        return tuple(speed.per_core for speed in self.each if speed.per_core is not None)

    def ratio(self, other: Trained) -> dict[str, tuple[float, ...]]:
        """Return this one's speeds over another's, repeat by repeat."""
        return {
            "steps/s": _divided(self.wall, other.wall),
            "steps/CPU-s": _divided(self.per_core, other.per_core),
        }


def _divided(upper: tuple[float, ...], lower: tuple[float, ...]) -> tuple[float, ...]:
    return tuple(a / b for a, b in zip(upper, lower, strict=True))


def fastest(rows: tuple[Trained, ...]) -> Trained:
    """Return the row with the highest middle speed."""
    return max(rows, key=lambda row: statistics.median(row.wall))


@dataclass(frozen=True, slots=True)
class PresetSpeeds:
    """All systems on one preset, measured in turn."""

    preset: str
    conditions: str
    ours: tuple[Trained, ...]
    peers: tuple[Trained, ...]
    left_out: tuple[str, ...] = ()

    def ratios(self) -> Iterator[tuple[str, dict[str, tuple[float, ...]]]]:
        """Yield our best of each precision over each peer, and overlap on over off."""
        for precision in dict.fromkeys(row.precision for row in self.ours):
            best = fastest(tuple(row for row in self.ours if row.precision == precision))
            for peer in self.peers:
                yield f"{best.name} / {peer.name}", best.ratio(peer)
        for off, on in zip(self.ours[::2], self.ours[1::2], strict=True):
            yield f"{on.name} / off", on.ratio(off)

    def as_text(self) -> str:
        """Return tables of speeds, time shares and ratios."""
        speeds = columns(
            [
                (
                    row.name,
                    f"{statistics.median(row.wall):,.0f}",
                    f"{statistics.median(row.per_core):,.0f}",
                    " ".join(f"{speed:,.0f}" for speed in row.wall),
                )
                for row in (*self.ours, *self.peers)
            ],
            header=(self.preset, "steps/s", "steps/CPU-s", "steps/s, each repeat"),
        )
        stages = list(dict.fromkeys(name for row in self.ours for name in row.shares))
        split = columns(
            [
                (row.name, *(f"{100 * row.shares.get(stage, 0.0):.0f} %" for stage in stages))
                for row in self.ours
            ],
            header=("time", *stages),
        )
        ratios = columns(
            [
                (name, what, f"{statistics.median(found):.2f}", _listed(found))
                for name, both in self.ratios()
                for what, found in both.items()
            ],
            header=("ratio", "of", "median", "each repeat"),
        )
        return "\n\n".join([self.conditions, speeds, split, ratios, *self.left_out])

    def as_values(self) -> dict[str, Any]:
        """Return the measurements as plain values."""
        rows = (*self.ours, *self.peers)
        return {
            "conditions": self.conditions,
            "steps_per_second": {row.name: row.wall for row in rows},
            "steps_per_cpu_second": {row.name: row.per_core for row in rows},
            "shares": {row.name: row.shares for row in self.ours},
            "ratios": dict(self.ratios()),
            "left_out": self.left_out,
        }


def _listed(found: tuple[float, ...]) -> str:
    return " ".join(f"{one:.2f}" for one in found)


@dataclass(frozen=True, slots=True)
class Training:
    """What was measured in one run."""

    task: str
    presets: tuple[PresetSpeeds, ...]

    def as_text(self) -> str:
        """Return the tables of each preset."""
        return "\n\n".join(speeds.as_text() for speeds in self.presets)

    def as_json(self) -> str:
        """Return the measurements for programs."""
        told = {speeds.preset: speeds.as_values() for speeds in self.presets}
        return json.dumps({"task": self.task, "presets": told})

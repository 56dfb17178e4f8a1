"""Named measured numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

Metrics = Mapping[str, float]
"""Metric values by name; one that cannot be computed is absent, never NaN."""


@dataclass(frozen=True, slots=True)
class Metric:
    """The declaration of one metric, for readers and for the reference page."""

    name: str
    meaning: str
    unit: str = ""

    @property
    def group(self) -> str:
        """The part of the name before the slash."""
        return self.name.partition("/")[0]

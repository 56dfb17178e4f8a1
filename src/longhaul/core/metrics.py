"""Named measured numbers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

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

    @property
    def described(self) -> str:
        """The meaning, with the unit behind it if there is one."""
        return f"{self.meaning} [{self.unit}]" if self.unit else self.meaning


PLACE = "<value>"


@dataclass(frozen=True, slots=True)
class Alias:
    """A name from before longhaul, and where the same is told now."""

    old: str
    """A `<value>` in it stands for the value of the setting `by`."""
    new: str
    """A metric, or a setting, whose name has no slash; for a field also another place, in words."""
    kind: Literal["curve", "field"] = "curve"
    """Curves are drawn under their old names as well; fields are only told of in the reference."""
    factor: float = 1.0
    """What the present value is multiplied with to be the old one."""
    by: str = ""
    note: str = ""
    """How the two differ, if they do."""


def alias_curves(aliases: Iterable[Alias], values: Mapping[str, Any]) -> dict[str, float]:
    """Return the curves under their old names, from metrics and settings by their present ones."""
    curves = {}
    for alias in aliases:
        value = values.get(alias.new)
        part = values.get(alias.by, "") if alias.by else ""
        if alias.kind != "curve" or (alias.by and not part):
            continue
        if isinstance(value, (int, float)):
            fit = re.sub(r"[^A-Za-z0-9_.-]", "_", str(part))
            curves[alias.old.replace(PLACE, fit)] = float(value) * alias.factor
    return curves

"""A cap on how far a controller may climb, set by another controller."""

from __future__ import annotations

from dataclasses import dataclass

from longhaul.core.errors import ConfigError
from longhaul.core.settings import Setting, Settings


@dataclass(frozen=True, slots=True)
class Limit:
    """The highest index allowed, read from an integer setting such as a gate's stage."""

    setting: Setting[int]
    """The setting that holds the cap."""
    allowance: tuple[int, ...] = ()
    """The highest index for each value of the setting, from 0; empty: the value itself."""

    def __post_init__(self) -> None:
        if any(index < 0 for index in self.allowance):
            raise ConfigError(f"the allowance {self.allowance} has an index below 0")

    def highest(self, settings: Settings, *, top: int) -> int:
        """Return the highest index allowed, at least 0 and at most `top`."""
        value = max(0, settings[self.setting])
        if self.allowance:
            value = self.allowance[min(value, len(self.allowance) - 1)]
        return min(value, top)

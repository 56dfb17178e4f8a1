"""How a run notices that it is stuck or held up."""

from __future__ import annotations

from dataclasses import dataclass

from longhaul.core.errors import ConfigError


@dataclass(frozen=True, slots=True)
class WatchConfig:
    """Settings of the `[watch]` table: heartbeat, stalls and slow steps."""

    enabled: bool = True
    """Watch from a thread of its own; stacks of a run that is stuck go into `crash/`."""
    heartbeat_seconds: float = 2.0
    """Time between two versions of heartbeat.json; 0 writes one at the beginning and the end."""
    least_seconds: float = 30.0
    """A run counts as stuck after `factor` times the longest silence so far, but never before this
    time."""
    first_seconds: float = 600.0
    """The same for a stage that was not gone through yet, which may compile and fill caches."""
    factor: float = 10.0
    """How many times the longest silence so far is too long."""
    slow_step_seconds: float = 1.0
    """A step of the environments is slow after `slow_factor` times the usual time, but never
    before this time."""
    slow_factor: float = 20.0
    """How many times the usual time of a step is slow."""
    slow_steps: int = 5
    """Slow steps within `slow_window_seconds` after which their stacks are written down."""
    slow_window_seconds: float = 120.0
    """They are written at most once within this time."""

    def __post_init__(self) -> None:
        for name, value, low in (
            ("heartbeat_seconds", self.heartbeat_seconds, 0),
            ("least_seconds", self.least_seconds, 0),
            ("first_seconds", self.first_seconds, 0),
            ("factor", self.factor, 1),
            ("slow_step_seconds", self.slow_step_seconds, 0),
            ("slow_factor", self.slow_factor, 1),
            ("slow_steps", self.slow_steps, 1),
            ("slow_window_seconds", self.slow_window_seconds, 0),
        ):
            if not value >= low:
                raise ConfigError(f"watch.{name} = {value!r} must be at least {low}")

"""Detecting stalls and slow steps from signs of progress."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from longhaul.runs.monitor.resources import WatchConfig

BETWEEN = "record"
"""The stage between the others: logs, schedules, hints."""
SETTLED = 20  # steps before the usual time is used
FORGETTING = 0.9  # of the usual time of a step, per look


class ProgressSignal:
    """Signs of progress: written by the loop, read by the watchdog, without any lock.

    Every attribute is written by one thread only, and a reader that misses
    one sign sees it at its next look.
    """

    __slots__ = ("_finished", "in_step", "stage", "stages", "steps")

    def __init__(self) -> None:
        self.stage = "starting"
        self.stages = 0
        """Stages entered or left, and signs of progress inside long ones."""
        self.steps = 0
        """Steps of the environments that are over."""
        self.in_step = False
        self._finished: set[str] = set()

    def enter(self, stage: str) -> None:
        """Record that a stage begins."""
        self.stage = stage
        self.stages += 1

    def leave(self, stage: str) -> None:
        """Record that a stage is over."""
        self._finished.add(stage)
        self.stage = BETWEEN
        self.stages += 1

    def advance(self) -> None:
        """Record progress inside a stage."""
        self.stages += 1

    def begin_step(self) -> None:
        """Record that the environments are asked for a step."""
        self.in_step = True

    def end_step(self) -> None:
        """Record that they have answered."""
        self.in_step = False
        self.steps += 1

    def read(self) -> Sign:
        """Return the present signs."""
        stage = self.stage
        is_known = stage == BETWEEN or stage in self._finished
        return Sign(stage, self.stages, self.steps, self.in_step, is_known)


@dataclass(frozen=True, slots=True)
class Sign:
    """The signs of progress at one moment."""

    stage: str
    stages: int
    steps: int
    in_step: bool
    is_known: bool = True
    """Whether the stage was completed before."""


@dataclass(frozen=True, slots=True)
class Stall:
    """A run that shows no progress."""

    stage: str
    seconds: float
    limit: float


@dataclass(frozen=True, slots=True)
class Recovery:
    """A run that continued after a stall."""

    stage: str
    seconds: float


class StallDetector:
    """Learns how long each stage is usually silent, and reports a silence that is too long.

    The caller passes the time between two looks, so a process that was stopped for an hour
    reports no stall.
    """

    def __init__(self, config: WatchConfig) -> None:
        self._config = config
        self._seen: Sign | None = None
        self._silent = 0.0
        self._reported_at = 0.0  # silence at the last report; 0 if there was none
        self._longest: dict[str, float] = {}  # silence that ended by itself, by stage

    def limit(self, sign: Sign) -> float:
        """Return the silence after which the present stage counts as stuck."""
        learned = self._config.factor * self._longest.get(sign.stage, 0.0)
        least = self._config.least_seconds
        return max(least, learned, 0.0 if sign.is_known else self._config.first_seconds)

    def look(self, sign: Sign, elapsed: float) -> Stall | Recovery | None:
        """Process the present signs, `elapsed` seconds after the last ones."""
        before, self._seen = self._seen, sign
        if before is None:
            return None
        if (sign.stages, sign.steps) == (before.stages, before.steps):
            self._silent += elapsed
            return self._judge(sign)
        silent, reported_at = self._silent + elapsed, self._reported_at
        self._silent = self._reported_at = 0.0
        if reported_at:
            return Recovery(before.stage, silent)
        self._longest[before.stage] = max(self._longest.get(before.stage, 0.0), silent)
        return None

    def _judge(self, sign: Sign) -> Stall | None:
        limit = self.limit(sign)
        # Reported again each time the silence has doubled: about ten times in a night.
        if self._silent < (2 * self._reported_at if self._reported_at else limit):
            return None
        self._reported_at = self._silent
        return Stall(sign.stage, self._silent, limit)


@dataclass(frozen=True, slots=True)
class SlowStep:
    """A step that takes many times longer than usual and has not ended."""

    seconds: float
    usual: float


class SlowStepDetector:
    """Learns how long a step usually takes, and reports each much longer one once."""

    def __init__(self, config: WatchConfig) -> None:
        self._config = config
        self._seen: Sign | None = None
        self._in_flight = 0.0
        self._reported = False
        self._steps = 0
        self._weight = self._spent = 0.0  # steps and seconds, old ones fading

    @property
    def usual(self) -> float:
        """The usual seconds of a step."""
        return self._spent / self._weight if self._weight else 0.0

    @property
    def limit(self) -> float:
        """The seconds after which a step is slow."""
        if self._steps < SETTLED:
            return float("inf")
        return max(self._config.slow_step_seconds, self._config.slow_factor * self.usual)

    def look(self, sign: Sign, elapsed: float) -> SlowStep | None:
        """Process the present signs, `elapsed` seconds after the last ones."""
        before, self._seen = self._seen, sign
        if before is None:
            return None
        if sign.steps == before.steps:
            is_waiting = sign.in_step and before.in_step
            self._in_flight = self._in_flight + elapsed if is_waiting else 0.0
            if not is_waiting or self._reported or self._in_flight < self.limit:
                return None
            self._reported = True
            return SlowStep(self._in_flight, self.usual)
        if not self._reported:
            self._learn(sign.steps - before.steps, self._in_flight + elapsed)
        self._in_flight, self._reported = 0.0, False
        return None

    def _learn(self, steps: int, seconds: float) -> None:
        self._steps += steps
        self._weight = FORGETTING * self._weight + steps
        self._spent = FORGETTING * self._spent + seconds


class Burst:
    """Detects `count` events within a window of time, at most once per window."""

    def __init__(self, count: int, seconds: float) -> None:
        self._count = count
        self._seconds = seconds
        self._times: deque[float] = deque(maxlen=count)
        self._not_before = -float("inf")

    def add(self, now: float) -> bool:
        """Add one event; return whether it completes a burst."""
        if now < self._not_before:
            return False
        self._times.append(now)
        if len(self._times) < self._count or now - self._times[0] > self._seconds:
            return False
        self._times.clear()
        self._not_before = now + self._seconds
        return True

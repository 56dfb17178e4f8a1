"""The rules of a run: chosen by its config, and consulted after every iteration."""

from __future__ import annotations

import dataclasses
import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from longhaul.core.config import convert
from longhaul.core.control import Progress
from longhaul.core.errors import ConfigError, suggestion
from longhaul.core.hint import HISTORY, OPENING, Facts, Hint, MetricHistory, Recent, Rule, matches
from longhaul.core.metrics import Metrics
from longhaul.core.state import State
from longhaul.hints.returns import EndingPays, EpisodesNeverEnd, EvaluationApart, ReturnsFlat
from longhaul.hints.speed import DeviceIdle, MemoryGrows, OneEnvSlow, ThroughputDropped
from longhaul.hints.steering import ExpertsCollapsed, GateStuck, QueueLow, ReplayUnderfilled
from longhaul.hints.updates import (
    EntropyAbnormal,
    GradientsTooLong,
    LossAbnormal,
    StillWarmingUp,
    UpdatesTooLarge,
    UpdatesTooSmall,
)

logger = logging.getLogger(__name__)
SESSION_SECONDS = "time/session_seconds"


@dataclass(slots=True)
class _Kept:
    """One metric's measurements, as long as any rule needs them."""

    window: int
    opening: list[float] = field(default_factory=list)
    iterations: deque[int] = field(default_factory=deque)
    values: deque[float] = field(default_factory=deque)
    history: list[tuple[int, float]] = field(default_factory=list)
    stride: int = 1  # measurements for each one of the history
    count: int = 0

    def add(self, iteration: int, value: float) -> None:
        if len(self.opening) < OPENING:
            self.opening.append(value)
        if self.count % self.stride == 0:
            self.history.append((iteration, value))
            if len(self.history) > HISTORY:
                del self.history[1::2]
                self.stride *= 2
        self.count += 1
        self.iterations.append(iteration)
        self.values.append(value)
        if len(self.values) > self.window:
            self.iterations.popleft()
            self.values.popleft()


@dataclass(slots=True)
class _Report:
    """When a rule last reported, and how often."""

    iteration: int
    times: int


class Advisor:
    """Keeps the metrics its rules read and asks each rule whether anything is wrong.

    Its hints are a function of the metrics since `clear` alone. Replaying a run's records gives the
    same hints.
    """

    def __init__(self, rules: Sequence[Rule], facts: Facts) -> None:
        refuse_twins(rules)
        self._rules = tuple(rules)
        self._facts = facts
        self._wanted: dict[str, int] = {}  # the window of every name seen so far, 0 if not read
        self.clear()

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The rules."""
        return self._rules

    def clear(self) -> None:
        """Forget all metrics and reports."""
        self._span = 0
        self._kept: dict[str, _Kept] = {}
        self._series: dict[str, MetricHistory] = {}  # what is kept, as rules see it
        self._reported: dict[str, _Report] = {}
        self._broken: set[str] = set()

    def take(self, progress: Progress, metrics: Metrics) -> tuple[Hint, ...]:
        """Add the metrics of one iteration; return the hints they give."""
        self._span += 1
        for name, value in metrics.items():
            window = self._wanted.get(name)
            if window is None:
                window = self._wanted[name] = self._window(name)
            if window:
                kept = self._kept.get(name)
                if kept is None:
                    kept = self._keep(name, _Kept(window))
                kept.add(progress.iteration, float(value))
        recent = Recent(progress, self._span, self._facts, self._series)
        hints = [self._ask(rule, recent) for rule in self._rules]
        return tuple(hint for hint in hints if hint is not None)

    def _keep(self, name: str, kept: _Kept) -> _Kept:
        self._kept[name] = kept
        self._series[name] = MetricHistory(kept.opening, kept.iterations, kept.values, kept.history)
        return kept

    def _window(self, name: str) -> int:
        windows = [
            rule.window
            for rule in self._rules
            if any(matches(name, pattern) for pattern in rule.reads)
        ]
        return max(windows, default=0)

    def _ask(self, rule: Rule, recent: Recent) -> Hint | None:
        if rule.name in self._broken:
            return None
        last = self._reported.get(rule.name)
        iteration = recent.progress.iteration
        if last is not None:
            # A lasting problem is reported after 200, 600, 1400 ... iterations, not every 200.
            rest = rule.cooldown * 2 ** min(last.times - 1, 30)
            if iteration - last.iteration < rest:
                return None
        try:
            finding = rule.judge(recent)
        except Exception:
            # A rule may come from a plugin, and a failed rule must not end a run.
            logger.exception("the hint rule %s failed and is left out", rule.name)
            self._broken.add(rule.name)
            return None
        if finding is None:
            return None
        times = 1 if last is None else last.times + 1
        self._reported[rule.name] = _Report(iteration, times)
        return Hint(rule.name, finding, times)

    def state_dict(self) -> State:
        """Return the metrics kept and the reports made, as far as they still matter."""
        return {
            "span": self._span,
            "metrics": {
                name: {
                    "opening": list(kept.opening),
                    "iterations": list(kept.iterations),
                    "values": list(kept.values),
                    "history": [[number, value] for number, value in kept.history],
                    "stride": kept.stride,
                    "count": kept.count,
                }
                for name, kept in self._kept.items()
            },
            "reported": {
                name: [last.iteration, last.times] for name, last in self._reported.items()
            },
        }

    def load_state_dict(self, state: State) -> None:
        """Continue from a saved state; metrics that no rule reads any more are dropped."""
        self.clear()
        self._span = int(state["span"])
        for name, saved in state["metrics"].items():
            window = self._wanted.setdefault(name, self._window(name))
            if not window:
                continue
            restored = _Kept(
                window,
                [float(value) for value in saved["opening"]],
                deque((int(number) for number in saved["iterations"]), window),
                deque((float(value) for value in saved["values"]), window),
                [(int(number), float(value)) for number, value in saved["history"]],
                int(saved["stride"]),
                int(saved["count"]),
            )
            self._keep(name, restored)
        known = {rule.name for rule in self._rules}
        self._reported = {
            name: _Report(int(iteration), int(times))
            for name, (iteration, times) in state["reported"].items()
            if name in known
        }


class Hints:
    """All rules of a run: those that depend on a clock are kept apart from those that do not.

    The former restart with every process, because a speed means nothing on another machine. The
    latter are saved with the run: a resumed run gives the same hints as an uninterrupted one.
    """

    def __init__(self, rules: Sequence[Rule], facts: Facts) -> None:
        refuse_twins(rules)
        self._steady = Advisor([rule for rule in rules if not rule.timed], facts)
        self._timed = Advisor([rule for rule in rules if rule.timed], facts)
        self._session_seconds = 0.0

    @property
    def rules(self) -> tuple[Rule, ...]:
        """Every rule."""
        return (*self._steady.rules, *self._timed.rules)

    def take(self, progress: Progress, metrics: Metrics) -> tuple[Hint, ...]:
        """Return the hints of the rules without a clock."""
        return self._steady.take(progress, metrics)

    def take_timed(self, progress: Progress, metrics: Metrics) -> tuple[Hint, ...]:
        """Return the hints of the rules that also read timings."""
        seconds = metrics.get(SESSION_SECONDS, self._session_seconds)
        if seconds < self._session_seconds:
            self._timed.clear()  # another process goes on with the run from here
        self._session_seconds = seconds
        return self._timed.take(progress, metrics)

    def state_dict(self) -> State:
        """Return the state of the rules without a clock."""
        return self._steady.state_dict()

    def load_state_dict(self, state: State) -> None:
        """Continue the rules without a clock from a saved state."""
        self._steady.load_state_dict(state)


def refuse_twins(rules: Iterable[Rule]) -> None:
    """Raise if two rules share a name."""
    seen: set[str] = set()
    for rule in rules:
        if rule.name in seen:
            raise ConfigError(f"two hint rules are called {rule.name!r}; rename one")
        seen.add(rule.name)


def replay(
    hints: Hints, rows: Iterable[Mapping[str, Any]], is_timing: Callable[[str], bool]
) -> list[tuple[Progress, Hint]]:
    """Return the hints for a run's recorded iterations, timings included."""
    found: list[tuple[Progress, Hint]] = []
    for row in rows:
        progress = Progress(
            *(int(row.get(name) or 0) for name in ("iteration", "env_steps", "episodes"))
        )
        numbers = {
            name: float(value)
            for name, value in row.items()
            if "/" in name and isinstance(value, (int, float))
        }
        steady = {name: value for name, value in numbers.items() if not is_timing(name)}
        said = (*hints.take(progress, steady), *hints.take_timed(progress, numbers))
        found += [(progress, hint) for hint in said]
    return found


GENERAL: tuple[Rule, ...] = (
    ReturnsFlat(),
    EndingPays(),
    EpisodesNeverEnd(),
    EvaluationApart(),
    UpdatesTooLarge(),
    UpdatesTooSmall(),
    LossAbnormal(),
    EntropyAbnormal(),
    GradientsTooLong(),
    StillWarmingUp(),
    GateStuck(),
    QueueLow(),
    ExpertsCollapsed(),
    ReplayUnderfilled(),
    ThroughputDropped(),
    OneEnvSlow(),
    MemoryGrows(),
    DeviceIdle(),
)
"""The rules that fit any task."""


@dataclass(frozen=True, slots=True)
class HintsConfig:
    """Settings of the `[hints]` table."""

    enabled: bool = True
    """Whether the rules run after every iteration."""
    silent: tuple[str, ...] = ()
    """Names of rules that are turned off."""
    rules: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Changed thresholds, one table per rule: `hints.rules.returns-flat.window = 100`."""


def choose_rules(
    config: HintsConfig, plugins: Iterable[Rule] = (), own: Iterable[Rule] = ()
) -> tuple[Rule, ...]:
    """Return the rules of a run; a task's rule replaces one of the same name."""
    if not config.enabled:
        return ()
    rules: dict[str, Rule] = {rule.name: rule for rule in GENERAL}
    for more in (tuple(plugins), tuple(own)):
        refuse_twins(more)
        rules |= {rule.name: rule for rule in more}
    for name in (*config.silent, *config.rules):
        if name not in rules:
            raise ConfigError(
                f"hints: there is no rule {name!r}{suggestion(name, rules)} "
                f"(rules: {', '.join(rules)})"
            )
    return tuple(
        changed(rule, config.rules.get(name, {}))
        for name, rule in rules.items()
        if name not in config.silent
    )


def changed(rule: Rule, values: Mapping[str, Any]) -> Rule:
    """Return a rule with other thresholds; its name and kind stay."""
    if not values:
        return rule
    where = f"hints.rules.{rule.name}"
    if not dataclasses.is_dataclass(rule) or isinstance(rule, type):
        raise ConfigError(f"{where}: this rule has no thresholds to change")
    for fixed in ("name", "timed"):
        if fixed in values:
            raise ConfigError(f"{where}.{fixed} cannot be changed")
    return convert({**msgspec.to_builtins(rule), **values}, type(rule), where=where)

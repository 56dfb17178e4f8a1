"""The metrics of a rollout, the same after a restart, and the times of an iteration."""

from __future__ import annotations

import math
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

from longhaul.core.control import Collected, Progress
from longhaul.core.env import Episode, StepTimed, VectorEnv
from longhaul.core.metrics import Metrics
from longhaul.core.rollout import Rollout
from longhaul.core.state import State
from longhaul.envs.path_starts import path_metrics
from longhaul.envs.starts import STARTS_DEALT, STARTS_USED

WINDOW = 100  # episodes; what Stable-Baselines3 averages over, for comparable curves

LOST_STEPS = "fault/lost_steps"
QUANTILES = (10, 50, 90, 99)
SUCCESS = "is_success"
"""The figure Gymnasium environments give for a reached goal."""
MOST_ACTIONS = 16
"""Shares of actions are reported for spaces up to this size."""


class Summary:
    """The last episodes' spread, the task's own figures, and the shares of reward terms."""

    def __init__(
        self,
        task_figures: Callable[[Sequence[Episode]], Metrics],
        step_figures: Callable[[Rollout], Metrics] | None = None,
        *,
        window: int = WINDOW,
    ) -> None:
        self._task_figures = task_figures
        self._step_figures = step_figures
        self._window = window
        self._recent: deque[tuple[float, int, str]] = deque(maxlen=window)
        self._ages: NDArray[np.int64] | None = None  # [rows], steps of the episodes under way

    def of(self, rollout: Rollout, progress: Progress) -> Metrics:
        """Return the metrics of one rollout."""
        self._recent.extend((e.episode_return, e.length, e.reason) for e in rollout.episodes)
        metrics: dict[str, float] = {"time/total_timesteps": float(progress.env_steps)}
        if self._recent:
            metrics |= spread("rollout/ep_rew", [value for value, _, _ in self._recent])
            metrics |= spread("rollout/ep_len", [float(length) for _, length, _ in self._recent])
            ends = Counter(reason for _, _, reason in self._recent)
            for reason, count in ends.items():
                metrics[f"rollout/ended/{reason}"] = count / len(self._recent)
        metrics["rollout/episodes"] = float(len(rollout.episodes))
        metrics |= self._running(rollout)
        metrics |= action_shares(rollout)
        if used := sum(e.metrics.get(STARTS_USED, 0.0) for e in rollout.episodes):
            metrics[STARTS_USED] = used
        if rollout.starts_dealt:
            metrics[STARTS_DEALT] = float(rollout.starts_dealt)
        if lost := int((rollout.lost & rollout.active).sum()):
            metrics[LOST_STEPS] = float(lost)
        goals = [e.metrics[SUCCESS] for e in rollout.episodes if SUCCESS in e.metrics]
        if goals:
            metrics["rollout/success_rate"] = sum(goals) / len(goals)
        metrics |= reward_terms(rollout)
        if self._step_figures is not None:
            metrics |= self._step_figures(rollout)
        metrics |= path_metrics(rollout.episodes)
        return {**metrics, **self._task_figures(rollout.episodes)}

    def _running(self, rollout: Rollout) -> dict[str, float]:
        """Return the ages of the episodes under way, which show it when none ever ends."""
        started = rollout.started.numpy()
        steps, rows = started.shape
        if self._ages is None or len(self._ages) != rows:
            self._ages = np.zeros(rows, np.int64)
        since = np.argmax(started[::-1], axis=0) + 1  # steps since the last beginning
        ages = np.where(started.any(axis=0), since, self._ages + steps)
        ages[(rollout.terminated[-1] | rollout.truncated[-1]).numpy()] = 0
        if rollout.absent is not None:
            ages = np.where(rollout.absent.numpy(), self._ages, ages)
        self._ages = ages
        return {
            "rollout/running_len_mean": float(ages.mean()),
            "rollout/running_len_p50": float(np.median(ages)),
            "rollout/running_len_max": float(ages.max()),
        }

    def state_dict(self) -> State:
        """Return the remembered episodes and the ages of those under way."""
        return {
            "recent": [[r, length, reason] for r, length, reason in self._recent],
            "ages": None if self._ages is None else self._ages.tolist(),
        }

    def load_state_dict(self, state: State) -> None:
        """Continue with remembered episodes; older checkpoints remember fewer things of them."""
        kept = [(one[0], one[1], one[2] if len(one) > 2 else "") for one in state["recent"]]
        self._recent = deque(kept, maxlen=self._window)
        ages = state.get("ages")
        self._ages = None if ages is None else np.array(ages, np.int64)


def spread(name: str, values: Sequence[float]) -> dict[str, float]:
    """Return mean, deviation, extremes and quantiles; the values lie in the order they came in."""
    count = len(values)
    mean = sum(values) / count
    ranked = sorted(values)
    found = {
        f"{name}_mean": mean,
        f"{name}_std": math.sqrt(sum((value - mean) ** 2 for value in values) / count),
        f"{name}_min": ranked[0],
        f"{name}_max": ranked[-1],
    }
    for percent in QUANTILES:
        found[f"{name}_p{percent}"] = quantile(ranked, percent / 100)
    return found


def quantile(ranked: Sequence[float], share: float) -> float:
    """Return the value below which this share lies, between its neighbors in a straight line."""
    place = share * (len(ranked) - 1)
    below = int(place)
    above = min(below + 1, len(ranked) - 1)
    return ranked[below] + (place - below) * (ranked[above] - ranked[below])


def action_shares(rollout: Rollout) -> dict[str, float]:
    """Return how often each of a few actions was taken, and how many were not the policy's."""
    active = rollout.active.numpy()
    count = max(int(active.sum()), 1)
    found = {}
    if forced := int((rollout.forced.numpy() & active).sum()):
        found["rollout/forced_share"] = forced / count
    action = rollout.action.numpy()
    if action.ndim != 2 or action.dtype != np.int64:
        return found
    taken = np.bincount(action[active].ravel()) if active.any() else np.zeros(0, np.int64)
    if len(taken) <= MOST_ACTIONS:
        for number, times in enumerate(taken.tolist()):
            if times:
                found[f"rollout/action_share/{number}"] = times / count
    return found


def reward_terms(rollout: Rollout) -> Metrics:
    """Return each reward term's sum, and its share of the absolute total."""
    total = sum(abs(value) for value in rollout.terms.values())
    metrics: dict[str, float] = {}
    for name, value in rollout.terms.items():
        metrics[f"reward/{name}"] = value
        if total > 0:
            metrics[f"reward/{name}_share"] = abs(value) / total
    return metrics


STAGES = ("collect", "learn", "evaluate", "checkpoint")


class StageTimer:
    """Measures the stages of each iteration."""

    def __init__(
        self,
        *,
        clock: Callable[[], float] = time.perf_counter,
        wall: Callable[[], float] = time.time,
        entered: Callable[[str], None] = lambda stage: None,
        left: Callable[[str], None] = lambda stage: None,
    ) -> None:
        self._clock = clock
        self._wall = wall
        self._entered = entered
        self._left = left
        self._began = self._lap_began = clock()
        self._spent: dict[str, float] = {}
        self._parts: dict[str, float] = {}
        self._env_steps = 0
        self._gauges: list[Callable[[], Metrics]] = []

    def add_gauge(self, gauge: Callable[[], Metrics]) -> None:
        """Add a source of clock-dependent metrics, read at every lap."""
        self._gauges.append(gauge)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Count the time inside as spent in stage `name`."""
        self._entered(name)
        began = self._clock()
        try:
            yield
        finally:
            self._spent[name] = self._spent.get(name, 0.0) + self._clock() - began
            self._left(name)

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Count the time inside as spent on `name`, which is part of some stage."""
        began = self._clock()
        try:
            yield
        finally:
            self._parts[name] = self._parts.get(name, 0.0) + self._clock() - began

    def lap(self, rollout: Collected) -> Metrics:
        """Return the clock-dependent metrics since the last lap.

        A checkpoint is written after its iteration was recorded, so it counts in the next lap.
        """
        now = self._clock()
        seconds = max(now - self._lap_began, 1e-9)
        self._env_steps += rollout.env_steps
        metrics = {
            "time/wall": self._wall(),
            "time/fps": rollout.env_steps / seconds,
            "time/session_fps": self._env_steps / max(now - self._began, 1e-9),
            "time/session_seconds": now - self._began,
            "time/iteration_seconds": seconds,
        }
        for name in STAGES:
            if name in self._spent:
                metrics[f"time/{name}_seconds"] = self._spent[name]
        metrics["time/other_seconds"] = max(seconds - sum(self._spent.values()), 0.0)
        for name in ("collect", "learn"):
            if name in self._spent:
                metrics[f"time/{name}_share"] = self._spent[name] / seconds
        metrics["time/other_share"] = metrics["time/other_seconds"] / seconds
        for gauge in self._gauges:
            metrics |= gauge()
        metrics |= {f"time/{name}_ms": 1000.0 * spent for name, spent in self._parts.items()}
        self._spent, self._parts = {}, {}
        self._lap_began = now
        return metrics


CAPACITY = 10_000
"""Steps that are remembered between two laps; of more, the last ones count."""


class StepTimes:
    """Collects the times of vector steps in one thread, and returns their spread in another."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self.clock = clock
        self._seconds: list[float] = []

    def add(self, seconds: float) -> None:
        """Take the time of one step."""
        self._seconds.append(seconds)

    def take(self) -> Metrics:
        """Return the spread since the last call; nothing if no step was taken."""
        # The list is swapped in one step: the collecting thread loses none.
        taken, self._seconds = self._seconds, []
        if not taken:
            return {}
        ranked = sorted(taken[-CAPACITY:])
        found = {
            f"time/env_step_p{percent}_ms": 1000.0 * quantile(ranked, percent / 100)
            for percent in (50, 90, 99)
        }
        return {**found, "time/env_step_max_ms": 1000.0 * ranked[-1]}


MILLISECONDS = 1e-6  # of a nanosecond


class EnvTimes:
    """Compares environments by the steps that were timed since the last time it was asked."""

    def __init__(self, env: VectorEnv) -> None:
        self._env = env if isinstance(env, StepTimed) else None
        self._before = np.zeros((env.count, 2), np.int64)

    def metrics(self) -> Metrics:
        """Return the times of the middle and the slowest environment; nothing if none is known."""
        if self._env is None:
            return {}
        # Copied: an overlapped collector goes on writing.
        now = self._env.step_times().copy()
        spent, steps = (now - self._before).T
        timed = np.flatnonzero(steps > 0)
        if timed.size < 2:
            return {}
        self._before = now
        means = spent[timed] / steps[timed] * MILLISECONDS
        slowest = int(means.argmax())
        return {
            "time/env_step_ms_median": float(np.median(means)),
            "time/env_step_ms_slowest": float(means[slowest]),
            "time/env_slowest": float(timed[slowest]),
        }

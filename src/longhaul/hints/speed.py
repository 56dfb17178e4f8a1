"""Rules about the machine: speed, environments that hold up the rest, memory, idle devices.

All of them read timings, so their hints depend on the process, not only on the run.
"""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import dataclass
from typing import ClassVar

from longhaul.core.hint import Finding, HintRule, Recent
from longhaul.hints.numbers import median, number

SPEED, ITERATION, SECONDS = "time/fps", "time/iteration_seconds", "time/session_seconds"
COLLECT, LEARN, OTHER = "time/collect_seconds", "time/learn_seconds", "time/other_seconds"
USUAL_STEP, SLOWEST_STEP = "time/env_step_ms_median", "time/env_step_ms_slowest"
SLOWEST_ENV = "time/env_slowest"
MEMORY, DEVICE_LOAD = "mem/rss", "gpu/*_percent_mean"
MEGABYTE, LEAST_POINTS, MOSTLY = float(1 << 20), 20, 0.7
MACHINE_MEMORY = "machine.memory_mb"
"""A fact: the memory of the machine, in MB."""
DEVICE = "device"
"""A fact: the device the run computes on."""


@dataclass(frozen=True, slots=True)
class ThroughputDropped(HintRule):
    """The run has become much slower than it was; says which stage takes longer."""

    name: str = "throughput-dropped"
    window: int = 200
    """Iterations that are looked at; the last tenth is compared with the rest."""
    cooldown: int = 400
    share: float = 0.6
    """Share of the usual speed below which it is slow."""
    least: int = 60
    """Iterations that must have been seen."""
    timed: bool = True

    reads: ClassVar[tuple[str, ...]] = (SPEED, COLLECT, LEARN, OTHER)

    def judge(self, recent: Recent) -> Finding | None:
        """Compare the last iterations with those before."""
        speeds = list(recent.values(SPEED, self.window))
        newest = self.window // 10
        if len(speeds) < max(self.least, 2 * newest):
            return None
        usual, now = median(speeds[:-newest]), median(speeds[-newest:])
        if now >= self.share * usual:
            return None
        stage, before, after = self._grown(recent, newest)
        return Finding(
            evidence=(
                f"The run makes {number(now)} steps a second, {100 * now / usual:.0f} % of its "
                f"usual {number(usual)}; the stage {stage!r} takes {number(1000 * after)} ms an "
                f"iteration instead of {number(1000 * before)} ms."
            ),
            cause=_CAUSES[stage],
            advice=_REMEDIES[stage],
        )

    def _grown(self, recent: Recent, newest: int) -> tuple[str, float, float]:
        """Return the stage that lost most time, with its seconds before and now."""
        found = []
        for stage, metric in (("collect", COLLECT), ("learn", LEARN), ("other", OTHER)):
            seconds = list(recent.values(metric, self.window))
            if len(seconds) > newest:
                before, now = median(seconds[:-newest]), median(seconds[-newest:])
                found.append((now - before, stage, before, now))
        _, stage, before, now = max(found, default=(0.0, "other", 0.0, 0.0))
        return stage, before, now


_CAUSES = {
    "collect": "Environments became slower: longer or harder episodes, or others use the cores.",
    "learn": "The learner became slower: another job uses the same cores or device.",
    "other": "Something beside training takes the time: slow disks, logs or evaluations.",
}
_REMEDIES = {
    "collect": (
        "See `top` for other jobs; with uneven environments set env.order = 'first-come', or "
        "raise env.processes.workers by the cores that are free."
    ),
    "learn": "See `top` or `nvidia-smi` for other jobs; halve learn.n_epochs if it must stay so.",
    "other": "See the disk's load; double checkpoint.every_seconds if saving is what takes long.",
}


@dataclass(frozen=True, slots=True)
class OneEnvSlow(HintRule):
    """One environment takes many times longer than the others, and all wait for it."""

    name: str = "one-env-slow"
    window: int = 16
    """Iterations in most of which it was the slowest, and that slow."""
    cooldown: int = 300
    times: float = 8.0
    """Multiple of the usual step time that is slow."""
    least_ms: float = 1.0
    """Smallest difference from the usual step time, in milliseconds."""
    least_share: float = 0.1
    """Smallest share of the time spent waiting for it."""
    timed: bool = True

    reads: ClassVar[tuple[str, ...]] = (USUAL_STEP, SLOWEST_STEP, SLOWEST_ENV, ITERATION)

    def judge(self, recent: Recent) -> Finding | None:
        """Compare the slowest environment with the middle one."""
        usual = list(recent.values(USUAL_STEP, self.window))
        slowest = list(recent.values(SLOWEST_STEP, self.window))
        envs = recent.values(SLOWEST_ENV, self.window)
        if min(len(usual), len(slowest), len(envs)) < self.window:
            return None
        suspect = Counter(envs).most_common(1)[0][0]
        pairs = [
            (slow, one)
            for env, slow, one in zip(envs, slowest, usual, strict=True)
            if env == suspect and slow >= self.times * one and slow - one >= self.least_ms
        ]
        # On a busy machine any of them is held up now and then, most of all the first one, which
        # follows on the policy; the slow one always is.
        if len(pairs) < MOSTLY * self.window:
            return None
        slow, one = (median(list(times)) for times in zip(*pairs, strict=True))
        whole = recent.values(ITERATION, self.window)
        seconds = (slow - one) / 1000 * recent.number("collect.num_steps", 1)
        share = seconds / max(median(list(whole)), 1e-9) if whole else 0.0
        if share < self.least_share:
            return None
        return Finding(
            evidence=(
                f"A step of environment {suspect:.0f} takes {number(slow)} ms, "
                f"{number(slow / max(one, 1e-6))} times the {number(one)} ms of the others; "
                f"waiting for it is {100 * min(share, 1.0):.0f} % of the time."
            ),
            cause="Environments step together, so every one of them waits for the slowest.",
            advice=(
                "See what is special about that one (its seed is in episodes.jsonl); if speeds "
                "must differ, set env.runtime = 'processes' and env.order = 'first-come'."
            ),
            setting="env.order",
            value="first-come",
        )


@dataclass(frozen=True, slots=True)
class MemoryGrows(HintRule):
    """The trainer's memory grows steadily; says when it will be gone."""

    name: str = "memory-grows"
    window: int = 2
    """Iterations that are looked at beside the history of this process."""
    cooldown: int = 600
    least_seconds: float = 300.0
    """Time over which it must have grown; the first quarter of the run does not count."""
    least_mb: float = 200.0
    """Smallest growth to report, in MB."""
    least_share: float = 0.1
    """Smallest growth to report, as a share of the first value."""
    timed: bool = True

    reads: ClassVar[tuple[str, ...]] = (MEMORY, SECONDS)

    def judge(self, recent: Recent) -> Finding | None:
        """Look for growth in every quarter of the time, after the run has warmed up."""
        points = recent.history(MEMORY)
        points = points[len(points) // 4 :]
        times = dict(recent.history(SECONDS))
        known = [(times[at], used / MEGABYTE) for at, used in points if at in times]
        if len(known) < LEAST_POINTS:
            return None
        (began, before), (now, used) = known[0], known[-1]
        grown = used - before
        if now - began < self.least_seconds:
            return None
        if grown < max(self.least_mb, self.least_share * before):
            return None
        quarters = [known[part * (len(known) - 1) // 4][1] for part in range(5)]
        if min(after - one for one, after in itertools.pairwise(quarters)) < grown / 12:
            return None  # a buffer that fills grows and then stays
        return self._found(recent, before, used, 3600 * grown / (now - began))

    def _found(self, recent: Recent, before: float, used: float, hourly: float) -> Finding:
        machine, left = recent.number(MACHINE_MEMORY), ""
        if machine:
            hours = max(machine - used, 0.0) / hourly
            spared = f"{number(hours)} hours" if hours >= 1 else f"{60 * hours:.0f} minutes"
            left = f"; the machine's {number(machine)} MB last for {spared} more at most"
        return Finding(
            evidence=(
                f"The trainer's memory grows steadily, so far from {number(before)} to "
                f"{number(used)} MB, {number(hourly)} MB an hour{left}."
            ),
            cause="Something keeps what it should let go: an environment, or a plugin.",
            advice=(
                "Run environments with env.runtime = 'processes' and "
                "env.processes.memory_growth_mb = 1024: workers that grow are then replaced."
            ),
            setting="env.processes.memory_growth_mb",
            value=1024,
        )


@dataclass(frozen=True, slots=True)
class DeviceIdle(HintRule):
    """The graphics card waits for environments nearly all of the time."""

    name: str = "device-idle"
    window: int = 50
    """Iterations whose median is judged."""
    cooldown: int = 400
    least_load: float = 5.0
    """Lowest load of the device in percent, as its driver reports it."""
    least_learning: float = 0.1
    """Lowest share of learning in the time, where the driver reports no load."""
    timed: bool = True

    reads: ClassVar[tuple[str, ...]] = (DEVICE_LOAD, LEARN, COLLECT, ITERATION)

    def judge(self, recent: Recent) -> Finding | None:
        """Ask the driver's figures first, the stages' times otherwise."""
        if not str(recent.facts.get(DEVICE, "")).startswith("cuda"):
            return None
        whole = sum(recent.values(ITERATION, self.window))
        if recent.span < self.window or whole <= 0:
            return None
        learning = sum(recent.values(LEARN, self.window)) / whole
        collecting = sum(recent.values(COLLECT, self.window)) / whole
        loads = [
            median(list(values))
            for name in recent.names(DEVICE_LOAD)
            if (values := recent.values(name, self.window))
        ]
        is_idle = max(loads) < self.least_load if loads else learning < self.least_learning
        if not is_idle:
            return None
        load = f" at {max(loads):.0f} % load" if loads else ""
        envs = int(recent.number("num_envs", 1))
        return Finding(
            evidence=(
                f"The device {recent.facts[DEVICE]} idles{load}: collecting takes "
                f"{100 * collecting:.0f} % of the time, learning {100 * learning:.0f} %."
            ),
            cause="Environments bring rollouts more slowly than the device learns from them.",
            advice=(
                f"Raise num_envs from {envs} to {2 * envs} and set collect.overlap = true; if "
                "nothing else needs the card, train with --device cpu."
            ),
            setting="num_envs",
            value=2 * envs,
        )

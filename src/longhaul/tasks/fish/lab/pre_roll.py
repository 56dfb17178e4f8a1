"""How predators begin: before their pre-roll, what it did to them, and after it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from longhaul.tasks.fish.evaluation.suites import FishSuite, begin_suite
from longhaul.tasks.fish.options import FishOptions, FishStartOptions
from longhaul.tasks.fish.world.reset import ResetPlan, draw, hunt_draws, make_plan
from longhaul.tasks.fish.world.starts import Velocity, heading, speed
from longhaul.tasks.fish.world.world import PREDATOR_SPEED


def block(values: Sequence[float]) -> dict[str, float | None]:
    """Return count, mean, spread, percentiles and extremes; None where there is nothing."""
    if not values:
        names = ("mean", "std", "p10", "p50", "p90", "min", "max")
        return {"count": 0, **dict.fromkeys(names)}
    array = np.asarray(values, np.float64)
    p10, p50, p90 = np.percentile(array, (10, 50, 90))
    return {
        "count": len(array),
        "mean": float(array.mean()),
        "std": float(array.std()),
        "p10": float(p10),
        "p50": float(p50),
        "p90": float(p90),
        "min": float(array.min()),
        "max": float(array.max()),
    }


def histogram(values: Sequence[float], edges: Sequence[float]) -> dict[str, list[float]]:
    """Return the counts between edges; the last edge belongs to the last bin."""
    counts, _ = np.histogram(np.asarray(values, np.float64), bins=np.asarray(edges, np.float64))
    return {"bins": counts.tolist(), "edges": [float(edge) for edge in edges]}


SCALARS = (
    "spawn_radius",
    "spawn_angle_deg",
    "initial_speed",
    "initial_heading_deg",
    "final_speed",
    "final_heading_deg",
)
ANGLE_EDGES = tuple(float(edge) for edge in range(0, 361, 30))
SPEED_BINS = 10


@dataclass(frozen=True, slots=True)
class PreRollSample:
    """The first predator of one episode; angles are in [0, 360)."""

    episode: int
    seed: int
    spawn_radius: float
    spawn_angle_deg: float
    initial_speed: float
    initial_heading_deg: float
    final_speed: float
    final_heading_deg: float
    pre_roll_steps: int
    angle_jitter_deg: tuple[float, ...]
    speed_scale: tuple[float, ...]
    heading_bias_angle_deg: float | None  # None: no heading was drawn
    prewarm_velocity_override: bool = False
    prewarm_velocity: Velocity | None = None

    def as_row(self) -> dict[str, Any]:
        """Return plain values; the override's velocity only where there is one."""
        row: dict[str, Any] = msgspec.to_builtins(self)
        if self.prewarm_velocity is None:
            del row["prewarm_velocity"]
        return row


def suite_samples(suite: FishSuite, options: FishOptions) -> tuple[PreRollSample, ...]:
    """Return a sample for every episode of a suite in the world of `options`."""
    world = suite.options(options)
    schools, _ = begin_suite(suite, world)
    predators = schools.world.predators[:, 0].astype(np.float64)
    samples = []
    for episode, start in enumerate(suite.starts):
        numbers = _first_hunt(start.seed, world, start.size or world.fish)
        samples.append(_sample(episode, start.seed, world.start, numbers, predators[episode]))
    return tuple(samples)


def _first_hunt(seed: int, options: FishOptions, fish: int) -> NDArray[np.float64]:
    """Return the numbers the first predator's start was made from, by drawing them again."""
    plan = make_plan(options.start)
    hunts = (hunt_draws(plan, thrown=False),) * options.predator.count
    draws = draw(np.random.default_rng(seed), options.start, fish=fish, hunts=hunts, boost=0.0)
    first: NDArray[np.float64] = draws.hunts[0]
    return first


def _sample(
    episode: int,
    seed: int,
    start: FishStartOptions,
    numbers: NDArray[np.float64],
    predator: NDArray[np.float64],
) -> PreRollSample:
    """Read the numbers in the order the kernels do: place, heading, then step by step."""
    plan = make_plan(start)
    left = iter(numbers.tolist())
    radius = plan.spawn_jitter * next(left) if plan.spawn_jitter > 0 else 0.0
    angle = 360.0 * next(left) if plan.spawn_jitter > 0 else 0.0
    drawn = None
    if len(plan.headings):
        drawn = _picked(plan.headings, next(left), next(left))
    jitters, scales = [], []
    for _ in range(plan.steps):
        jitter, scale = _stirred(plan, left)
        jitters += [] if jitter is None else [jitter]
        scales += [] if scale is None else [scale]
    final = (float(predator[2]), float(predator[3]))
    return PreRollSample(
        episode=episode,
        seed=seed,
        spawn_radius=radius,
        spawn_angle_deg=angle % 360.0,
        initial_speed=PREDATOR_SPEED,
        initial_heading_deg=0.0 if drawn is None else drawn % 360.0,
        final_speed=speed(final),
        final_heading_deg=heading(final),
        pre_roll_steps=plan.steps,
        angle_jitter_deg=tuple(jitters),
        speed_scale=tuple(scales),
        heading_bias_angle_deg=drawn,
    )


def _stirred(plan: ResetPlan, left: Any) -> tuple[float | None, float | None]:
    """Return one step's turn in degrees and its scale, each if the options have one."""
    jitter = (
        math.degrees(plan.angle_jitter * (2 * next(left) - 1)) if plan.angle_jitter > 0 else None
    )
    scale = (
        max(0.05, 1 + plan.speed_jitter * (2 * next(left) - 1)) if plan.speed_jitter > 0 else None
    )
    if len(plan.speeds):
        next(left), next(left)
    return jitter, scale


def _picked(table: NDArray[np.float64], which: float, within: float) -> float:
    """Return a point of weighted intervals, as the reset does."""
    place = int(np.searchsorted(table[:, 2], which * table[-1, 2]))
    low, high = table[min(place, len(table) - 1), :2]
    return float(low + (high - low) * within)


def summarize_pre_roll(samples: Sequence[PreRollSample]) -> dict[str, Any]:
    """Return blocks of every scalar, and histograms of angles and speeds at both ends."""
    rows = [sample.as_row() for sample in samples]
    columns = {name: [row[name] for row in rows] for name in SCALARS}
    overrides = sum(sample.prewarm_velocity_override for sample in samples)
    return {
        "sampled_episodes": len(samples),
        **{name: block(values) for name, values in columns.items()},
        "prewarm_override_count": overrides,
        "prewarm_override_ratio": overrides / len(samples) if samples else None,
        "spawn_angle_hist_deg": histogram(_wrapped(columns["spawn_angle_deg"]), ANGLE_EDGES),
        "final_heading_hist_deg": histogram(_wrapped(columns["final_heading_deg"]), ANGLE_EDGES),
        "initial_speed_hist": _speeds(columns["initial_speed"]),
        "final_speed_hist": _speeds(columns["final_speed"]),
    }


def _wrapped(angles: Sequence[float]) -> list[float]:
    return [angle % 360.0 for angle in angles]


def _speeds(values: Sequence[float]) -> dict[str, list[float]]:
    low, high = (min(values), max(values)) if values else (0.0, 1.0)
    high = high if high > low else low + 1.0
    edges = [low + (high - low) * k / SPEED_BINS for k in range(SPEED_BINS + 1)]
    edges[-1] = high
    return histogram(values, edges)

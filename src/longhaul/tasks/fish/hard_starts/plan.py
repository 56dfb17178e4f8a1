"""Bad starts read from their files, fitted into schools and ready to be dealt."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from longhaul.core.env import Episode
from longhaul.core.errors import ConfigError, suggestion
from longhaul.core.metrics import Metric, Metrics
from longhaul.core.settings import Setting, Settings
from longhaul.tasks.fish.hard_starts.files import StageSpec, TailItem, merge, read_tail_file
from longhaul.tasks.fish.hard_starts.laps import Candidate
from longhaul.tasks.fish.hard_starts.queue import (
    FORCED_RESETS,
    NAME,
    TailQueue,
    TailStage,
    lost_metric,
    replays_metric,
)
from longhaul.tasks.fish.options import SCHOOL_SIZE, FishOptions, TailOptions
from longhaul.tasks.fish.training.options import lowered
from longhaul.tasks.fish.world.school import FORCED, START_NAME, SchoolFactory
from longhaul.tasks.fish.world.starts import FishStart, PositionStart, SeedStart, ThrownStart


def pin(items: Sequence[TailItem], options: FishOptions) -> tuple[TailItem, ...]:
    """Return the items as positions after the pre-roll, drawn in the world of `options`.

    A position needs no configuration to be the same start everywhere. What a bare velocity leaves
    open is drawn from a seed that the start's own name gives.
    """
    open_ones = [item for item in items if not isinstance(item.start, PositionStart)]
    if not open_ones:
        return tuple(items)
    asked = [_seed_and_start(item, options) for item in open_ones]
    sizes = [start.size or 0 for _, start in asked if isinstance(start, SeedStart)]
    room = replace(options, fish=max([options.fish, *sizes]))
    schools = SchoolFactory(room)(len(open_ones))
    schools.configure(Settings([replace(SCHOOL_SIZE, default=options.fish, high=room.fish)]))
    schools.reset(
        np.arange(len(open_ones)),
        np.array([seed for seed, _ in asked]),
        [start.as_value() for _, start in asked],
    )
    pinned = {item.id: schools.present_start(env) for env, item in enumerate(open_ones)}
    return tuple(_with_position(item, pinned.get(item.id)) for item in items)


def thin(start: PositionStart, count: int) -> PositionStart:
    """Return the start with the `count` fish nearest to a predator, in their old order."""
    if count < 1:
        raise ConfigError(f"a start cannot be thinned to {count} fish; keep at least 1")
    nearest = sorted(
        range(len(start.fish)),
        key=lambda row: min(
            math.hypot(start.fish[row][0] - hunter[0], start.fish[row][1] - hunter[1])
            for hunter in start.predators
        ),
    )
    return replace(start, fish=tuple(start.fish[row] for row in sorted(nearest[:count])))


def fitted(item: TailItem, options: FishOptions, *, where: str) -> TailItem:
    """Return the item as a school of `options` can begin from it, or raise a ConfigError."""
    start = item.start
    if isinstance(start, PositionStart):
        if len(start.predators) != options.predator.count:
            raise ConfigError(
                f"{where}: start {item.id} has {len(start.predators)} predators, and "
                f"options.predator.count is {options.predator.count}"
            )
        if len(start.fish) > options.fish:
            return replace(item, start=thin(start, options.fish))
    if isinstance(start, SeedStart) and start.size is not None and start.size > options.fish:
        raise ConfigError(
            f"{where}: start {item.id} is a seed played with {start.size} fish, and options.fish "
            f"is {options.fish}; `longhaul tool fish mix --pin` makes it a position that fits"
        )
    return item


def _seed_and_start(item: TailItem, options: FishOptions) -> tuple[int, SeedStart | ThrownStart]:
    """Return the seed the rest of a start is drawn from, and the start at its full size."""
    match item.start:
        case SeedStart(seed, boost, size):
            speed = options.start.escape_boost_speed if boost is None else boost
            return seed, SeedStart(seed, speed, size or options.fish)
        case ThrownStart() as thrown:
            return int(item.id, 16), thrown
        case PositionStart():
            raise AssertionError("a position leaves nothing to draw")


def _with_position(item: TailItem, position: PositionStart | None) -> TailItem:
    if position is None:
        return item
    hunter = position.predators[0]
    provenance = {**item.provenance}
    if isinstance(item.start, SeedStart):
        provenance["seed"] = item.start.seed
    return replace(item, start=position, velocity=(hunter[2], hunter[3]), provenance=provenance)


OVERRIDES = f"starts/{NAME}_override_ratio"

METRICS = (
    Metric(f"starts/{NAME}_consumed", "what is used up of the stages' capacity"),
    Metric(f"starts/{NAME}_injections", "episodes begun from a bad start"),
    Metric(
        f"starts/{NAME}_injections_total", "episodes begun from a bad start since the run began"
    ),
    Metric(f"starts/{NAME}_set_aside", "bad starts that failed again and again and rest"),
    Metric(f"starts/{NAME}_warning_since", "iteration since when the warning is active; 0: not"),
    Metric(f"starts/{NAME}_warning_threshold", "share of the starts from which on it warns"),
    Metric(FORCED_RESETS, "episodes cut to deal the next start, if any"),
    Metric(
        f"starts/{NAME}_forced_resets_total", "episodes cut to deal a start since the run began"
    ),
    Metric(OVERRIDES, "share of the episodes ended that began from a bad start, if any"),
    Metric(f"starts/{NAME}_lost_<start>", "share of fish lost in the replays of one start"),
    Metric(f"starts/{NAME}_replays_<start>", "replays of one start that ended"),
)


@dataclass(frozen=True, slots=True)
class TailPlan:
    """The starts by name, and what deals them; none of either by default."""

    library: tuple[tuple[str, FishStart], ...] = ()
    controllers: tuple[TailQueue, ...] = ()
    """The queue, if there are stages."""


def plan_tail(
    tail: TailOptions, options: FishOptions, *, schools: int, gate: Setting[int] | None = None
) -> TailPlan:
    """Return the plan of a run with so many schools in the world of `options`."""
    specs, rules = tail.specs(), tail.rules()
    if not specs:
        return TailPlan()
    pools = [_pool(spec, options) for spec in specs]
    stages = tuple(
        TailStage(
            capacity=spec.iterations * schools,
            candidates=tuple(Candidate(item.id, item.weight) for item in pool),
            category=spec.type,
            label=spec.label,
        )
        for spec, pool in zip(specs, pools, strict=True)
    )
    library = {item.id: item.start for pool in pools for item in pool}
    queue = TailQueue(
        stages=_keeping(stages, lowered(tail.keep)),
        schools=schools,
        unit=tail.unit,
        per_iteration=tail.per_iteration,
        rules=rules,
        warning=tail.low_warning(),
        gate=gate,
    )
    return TailPlan(tuple(library.items()), (queue,))


def _pool(spec: StageSpec, options: FishOptions) -> tuple[TailItem, ...]:
    """Return the starts of a stage, each once."""
    if not spec.path:
        return ()
    where = "options.tail"
    items = read_tail_file(Path(spec.path), applied=spec.applied, where=where).items
    if not items:
        raise ConfigError(
            f"{where}: {spec.path} holds no starts; for a stage without bad starts leave out its "
            "path"
        )
    return merge([fitted(item, options, where=where) for item in items])


def _keeping(stages: Sequence[TailStage], kept: Mapping[str, float]) -> tuple[TailStage, ...]:
    """Return the stages with their share of starts of the types that stay present."""
    own = {
        name: tuple({c.id: c for s in stages if s.category == name for c in s.candidates}.values())
        for name in kept
    }
    for name, share in kept.items():
        if not own[name]:
            types = sorted({stage.category for stage in stages})
            raise ConfigError(
                f"options.tail.keep: no stage has type {name!r}{suggestion(name, types)}"
            )
        if not 0 < share < 1:
            raise ConfigError(f"options.tail.keep.{name} = {share:g} must be between 0 and 1")
    if sum(kept.values()) >= 1:
        raise ConfigError("options.tail.keep: the shares of all types together must be below 1")
    return tuple(_with_kept(stage, kept, own) for stage in stages)


def _with_kept(
    stage: TailStage, kept: Mapping[str, float], own: Mapping[str, tuple[Candidate, ...]]
) -> TailStage:
    others = {name: share for name, share in kept.items() if name != stage.category}
    if not stage.candidates or not others:
        return stage
    there = sum(candidate.weight for candidate in stage.candidates)
    whole = there / (1 - sum(others.values()))
    weights = {candidate.id: candidate.weight for candidate in stage.candidates}
    for name, share in others.items():
        total = sum(candidate.weight for candidate in own[name])
        for candidate in own[name]:
            added = candidate.weight / total * share * whole
            weights[candidate.id] = weights.get(candidate.id, 0.0) + added
    return replace(stage, candidates=tuple(Candidate(*pair) for pair in weights.items()))


def summarize_tail(episodes: Sequence[Episode]) -> Metrics:
    """Return what came of each bad start in a rollout, and how many episodes were cut."""
    outcomes: dict[str, list[float]] = {}
    for episode in episodes:
        if START_NAME in episode.facts:
            lost = 1.0 - episode.metrics["survival_rate"]
            outcomes.setdefault(episode.facts[START_NAME], []).append(lost)
    metrics: dict[str, float] = {}
    if forced := sum(episode.reason == FORCED for episode in episodes):
        metrics[FORCED_RESETS] = float(forced)
    if outcomes:
        metrics[OVERRIDES] = sum(map(len, outcomes.values())) / len(episodes)
    for item in sorted(outcomes):
        metrics[lost_metric(item)] = sum(outcomes[item]) / len(outcomes[item])
        metrics[replays_metric(item)] = float(len(outcomes[item]))
    return metrics

"""Bad starts read from their files, fitted into schools and ready to be dealt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from longhaul.core.env import Episode
from longhaul.core.errors import ConfigError, suggestion
from longhaul.core.metrics import Metric, Metrics
from longhaul.core.settings import Setting
from longhaul.envs.starts import STARTS_LIMIT
from longhaul.tasks.fish.options import Options
from longhaul.tasks.fish.school import FORCED, START_NAME
from longhaul.tasks.fish.starts import FishStart
from longhaul.tasks.fish.tail.files import read_tail_file
from longhaul.tasks.fish.tail.items import TailItem
from longhaul.tasks.fish.tail.laps import Candidate
from longhaul.tasks.fish.tail.mix import merge
from longhaul.tasks.fish.tail.options import TailOptions
from longhaul.tasks.fish.tail.pin import fitted
from longhaul.tasks.fish.tail.queue import (
    FORCED_RESETS,
    NAME,
    TAIL_TYPE,
    TailQueue,
    TailStage,
    lost_metric,
    replays_metric,
)
from longhaul.tasks.fish.tail.stages import StageSpec, by_type

OVERRIDES = f"starts/{NAME}_override_ratio"

METRICS = (
    Metric(f"starts/{NAME}_consumed", "what is used up of the stages' capacity"),
    Metric(f"starts/{NAME}_injections", "episodes begun from a bad start"),
    Metric(f"starts/{NAME}_injections_total", "the same since the run began"),
    Metric(f"starts/{NAME}_set_aside", "bad starts that failed again and again and rest"),
    Metric(f"starts/{NAME}_warning_since", "iteration since when the warning is active; 0: not"),
    Metric(f"starts/{NAME}_warning_threshold", "share of the starts from which on it warns"),
    Metric(FORCED_RESETS, "episodes cut to deal the next start, if any"),
    Metric(f"starts/{NAME}_forced_resets_total", "the same since the run began"),
    Metric(OVERRIDES, "share of the episodes ended that began from a bad start, if any"),
    Metric(f"starts/{NAME}_lost_<start>", "share of fish lost in the replays of one start"),
    Metric(f"starts/{NAME}_replays_<start>", "replays of one start that ended"),
)


@dataclass(frozen=True, slots=True)
class TailPlan:
    """The starts by name, and the controller that deals them; none of either by default."""

    library: tuple[tuple[str, FishStart], ...] = ()
    queue: TailQueue | None = None

    @property
    def controllers(self) -> tuple[TailQueue, ...]:
        """The queue, if there are stages."""
        return () if self.queue is None else (self.queue,)

    @property
    def settings(self) -> tuple[Setting[Any], ...]:
        """What the queue writes besides the starts themselves."""
        return (STARTS_LIMIT, TAIL_TYPE)


def plan_tail(
    tail: TailOptions, options: Options, *, schools: int, gate: Setting[int] | None = None
) -> TailPlan:
    """Return the plan of a run with so many schools in the world of `options`."""
    specs = tail.specs()
    if not specs:
        return TailPlan()
    pools = [_pool(spec, options) for spec in specs]
    stages = tuple(
        TailStage(
            capacity=spec.iterations * schools,
            candidates=tuple(Candidate(item.id, item.weight) for item in pool),
            stage_type=spec.stage_type,
            label=spec.label,
        )
        for spec, pool in zip(specs, pools, strict=True)
    )
    library = {item.id: item.start for pool in pools for item in pool}
    queue = TailQueue(
        stages=_keeping(stages, by_type(tail.keep, where="options.tail.keep")),
        schools=schools,
        unit=tail.unit,
        per_iteration=tail.per_iteration,
        rules=tail.rules(),
        warning=tail.low_warning(),
        gate=gate,
    )
    return TailPlan(tuple(library.items()), queue)


def _pool(spec: StageSpec, options: Options) -> tuple[TailItem, ...]:
    """Return the starts of a stage, each once."""
    if spec.path is None:
        return ()
    where = "options.tail"
    items = read_tail_file(spec.path, applied=spec.applied, where=where).items
    if not items:
        raise ConfigError(
            f"{where}: {spec.path} holds no starts; for a stage without any write "
            f"{spec.iterations}:-"
        )
    return merge([fitted(item, options, where=where) for item in items])


def _keeping(stages: Sequence[TailStage], kept: Mapping[str, float]) -> tuple[TailStage, ...]:
    """Return the stages with their share of starts of the types that stay present."""
    own = {
        name: tuple(
            {c.id: c for s in stages if s.stage_type == name for c in s.candidates}.values()
        )
        for name in kept
    }
    for name, share in kept.items():
        if not own[name]:
            types = sorted({stage.stage_type for stage in stages})
            raise ConfigError(
                f"options.tail.keep: no stage has type {name!r}{suggestion(name, types)}"
            )
        if not 0 < share < 1:
            raise ConfigError(f"options.tail.keep: {name}:{share:g} is not a share between 0 and 1")
    if sum(kept.values()) >= 1:
        raise ConfigError("options.tail.keep: the shares of all types together must be below 1")
    return tuple(_with_kept(stage, kept, own) for stage in stages)


def _with_kept(
    stage: TailStage, kept: Mapping[str, float], own: Mapping[str, tuple[Candidate, ...]]
) -> TailStage:
    others = {name: share for name, share in kept.items() if name != stage.stage_type}
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


def summarise_tail(episodes: Sequence[Episode]) -> Metrics:
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

"""Files of bad starts: complete starts, the original's bare velocities, and worst-seeds files."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from longhaul.core.errors import ConfigError, EnvError, suggestion
from longhaul.envs.starts import listed, tupled
from longhaul.tasks.fish.world.starts import (
    FishStart,
    PositionStart,
    ThrownStart,
    Velocity,
    read_start,
)

Provenance = dict[str, str | int | float | bool | None]
"""The origin of a start: plain values under the names that files use."""


@dataclass(frozen=True, slots=True)
class TailItem:
    """A start worth training on."""

    start: FishStart
    weight: float = 1.0
    """How often it is dealt, relative to the others."""
    velocity: Velocity | None = None
    """The first predator's as the episode begins; None: known only once the start is drawn."""
    provenance: Provenance = field(default_factory=dict)

    @property
    def id(self) -> str:
        """Eight hex digits made of the start: the same start has the same id everywhere."""
        return start_id(self.start)

    @property
    def known_velocity(self) -> Velocity | None:
        """The predator's velocity, if the start or the file holds it."""
        if self.velocity is not None:
            return self.velocity
        match self.start:
            case ThrownStart(velocity):
                return velocity
            case PositionStart(_, predators):
                return (predators[0][2], predators[0][3])
            case _:
                return None


def start_id(start: FishStart) -> str:
    """Return eight hex digits that name a start by its content."""
    return hashlib.blake2b(repr(start.as_value()).encode(), digest_size=4).hexdigest()


Applied = Literal["before", "after"]
"""Whether a bare velocity is given to the predator before its pre-roll, as the original did, or
after it. Only then does the episode begin with it."""


@dataclass(frozen=True, slots=True)
class TailFile:
    """The content of a file: starts and their origin."""

    items: tuple[TailItem, ...]
    generated_at: str = ""
    source: str = ""
    note: str = ""
    selection: Mapping[str, Any] = field(default_factory=dict)
    clusters: tuple[Mapping[str, Any], ...] = ()


def read_tail_file(path: Path, *, applied: Applied = "after", where: str = "tail") -> TailFile:
    """Return the starts of a file; `where` is the config key that named it.

    Whole starts are under `starts`. A file without them is one of the original's: its
    `velocities`, then the samples of its `summary.clusters`. There may be none.
    """
    content = _read_object(path, where)
    try:
        if "starts" in content:
            items = [_item(entry) for entry in content["starts"]]
        else:
            items = [_thrown(velocity, applied) for velocity in content.get("velocities", ())]
            clusters = content.get("summary", {}).get("clusters", ())
            items += [_sample(cluster["sample"], applied) for cluster in clusters]
        return TailFile(
            tuple(items),
            generated_at=str(content.get("generated_at", "")),
            source=str(content.get("source", "")),
            note=str(content.get("note", "")),
            selection=dict(content.get("selection") or {}),
            clusters=tuple(content.get("clusters") or ()),
        )
    except (AttributeError, KeyError, TypeError, ValueError, EnvError) as error:
        raise ConfigError(
            f"{where}: {path} is not a file of tail starts ({error}); it needs `velocities`, a "
            "list of [vx, vy], or `starts`, or the `summary.clusters` of a worst-seeds file"
        ) from None


def fill(items: Sequence[TailItem], limit: int) -> tuple[TailItem, ...]:
    """Return exactly `limit` items, repeating the list; none if it is empty."""
    return tuple(items[k % len(items)] for k in range(limit)) if items else ()


def merge(*parts: Sequence[TailItem]) -> tuple[TailItem, ...]:
    """Return all items in order, each start once with the sum of its weights."""
    merged: dict[str, TailItem] = {}
    for item in (item for part in parts for item in part):
        known = merged.get(item.id)
        merged[item.id] = (
            item if known is None else replace(known, weight=known.weight + item.weight)
        )
    return tuple(merged.values())


def write_tail_file(file: TailFile) -> str:
    """Return the text of a file, with the bare velocities for readers of the old format."""
    content = {
        "generated_at": file.generated_at,
        "source": file.source,
        "note": file.note,
        "selection": dict(file.selection),
        "clusters": [dict(cluster) for cluster in file.clusters],
        "velocities": [list(v) for item in file.items if (v := item.known_velocity) is not None],
        "starts": [_entry(item) for item in file.items],
    }
    return json.dumps(content, indent=1, allow_nan=False) + "\n"


def _read_object(path: Path, where: str) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{where}: {path} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise ConfigError(f"{where}: {path} is not valid JSON: {error}") from None
    if not isinstance(content, dict):
        raise ConfigError(f"{where}: {path} holds {type(content).__name__}, not a JSON object")
    return content


def _velocity(values: Any) -> tuple[float, float]:
    x, y = (float(value) for value in values)
    if not (math.isfinite(x) and math.isfinite(y)):
        raise ValueError(f"the velocity {values!r} is not finite")
    return x, y


def _thrown(velocity: Any, applied: Applied, provenance: Provenance | None = None) -> TailItem:
    thrown = ThrownStart(_velocity(velocity), after_pre_roll=applied == "after")
    known = thrown.velocity if thrown.after_pre_roll else None
    return TailItem(thrown, velocity=known, provenance=provenance or {})


def _sample(sample: Mapping[str, Any], applied: Applied) -> TailItem:
    """Return the start of a worst-seeds sample: complete if it has one, else its velocity."""
    if "start" in sample:
        return _item(sample)
    return _thrown(sample["predator_velocity"], applied, _provenance(sample))


def _item(entry: Mapping[str, Any]) -> TailItem:
    value = tupled(entry["start"])
    if value is None:
        raise ValueError("a start is null")
    weight = float(entry.get("weight", 1.0))
    if not (weight > 0 and math.isfinite(weight)):
        raise ValueError(f"a start has weight {weight}; it must be above 0")
    velocity = entry.get("start_velocity")
    return TailItem(
        read_start(value),
        weight,
        None if velocity is None else _velocity(velocity),
        _provenance(entry),
    )


_OWN = frozenset({"start", "weight", "start_velocity"})


def _provenance(entry: Mapping[str, Any]) -> Provenance:
    return {
        name: value
        for name, value in entry.items()
        if name not in _OWN and (value is None or isinstance(value, (str, int, float, bool)))
    }


def _entry(item: TailItem) -> dict[str, Any]:
    entry: dict[str, Any] = {"id": item.id, "start": listed(item.start.as_value())}
    if item.velocity is not None:
        entry["start_velocity"] = list(item.velocity)
    return {**entry, "weight": item.weight, **_without_id(item.provenance.items())}


def _without_id(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    return {name: value for name, value in pairs if name != "id"}


@dataclass(frozen=True, slots=True)
class StageSpec:
    """A stage of bad starts."""

    iterations: int
    """Length of the stage."""
    path: str = ""
    """The file of starts; empty: a stage without bad starts."""
    type: str = ""
    """What the stage is counted under; several stages may share a type."""
    label: str = ""
    """The stage's name in logs; empty: `stage1:ne` and so on."""
    velocities: Literal["", "before", "after"] = ""
    """When a bare velocity is given to the predator; empty: as `options.tail.velocities`."""

    def resolved(self, number: int, velocities: Applied) -> StageSpec:
        """Return the stage with everything filled in that was left empty."""
        where = f"options.tail.stages: stage {number}"
        if self.iterations < 1:
            raise ConfigError(f"{where}: iterations = {self.iterations} must be at least 1")
        if not re.fullmatch(r"[\w-]*", self.type):
            raise ConfigError(
                f"{where}: type {self.type!r} becomes part of metric names and may "
                "contain only letters, digits, _ and -"
            )
        name = Path(self.path).stem if self.path else "rest"
        return replace(
            self,
            type=self.type.lower(),
            label=self.label or f"stage{number}:{name}",
            velocities=self.velocities or velocities,
        )

    @property
    def applied(self) -> Applied:
        """When a bare velocity is given to the predator."""
        return self.velocities or "after"


def with_reinjections(
    stages: Sequence[StageSpec], wanted: Mapping[str, float], *, where: str
) -> tuple[StageSpec, ...]:
    """Return the stages, with a type's last one again at the end until it comes back so often."""
    extended = list(stages)
    for stage_type, minimum in wanted.items():
        own = [stage for stage in stages if stage.type == stage_type]
        if not own:
            types = sorted({stage.type for stage in stages})
            raise ConfigError(
                f"{where}: no stage has type {stage_type!r}{suggestion(stage_type, types)}"
            )
        missing = int(minimum) - (len(own) - 1)
        extended += [
            replace(own[-1], label=f"{own[-1].label} again{number}")
            for number in range(1, missing + 1)
        ]
    return tuple(extended)

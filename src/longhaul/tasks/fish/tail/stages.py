"""The stages in which bad starts are dealt: `8:ne.json|type=ne;15:warm.json|type=main`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from longhaul.core.errors import ConfigError, suggestion
from longhaul.tasks.fish.tail.files import Applied

REST = "-"
"""In the place of a file: a stage without bad starts."""
_KEYS = ("type", "stage_type", "label", "velocities")


@dataclass(frozen=True, slots=True)
class StageSpec:
    """One stage as it is written."""

    iterations: int
    path: Path | None  # None: a rest
    stage_type: str = ""
    label: str = ""
    applied: Applied = "after"


def parse_stages(text: str, *, where: str, applied: Applied = "after") -> tuple[StageSpec, ...]:
    """Return the stages of `iterations:path|key=value;...`; an empty text has none."""
    parts = [part.strip() for part in text.split(";")]
    return tuple(
        _parse_stage(part, number, where, applied)
        for number, part in enumerate(filter(None, parts), start=1)
    )


def _parse_stage(text: str, number: int, where: str, applied: Applied) -> StageSpec:
    head, *pairs = (piece.strip() for piece in text.split("|"))
    count, colon, path = (piece.strip() for piece in head.partition(":"))
    if not colon or not path or not count.isdecimal() or int(count) < 1:
        raise ConfigError(
            f"{where}: stage {number}, {text!r}, is not of the form iterations:path with a whole "
            "number of iterations above 0"
        )
    keys = _pairs(pairs, f"{where}: stage {number}, {text!r}")
    how = keys.get("velocities", applied)
    if how not in ("before", "after"):
        raise ConfigError(f"{where}: stage {number}: velocities={how} is neither before nor after")
    name = "rest" if path == REST else Path(path).stem
    return StageSpec(
        iterations=int(count),
        path=None if path == REST else Path(path),
        stage_type=_type(keys, where, number),
        label=keys.get("label") or f"stage{number}:{name}",
        applied="before" if how == "before" else "after",
    )


def _pairs(pairs: Sequence[str], where: str) -> dict[str, str]:
    keys: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = (piece.strip() for piece in pair.partition("="))
        if not equals:
            raise ConfigError(f"{where}: {pair!r} is not of the form key=value")
        if key not in _KEYS:
            raise ConfigError(f"{where}: unknown key {key!r}{suggestion(key, _KEYS)}")
        if key in keys:
            raise ConfigError(f"{where}: {key!r} is given twice")
        keys[key] = value
    return keys


def _type(keys: Mapping[str, str], where: str, number: int) -> str:
    if "type" in keys and "stage_type" in keys:
        raise ConfigError(f"{where}: stage {number} has both type and stage_type; they are one")
    stage_type = keys.get("type", keys.get("stage_type", "")).lower()
    if not stage_type.replace("-", "").replace("_", "").isalnum() and stage_type:
        raise ConfigError(
            f"{where}: stage {number}: type {stage_type!r} becomes part of a metric's name and may "
            "hold letters, digits, _ and - only"
        )
    return stage_type


def by_type(text: str, *, where: str) -> dict[str, float]:
    """Return the numbers of `type:number,...`, types trimmed and in lower case."""
    found: dict[str, float] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, colon, number = (piece.strip() for piece in part.partition(":"))
        try:
            if not (colon and name):
                raise ValueError
            found[name.lower()] = float(number)
        except ValueError:
            raise ConfigError(f"{where}: {part!r} is not of the form type:number") from None
    return found


def with_reinjections(
    stages: Sequence[StageSpec], wanted: Mapping[str, float], *, where: str
) -> tuple[StageSpec, ...]:
    """Return the stages, with a type's last one again at the end until it comes back so often."""
    extended = list(stages)
    for stage_type, minimum in wanted.items():
        own = [stage for stage in stages if stage.stage_type == stage_type]
        if not own:
            types = sorted({stage.stage_type for stage in stages})
            raise ConfigError(
                f"{where}: no stage has type {stage_type!r}{suggestion(stage_type, types)}"
            )
        missing = int(minimum) - (len(own) - 1)
        extended += [
            replace(own[-1], label=f"{own[-1].label} again{number}")
            for number in range(1, missing + 1)
        ]
    return tuple(extended)

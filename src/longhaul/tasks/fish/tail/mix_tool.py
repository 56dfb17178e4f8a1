"""`longhaul tool fish mix`: make a file of bad starts from others."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from longhaul.core.errors import ConfigError
from longhaul.tasks.fish.options import Options
from longhaul.tasks.fish.starts import PositionStart
from longhaul.tasks.fish.tail.files import read_tail_file, write_tail_file
from longhaul.tasks.fish.tail.items import TailItem
from longhaul.tasks.fish.tail.joint import JointBias, Range
from longhaul.tasks.fish.tail.mix import Recipe, mix, multiplied
from longhaul.tasks.fish.tail.pin import pin, thin


def run_mix(arguments: Sequence[str]) -> str:
    """Write the file the arguments ask for; return what is in it."""
    asked = _parser().parse_args(list(arguments))
    parts = {part: _read(part, asked) for part in asked.parts}
    recipe = Recipe(
        wanted=Range(_limits(asked.angles, "--angles"), _limits(asked.speeds, "--speeds")),
        factor=asked.scale,
        bias=JointBias.parse(asked.weight, where="--weight"),
        note=asked.note,
    )
    file = mix(parts, recipe, now=datetime.now(UTC).isoformat(timespec="seconds"))
    if not file.items:
        raise ConfigError(
            f"none of the {sum(map(len, parts.values()))} starts is left; widen --angles, "
            "--speeds or --weight"
        )
    try:
        asked.output.write_text(write_tail_file(file), encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{asked.output} cannot be written: {error.strerror}") from None
    lines = [f"{asked.output}: {len(file.items)} starts from {file.source}"]
    for cluster in file.clusters:
        (low, high), (slow, fast) = cluster["angle_range"], cluster["speed_range"]
        lines.append(
            f"  {low:3.0f} to {high:3.0f} degrees, {slow:g} to {fast:g}: {cluster['count']}"
        )
    return "\n".join(lines)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="longhaul tool fish mix",
        description="Make a file of bad starts from others: choose, scale, weigh, merge.",
    )
    parser.add_argument(
        "parts",
        nargs="+",
        metavar="FILE[*WEIGHT]",
        help="tail or worst-seeds files; a weight says how often the file's starts are dealt",
    )
    parser.add_argument("-o", "--output", type=Path, required=True, help="the file to write")
    parser.add_argument(
        "--angles", default="0-360", metavar="LOW-HIGH", help="headings to keep, in degrees"
    )
    parser.add_argument("--speeds", default="0-inf", metavar="LOW-HIGH", help="speeds to keep")
    parser.add_argument("--scale", type=float, default=1.0, help="multiply predators' velocities")
    parser.add_argument(
        "--weight", default="", metavar="RANGES", help="weights, as in 90-150/1.8-3:0.5"
    )
    parser.add_argument(
        "--velocities",
        choices=("before", "after"),
        default="after",
        help="when bare velocities are given to the predator: before or after its pre-roll",
    )
    parser.add_argument(
        "--pin", action="store_true", help="turn seeds and velocities into whole positions"
    )
    parser.add_argument(
        "--fish", type=int, default=0, help="keep so many fish of a position, those nearest to it"
    )
    parser.add_argument("--note", default="", help="words that go into the file")
    return parser


def _read(part: str, asked: argparse.Namespace) -> tuple[TailItem, ...]:
    path, star, weight = part.partition("*")
    items = read_tail_file(Path(path), applied=asked.velocities, where="mix").items
    if star:
        try:
            items = multiplied(items, float(weight))
        except ValueError:
            raise ConfigError(f"{part!r} is not of the form FILE*WEIGHT") from None
    if asked.pin:
        items = pin(items, Options())
    return tuple(_thinned(item, asked.fish) for item in items) if asked.fish else items


def _thinned(item: TailItem, count: int) -> TailItem:
    if not isinstance(item.start, PositionStart):
        return item
    return replace(item, start=thin(item.start, count))


def _limits(text: str, flag: str) -> tuple[float, float]:
    low, dash, high = text.partition("-")
    try:
        if not dash:
            raise ValueError
        return float(low), float(high)
    except ValueError:
        raise ConfigError(f"{flag} {text!r} is not of the form LOW-HIGH") from None

"""The space of a search: a range or a list of choices for each config key."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from longhaul.app.build.sources import read_toml
from longhaul.core.config import flatten, value_words
from longhaul.core.errors import ConfigError, suggestion

KINDS = ("float", "log", "int", "logint", "choice")
EXAMPLE = "learn.learning_rate=log:1e-5..1e-2"
Value = int | float | str
Params = Mapping[str, Value]
"""The values of a trial by config key; choices as the text of the option."""


@dataclass(frozen=True, slots=True)
class Range:
    """Numbers between two ends, both included."""

    key: str
    low: float
    high: float
    is_whole: bool = False
    is_log: bool = False
    """Whether values are drawn uniformly on a logarithmic scale."""
    step: int = 1
    """The distance between whole numbers."""

    @property
    def text(self) -> str:
        """The range as a user writes it."""
        kind = {(False, False): "float", (False, True): "log", (True, False): "int"}
        name = kind.get((self.is_whole, self.is_log), "logint")
        step = f"/{self.step}" if self.step > 1 else ""
        return f"{self.key}={name}:{self.low!r}..{self.high!r}{step}"

    @property
    def ends(self) -> tuple[Value, ...]:
        """The values with which the config is checked."""
        return (self.low, self.high)

    def setting(self, value: Value) -> Any:
        """Return a trial's value as the config holds it."""
        return value

    def nearest(self, value: object) -> Value | None:
        """Return the value in the range nearest to the config's; None if that is not a number."""
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return None
        inside = min(max(value, self.low), self.high)
        if not self.is_whole:
            return float(inside)
        return int(self.low + (inside - self.low) // self.step * self.step)


@dataclass(frozen=True, slots=True)
class Choice:
    """A few values, written as for `--set`."""

    key: str
    options: tuple[str, ...]

    @property
    def text(self) -> str:
        """The choice as a user writes it."""
        return f"{self.key}=choice:{','.join(self.options)}"

    @property
    def ends(self) -> tuple[Value, ...]:
        """The values with which the config is checked: every option."""
        return self.options

    def setting(self, value: Value) -> Any:
        """Return a trial's value as the config holds it."""
        return _meaning(str(value))

    def nearest(self, value: object) -> Value | None:
        """Return the option equal to the config's own value; None if there is none."""
        held = list(value) if isinstance(value, tuple) else value
        for option in self.options:
            meant = _meaning(option)
            if meant == held and isinstance(meant, bool) == isinstance(held, bool):
                return option
        return None


Dimension = Range | Choice


def parse_dimension(text: str) -> Dimension:
    """Return `KEY=KIND:LOW..HIGH` or `KEY=choice:A,B` as a dimension."""
    key, equals, rest = text.partition("=")
    kind, colon, body = rest.partition(":")
    if not equals or not colon or not key.strip():
        raise ConfigError(f"--space takes KEY=KIND:VALUES, such as {EXAMPLE}, not {text!r}")
    key, kind = key.strip(), kind.strip()
    if kind not in KINDS:
        close = suggestion(kind, KINDS)
        raise ConfigError(
            f"--space {key}: unknown kind {kind!r}{close} (kinds: {', '.join(KINDS)})"
        )
    return _choice(key, body) if kind == "choice" else _range(key, kind, body)


def _range(key: str, kind: str, body: str) -> Range:
    where = f"--space {key}={kind}:{body}"
    is_whole, is_log = kind.endswith("int"), kind.startswith("log")
    span, slash, stride = body.partition("/")
    low, dots, high = span.partition("..")
    if not dots:
        raise ConfigError(f"{where}: a range is written LOW..HIGH, such as 1e-5..1e-2")
    if slash and kind != "int":
        raise ConfigError(f"{where}: only a range of kind int has a step")
    first, last = (_parse_number(end, where, is_whole=is_whole) for end in (low, high))
    if not first < last:
        raise ConfigError(f"{where}: the range is empty; the lower end must be below the upper one")
    if is_log and not first > 0:
        raise ConfigError(f"{where}: a logarithmic range must begin above 0")
    step = int(_parse_number(stride, where, is_whole=True)) if slash else 1
    if slash and not 1 <= step <= last - first:
        raise ConfigError(f"{where}: the step must be at least 1 and fit into the range")
    if is_whole:
        # Rounded down to the grid of steps: the upper end must be a valid value.
        last = first + (last - first) // step * step
    return Range(key, first, last, is_whole=is_whole, is_log=is_log, step=step)


def _parse_number(text: str, where: str, *, is_whole: bool) -> float:
    try:
        number = float(text.strip())
    except ValueError:
        raise ConfigError(f"{where}: {text.strip()!r} is not a number") from None
    if not math.isfinite(number):
        raise ConfigError(f"{where}: {text.strip()!r} is not finite")
    if not is_whole:
        return number
    if number != int(number):
        raise ConfigError(f"{where}: {text.strip()!r} is not a whole number")
    return int(number)


def _choice(key: str, body: str) -> Choice:
    where = f"--space {key}=choice:{body}"
    options = tuple(part.strip() for part in _split(body))
    if len(options) < 2 or not all(options):
        raise ConfigError(f"{where}: a choice needs at least two values, separated by commas")
    meanings = [repr(_meaning(option)) for option in options]
    if len(set(meanings)) < len(meanings):
        raise ConfigError(f"{where}: duplicate value")
    return Choice(key, options)


def _split(body: str) -> Iterable[str]:
    """Split at commas outside of brackets and quotes."""
    depth, quote, part = 0, "", ""
    for letter in body:
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "\"'":
            quote = letter
        else:
            depth += (letter in "[{") - (letter in "]}")
        if letter == "," and not quote and depth <= 0:
            yield part
            part = ""
        else:
            part += letter
    yield part


def _meaning(option: str) -> Any:
    """Return an option as `--set` reads it: as TOML, else as plain text."""
    try:
        return tomllib.loads(f"value = {option}")["value"]
    except tomllib.TOMLDecodeError:
        return option


def read_space(path: Path) -> dict[str, Dimension]:
    """Return the dimensions of a TOML file, structured like a config.

    A string is what follows `KEY=` in `--space`; a list is a choice.
    """
    found: dict[str, Dimension] = {}
    for key, value in flatten(read_toml(path)).items():
        try:
            found[key] = _from_file(key, value)
        except ConfigError as error:
            raise ConfigError(f"{path}: {str(error).removeprefix('--space ')}") from None
    if not found:
        raise ConfigError(f"{path} names no config key to search")
    return found


def _from_file(key: str, value: object) -> Dimension:
    if isinstance(value, str):
        return parse_dimension(f"{key}={value}")
    if isinstance(value, list):
        options = ",".join(_option(element) for element in value)
        return parse_dimension(f"{key}=choice:{options}")
    raise ConfigError(f"{key} = {value!r} must be a string such as 'log:1e-5..1e-2' or a list")


def _option(value: object) -> str:
    """Return a value of a TOML list as the text of an option."""
    is_plain = isinstance(value, str) and _meaning(value) == value and "," not in value
    return str(value) if is_plain else value_words(value)

"""Short texts in a configuration, read into pairs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

from longhaul.core.errors import ConfigError

K = TypeVar("K")
V = TypeVar("V")


def parts(text: str) -> Iterator[str]:
    """Yield what stands between the commas; nothing for an empty text."""
    if text.strip():
        yield from (part.strip() for part in text.split(","))


def pairs(
    text: str, key: Callable[[str], K], value: Callable[[str], V], *, where: str, form: str
) -> tuple[tuple[K, V], ...]:
    """Return `key:value` pairs in order; `form` tells the user how they are written."""
    found = []
    for part in parts(text):
        before, colon, after = part.partition(":")
        if not colon:
            raise ConfigError(f"{where}: {part!r} has no colon; write {form}")
        try:
            found.append((key(before.strip()), value(after.strip())))
        except ValueError as error:
            raise ConfigError(f"{where}: {part!r}: {error}; write {form}") from None
    return tuple(found)


def table(
    text: str, key: Callable[[str], K], value: Callable[[str], V], *, where: str, form: str
) -> dict[K, V]:
    """Return `key:value` pairs as a table; a key may stand there once."""
    found: dict[K, V] = {}
    for name, held in pairs(text, key, value, where=where, form=form):
        if name in found:
            raise ConfigError(f"{where}: {name!r} stands there twice")
        found[name] = held
    return found


def positive(text: str) -> int:
    """Return a whole number of at least 1."""
    number = int(text)
    if number < 1:
        raise ValueError(f"{number} is not at least 1")
    return number


def count(text: str) -> int:
    """Return a whole number of at least 0."""
    number = int(text)
    if number < 0:
        raise ValueError(f"{number} is below 0")
    return number


def number(text: str) -> float:
    """Return a finite number."""
    found = float(text)
    if not abs(found) < float("inf"):
        raise ValueError(f"{text} is not finite")
    return found


def word(text: str) -> str:
    """Return a name in small letters; an empty one is refused."""
    if not text:
        raise ValueError("the name is empty")
    return text.lower()

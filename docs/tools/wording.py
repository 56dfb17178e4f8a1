"""Types, values and tables as the reference pages write them."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar

from longhaul.core.config import value_words
from longhaul.core.settings import Assignment, Setting

_PLAIN: Mapping[object, tuple[str, str]] = {
    bool: ("true or false", "true or false"),
    int: ("integer", "integers"),
    float: ("number", "numbers"),
    str: ("text", "texts"),
    Path: ("path", "paths"),
}
_ASSIGNMENTS = tuple[Assignment, ...]
_ANY_VALUE = frozenset({bool, int, float, str})
GENERATED = "<!-- Written by `make docs` from the code; changes made here are lost. -->"


def page(title: str, *blocks: str) -> str:
    """Return a page of blocks with empty lines between them."""
    return "\n\n".join([GENERATED, f"# {title}", *blocks]) + "\n"


def type_words(hint: Any) -> str:
    """Return a type the way a person who writes TOML calls it."""
    if hint in _PLAIN:
        return _PLAIN[hint][0]
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin is Literal:
        return ", ".join(code(choice) for choice in inner)
    if isinstance(hint, TypeVar) or set(inner) >= _ANY_VALUE:
        return "value"
    if origin in (types.UnionType, typing.Union):
        parts = [part for part in inner if part is not type(None)]
        between = ", " if all(typing.get_origin(part) is Literal for part in parts) else " or "
        return between.join(map(type_words, parts))
    if origin is Setting:
        held = type_words(inner[0])
        return "name of a setting" + (f" ({held})" if held != "value" else "")
    if hint == _ASSIGNMENTS:
        return "table from settings to values"
    if origin in (tuple, list):
        return _list_words(inner)
    if dataclasses.is_dataclass(hint):
        return f"table, a [{typing.cast(type, hint).__name__}](#{anchor(hint)})"
    return "table"


def _list_words(inner: tuple[Any, ...]) -> str:
    many = inner[0]
    count = "" if len(inner) == 1 or inner[-1] is Ellipsis else f"{len(inner)} "
    if many in _PLAIN:
        return f"list of {count}{_PLAIN[many][1]}"
    if typing.get_origin(many) is Literal:
        return f"list of {count}{type_words(many)}"
    if dataclasses.is_dataclass(many):
        return (
            f"list of {count}tables, each a [{typing.cast(type, many).__name__}](#{anchor(many)})"
        )
    return f"list of {count}{'tables' if typing.get_origin(many) is dict else 'values'}"


def anchor(kind: Any) -> str:
    """Return where mkdocs puts the section headed by the name of a class."""
    return str(kind.__name__).lower()


def default_of(field: dataclasses.Field[Any]) -> Any:
    """Return a field's default, or `dataclasses.MISSING`."""
    made = field.default_factory
    return field.default if made is dataclasses.MISSING else made()


def default_words(default: Any, hint: Any) -> str:
    """Return a default in code, `required` if there is none, nothing for an absent part."""
    if default is dataclasses.MISSING:
        return "required"
    if hint == _ASSIGNMENTS:
        return "`{}`"
    return "" if default is None or dataclasses.is_dataclass(default) else code(default)


def code(value: object) -> str:
    """Return a value set as code."""
    return f"`{value_words(value)}`"


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = [_row(header), _row(["---"] * len(header)), *map(_row, rows)]
    return "\n".join(lines)


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell.replace('|', '&#124;') for cell in cells)} |"


def sentence(text: str) -> str:
    """Return a meaning with a capital letter and a full stop."""
    text = text if text.startswith("`") else text[:1].upper() + text[1:]
    return text if text.endswith((".", "?")) else f"{text}."

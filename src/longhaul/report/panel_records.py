"""The records a panel is about, and how their fields are found."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from longhaul.core.panel import Panel
from longhaul.report.gathered import RunData
from longhaul.report.series import Row, is_number


def chosen_records(run: RunData, panel: Panel) -> list[Row]:
    """Return the rows a panel is about."""
    rows = run.records.get(panel.records, [])
    return [row for row in rows if not panel.event or row.get("event") == panel.event]


def parts_of(record: Row, panel: Panel) -> list[Row]:
    """Return the things to show of one record."""
    if not panel.each:
        return [record]
    inner = record.get(panel.each, [])
    return [part for part in inner if isinstance(part, Mapping)] if isinstance(inner, list) else []


def numbers_in(value: object) -> list[float]:
    """Return the numbers of a field that holds one, a list or a mapping of them."""
    if isinstance(value, Mapping):
        value = list(value.values())
    held: Iterable[object] = value if isinstance(value, list) else [value]
    return [float(one) for one in held if isinstance(one, (int, float)) and is_number(one)]


def field_of(part: Row, path: str) -> object:
    """Return the field a dotted path leads to, through mappings and lists, or None."""
    found: object = part
    for name in path.split("."):
        if isinstance(found, Mapping):
            found = found.get(name)
        elif isinstance(found, list) and name.isdecimal() and int(name) < len(found):
            found = found[int(name)]
        else:
            return None
    return found

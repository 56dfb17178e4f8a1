"""The versions of a run's rows, and how those of older ones are read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from longhaul.runs.directory import RunDirectory
from longhaul.runs.durable import replace_file, storage_errors
from longhaul.runs.jsonl import Row

SCHEMA = 2
"""Of the rows this version writes. 1: no schema.json, fewer metrics, the same names."""

Renames = Mapping[int, Mapping[str, str]]
RENAMED: Renames = {}
"""By schema version, the names it changed: what the version before called a metric, and it."""


def write_schema(run: RunDirectory, content: Mapping[str, Any]) -> None:
    """Leave the schema beside the rows, for readers of any later version."""
    with storage_errors(run.schema):
        replace_file(run.schema, json.dumps(content, indent=1).encode() + b"\n", durable=False)


def read_schema(run: RunDirectory) -> int:
    """Return the version of a run's rows; a run without one is of the first."""
    try:
        content = json.loads(run.schema.read_bytes())
        return int(content["schema"])
    except (OSError, ValueError, KeyError, TypeError):
        return 1


def upgraded(row: Row, version: int, renamed: Renames = RENAMED) -> Row:
    """Return a row of an older version under the present names; unknown names stay."""
    if version >= SCHEMA or not renamed:
        return row
    for later in sorted(renamed):
        if later > version:
            names = renamed[later]
            row = {names.get(name, name): value for name, value in row.items()}
    return row

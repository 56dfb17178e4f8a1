"""Values as people write them in a config."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path


def value_words(value: object) -> str:
    """Return a value as TOML writes it; one that is absent is nothing."""
    if value is None:
        return "nothing"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(value_words, value))}]"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key} = {value_words(held)}" for key, held in value.items()) + "}"
    if isinstance(value, float):
        return f"{value:g}" if float(f"{value:g}") == value else repr(value)
    return str(value) if isinstance(value, Path) else json.dumps(value)

"""What can be trained, and with which configuration."""

from __future__ import annotations

import json

from longhaul.app.config import RunConfig
from longhaul.app.configure import to_values
from longhaul.app.registry import find_kind, task_names
from longhaul.app.text import columns
from longhaul.runs.toml import write_toml


def list_tasks(*, as_json: bool) -> str:
    """Return all installed tasks with their presets."""
    kinds = [find_kind(name) for name in task_names()]
    if as_json:
        return json.dumps(
            [
                {
                    "name": kind.name,
                    "summary": kind.summary,
                    "examples": kind.examples,
                    "presets": kind.preset_names(),
                }
                for kind in kinds
            ]
        )
    rows = [
        (kind.name, kind.summary, ", ".join(kind.examples), ", ".join(kind.preset_names()))
        for kind in kinds
    ]
    return columns(rows, header=("task", "what it is", "for example", "presets"))


def show_config(config: RunConfig, *, as_json: bool) -> str:
    """Return a configuration as TOML that reads back to itself, or as JSON."""
    values = to_values(config)
    return json.dumps(values) if as_json else write_toml(values).rstrip("\n")

"""Finding a task by the name the user wrote."""

from __future__ import annotations

import functools
import importlib.metadata
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from longhaul.core.errors import ConfigError, suggestion
from longhaul.tasks.kind import TaskKind

GROUP = "longhaul.tasks"


@dataclass(frozen=True, slots=True)
class Reference:
    """A task as the user names it."""

    kind: str
    argument: str

    @staticmethod
    def parse(text: str) -> Reference:
        """Split `kind:argument`."""
        kind, _, argument = text.partition(":")
        return Reference(kind, argument)


def task_names() -> tuple[str, ...]:
    """Return the names of all installed task kinds."""
    return tuple(sorted({entry.name for entry in importlib.metadata.entry_points(group=GROUP)}))


def find_kind(task: str) -> TaskKind:
    """Return the kind of the task the user named."""
    name = Reference.parse(task).kind
    entries = _entries(importlib.metadata.entry_points, tuple(sys.path), name)
    if not entries:
        known = ", ".join(task_names())
        argument = task.partition(":")[2]
        close = suggestion(
            task, [f"{known}:{argument}" if argument else known for known in task_names()]
        )
        if not argument and name[:1].isupper():
            close = f"; did you mean 'gym:{task}'?"
        raise ConfigError(f"unknown task {task!r}{close} (tasks: {known})")
    kind = next(iter(entries)).load()
    if not isinstance(kind, TaskKind):
        raise ConfigError(f"the plugin that offers task {name!r} does not export a TaskKind")
    return kind


@functools.lru_cache(maxsize=64)
def _entries(find: Callable[..., Any], path: tuple[str, ...], name: str) -> tuple[Any, ...]:
    """Return what is installed under a name; looking through all packages takes 10 ms a time."""
    return tuple(find(group=GROUP, name=name))

"""What a task folder exports: how to find its presets and how to build the task."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from longhaul.core.task import Task
from longhaul.envs.config import EnvConfig
from longhaul.nets.config import PolicyConfig


@dataclass(frozen=True, slots=True)
class TaskRequest:
    """What the user asked of a task."""

    argument: str
    """What follows the colon in `task:argument`; may be empty."""
    options: Any
    """An instance of the kind's options class, read from the `[options]` table."""
    env: EnvConfig
    policy: PolicyConfig
    num_envs: int = 1
    """Environments the run collects with."""


@dataclass(frozen=True, slots=True)
class TaskKind:
    """A family of tasks under one name, `name` or `name:argument`."""

    name: str
    summary: str
    options: type[Any]
    build: Callable[[TaskRequest], Task]
    examples: tuple[str, ...]
    presets: Path

    def preset_names(self) -> tuple[str, ...]:
        """Return the names of the presets beside the task."""
        return tuple(sorted(path.stem for path in self.presets.glob("*.toml")))

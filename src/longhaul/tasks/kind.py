"""What a task folder exports: its presets and how to build the task."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from longhaul.core.control import RunLength
from longhaul.core.task import Task
from longhaul.envs.config import EnvConfig
from longhaul.nets.config import PolicyConfig


@dataclass(frozen=True, slots=True)
class RunPlan:
    """What a task's own controllers may have to know of the run they steer."""

    total_iterations: int = 0
    """0: the run's length is counted in steps."""
    total_timesteps: int = 0
    """Steps of the whole run, over all environments; 0 if it is not known."""
    total_episodes: int = 0
    """0: the run's length is not counted in episodes."""
    evaluate_every: int = 0
    """Iterations between two evaluations; 0: none during training."""
    suite: str = ""
    """The suite they play; empty: the task's choice."""
    rotate: bool = False
    """Whether every evaluation plays other episodes."""
    ent_coef: float = 0.0
    """The learner's entropy weight at the beginning."""

    @property
    def length(self) -> RunLength:
        """How long the run is."""
        return RunLength(self.total_timesteps, self.total_iterations, self.total_episodes)

    def evaluated(self) -> tuple[int, ...]:
        """Return the iterations after which an evaluation is due, as far as they are known."""
        if not self.evaluate_every:
            return ()
        return tuple(range(self.evaluate_every, self.total_iterations + 1, self.evaluate_every))


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
    plan: RunPlan = field(default_factory=RunPlan)
    """How long the run is and when it is evaluated."""


@dataclass(frozen=True, slots=True)
class Tool:
    """A small command of a task, run by `longhaul tool TASK NAME ...`."""

    name: str
    summary: str
    run: Callable[[Sequence[str]], str]
    """Takes the arguments after the tool's name; returns the text to print."""


@dataclass(frozen=True, slots=True)
class MendRequest:
    """How to repair the files of another trainer."""

    num_steps: int
    """Steps of a rollout, where its files do not hold them."""
    if_lower: bool
    """Whether a count that is there is raised to the computed one."""
    now: str
    """The time that is noted."""
    read_weights: Callable[[Path], Mapping[str, Any]]
    """Returns a PyTorch file without running code from it, empty if it cannot be read so."""


@dataclass(frozen=True, slots=True)
class MendedFile:
    """What is wrong with a file of another trainer, and its repaired content."""

    status: str
    """A word on why nothing is to be changed, or the computed value."""
    content: bytes | None = None


@dataclass(frozen=True, slots=True)
class FolderRepair:
    """The repair of files that another trainer of a task left in a folder."""

    pattern: str
    """The names of the files."""
    mend: Callable[[Path, MendRequest], MendedFile]


@dataclass(frozen=True, slots=True)
class TaskKind:
    """A family of tasks under one name, `name` or `name:argument`."""

    name: str
    summary: str
    options: type[Any]
    build: Callable[[TaskRequest], Task]
    examples: tuple[str, ...]
    presets: Path
    check_argument: Callable[[str], None] = lambda argument: None
    """Raise if what follows the colon cannot be right, as far as that is quickly known."""
    default_preset: str = "default"
    """The preset that is taken if none is asked for."""
    tools: tuple[Tool, ...] = ()
    folder_repair: FolderRepair | None = None
    """What `longhaul repair FOLDER` does where there is no run of longhaul."""
    setting_keys: Mapping[str, str] = field(default_factory=dict)
    """For each of its settings that begins with a value of the config, the key of that value."""
    controller_keys: Mapping[str, str] = field(default_factory=dict)
    """For each controller it brings, the config key that describes it."""

    @property
    def search_space(self) -> Path:
        """The default search space of `longhaul search`; the file may be missing."""
        return self.presets.with_name("search.toml")

    def preset_names(self) -> tuple[str, ...]:
        """Return the names of the presets beside the task."""
        return tuple(sorted(path.stem for path in self.presets.glob("*.toml")))


_PROBE = Path(__file__).parent / "probe"
TEMPLATE_NAME = "recall"
TEMPLATE = {
    _PROBE / "template" / "pyproject.toml": "pyproject.toml",
    _PROBE / "template" / "test_task.txt": "tests/test_task.py",
    _PROBE / "template" / "task.txt": "recall/task.py",
    _PROBE / "recall.py": "recall/env.py",
    _PROBE / "__init__.py": "recall/__init__.py",
    _PROBE / "presets" / "recall.toml": "recall/presets/default.toml",
}
"""The files a new task is a copy of, and where they go in its package."""

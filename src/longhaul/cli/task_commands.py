"""Commands that tasks bring: listed without importing them, loaded when one is used."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperGroup

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "longhaul.commands"
"""Entry points: the name of the task and where its `typer.Typer` is."""


def task_entries() -> list[EntryPoint]:
    """Return the tasks that bring commands, by name; nothing of them is imported."""
    from importlib.metadata import entry_points

    return sorted(entry_points(group=GROUP), key=lambda entry: entry.name)


class TaskCommands(TyperGroup):
    """The commands of one task, imported when one of them is called or asked for its help."""

    def __init__(self, entry: EntryPoint, context_settings: dict[str, Any]) -> None:
        super().__init__(
            name=entry.name,
            help=f"Commands that only the task {entry.name} has.",
            no_args_is_help=True,
            context_settings=context_settings,
        )
        self._entry = entry

    @cached_property
    def _group(self) -> Any:
        """The group as the task defines it."""
        return typer.main.get_group(self._entry.load())

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of the task's commands."""
        names: list[str] = self._group.list_commands(ctx)
        return names

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return one of the task's commands."""
        return self._group.get_command(ctx, cmd_name)


class LonghaulCommands(TyperGroup):
    """Our own commands, and one group for each task that brings some.

    Installed packages are only searched for a command that is not our own, and for the help.
    """

    @cached_property
    def _tasks(self) -> dict[str, TaskCommands]:
        return {
            entry.name: TaskCommands(entry, dict(self.context_settings))
            for entry in task_entries()
            if entry.name not in self.commands
        }

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of all commands, those of tasks last."""
        return [*super().list_commands(ctx), *self._tasks]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command by its name, None if there is none."""
        return super().get_command(ctx, cmd_name) or self._tasks.get(cmd_name)

"""The reference page of the commands, written from their declarations."""

from __future__ import annotations

import copy
import inspect
import typing
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any

import typer
from docs.tools.wording import code, page, table, type_words
from typer.models import ArgumentInfo, OptionInfo, ParameterInfo

from longhaul.cli.main import ABOUT, app, task_entries


@dataclass(frozen=True, slots=True)
class Parameter:
    """One argument or option of a command."""

    name: str
    declared: ParameterInfo
    hint: Any
    default: object

    @property
    def is_argument(self) -> bool:
        """Whether it is given by its place instead of by a name."""
        return isinstance(self.declared, ArgumentInfo)

    @property
    def written(self) -> str:
        """How it is written on the command line."""
        if self.is_argument:
            return f"`{self.name.upper()}`"
        assert isinstance(self.declared, OptionInfo)
        names = self.declared.param_decls or (f"--{self.name.replace('_', '-')}",)
        shown = [part for name in names for part in name.split("/")]
        takes = "" if self.hint is bool else f" {self.declared.metavar or self._placeholder}"
        return ", ".join(f"`{name}{takes}`" for name in shown)

    @property
    def _placeholder(self) -> str:
        return type_words(self.hint).upper()

    @property
    def default_words(self) -> str:
        """What it is when not given."""
        if self.default is inspect.Parameter.empty:
            return "required"
        is_plain = self.default is None or self.default == "" or self.hint is bool
        return "" if is_plain else code(self.default)


def commands(typer_app: typer.Typer, prefix: str) -> Iterator[tuple[str, Callable[..., Any]]]:
    """Yield every command with its full name, those of groups included."""
    for command in typer_app.registered_commands:
        assert command.callback is not None
        name = command.name or command.callback.__name__.replace("_", "-")
        yield f"{prefix} {name}", command.callback
    for group in typer_app.registered_groups:
        assert group.typer_instance is not None
        yield from commands(group.typer_instance, f"{prefix} {group.name}")


def all_commands() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Yield our own commands and those that tasks bring."""
    yield from commands(app, "longhaul")
    for task in task_entries():
        yield from commands(task.load(), f"longhaul {task.name}")


def parameters(function: Callable[..., Any]) -> Iterator[Parameter]:
    """Yield what a command takes, in the order it is declared."""
    hints = typing.get_type_hints(function, include_extras=True)
    for name, parameter in inspect.signature(function).parameters.items():
        hint, default = hints[name], parameter.default
        if typing.get_origin(hint) is Annotated:
            hint, declared = typing.get_args(hint)[:2]
            if isinstance(declared.default, str):
                # Typer takes the first name for the default until it sees the annotation.
                names = (declared.default, *(declared.param_decls or ()))
                declared = copy.copy(declared)
                declared.param_decls = names
        else:
            declared, default = default, default.default
        yield Parameter(name, declared, hint, default)


def command_section(name: str, function: Callable[..., Any]) -> list[str]:
    """Return heading, meaning, usage and parameters of one command."""
    taken = list(parameters(function))
    usage = [name]
    for parameter in (one for one in taken if one.is_argument):
        word = parameter.name.upper()
        usage.append(word if parameter.default is inspect.Parameter.empty else f"[{word}]")
    rows = [
        (one.written, one.default_words, f"{(one.declared.help or '').removesuffix('.')}.")
        for one in taken
    ]
    return [
        f"## {name}",
        inspect.getdoc(function) or "",
        f"```sh\n{' '.join(usage)} [OPTIONS]\n```",
        table(("argument or option", "default", "meaning"), rows),
    ]


def commands_page() -> str:
    """Return the page of all commands."""
    blocks = [
        ABOUT,
        "What is meant for people goes to the error stream while a run trains and to standard "
        "output otherwise; `--json` writes JSON to standard output. `longhaul --version` shows the "
        "version, `longhaul --install-completion` teaches your shell to complete commands and "
        "options, and `-h` after any command shows its help. How a command may end is listed under "
        "[exit codes](exit-codes.md).",
    ]
    for name, function in all_commands():
        blocks += command_section(name, function)
    return page("Commands", *blocks)

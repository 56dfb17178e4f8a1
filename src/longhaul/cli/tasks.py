"""Commands over tasks: their list, their configurations, their tools."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from longhaul.cli import options


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    app.command()(tasks)
    app.command()(config)
    # What follows a task's name is for its tool, options and -h included.
    own = {"ignore_unknown_options": True, "allow_interspersed_args": False}
    app.command(context_settings=own)(tool)
    app.command("warm-up")(warm_up)
    app.command("new-task")(new_task)


def tasks(as_json: options.AsJson = False) -> None:
    """List the tasks that can be trained."""
    from longhaul.app.inspect.runs import list_tasks

    typer.echo(list_tasks(as_json=as_json))


def config(
    task: options.Task,
    preset: options.Preset = "",
    file: options.ConfigFile = None,
    overrides: options.Overrides = None,
    as_json: options.AsJson = False,
) -> None:
    """Show the configuration a task would train with, as TOML that `--config` takes back."""
    from longhaul.app.build.sources import ConfigSources, resolve
    from longhaul.app.inspect.runs import show_config

    sources = ConfigSources(task=task, preset=preset, file=file, overrides=overrides or ())
    typer.echo(show_config(resolve(sources), as_json=as_json))


def tool(
    task: Annotated[str, typer.Argument(help="The task that brings the tool.")] = "",
    name: Annotated[str, typer.Argument(help="The tool; without one, all are listed.")] = "",
    arguments: Annotated[
        list[str] | None, typer.Argument(help="What the tool takes; -h shows it.")
    ] = None,
) -> None:
    """Run a tool that a task brings, or list them all."""
    from longhaul.app.inspect.runs import list_tools, run_tool

    typer.echo(run_tool(task, name, arguments or []) if name else list_tools())


def warm_up(
    tasks: Annotated[
        list[str] | None, typer.Argument(help="Tasks; without any, all that need no argument.")
    ] = None,
) -> None:
    """Compile the native code of tasks ahead, so that their first run starts at once."""
    from longhaul.app.diagnose.doctor import warm_up as compile_ahead

    compile_ahead(tasks or [], typer.echo)


def new_task(
    name: Annotated[str, typer.Argument(help="Name of the task and of its Python package.")],
    out: Annotated[Path, typer.Option(help="Folder to write the package into.")] = Path(),
) -> None:
    """Write a new task as a Python package: a small example that trains and has tests."""
    from longhaul.app.experiments.new_task import new_task as write_task

    typer.echo(write_task(name, out))

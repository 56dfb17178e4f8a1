"""Commands over what only a task understands: its records of a run, and its own tools."""

from __future__ import annotations

from typing import Annotated

import typer

from longhaul.cli import options


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    app.command()(records)
    app.command()(study)
    # What follows a task's name is for its tool, options and -h included.
    own = {"ignore_unknown_options": True, "allow_interspersed_args": False}
    app.command(context_settings=own)(tool)


def records(run: options.Run) -> None:
    """Make the files the run's task keeps of it from its logs, as training does by itself."""
    from longhaul.app.records import record_run

    typer.echo(record_run(run))


def study(
    run: options.Run,
    checkpoint: Annotated[
        str, typer.Option(help="latest, best, or the number of steps of a checkpoint.")
    ] = "latest",
    episodes: Annotated[int, typer.Option(help="Episodes to play again.")] = 6,
) -> None:
    """Look into a trained policy: what it did, step by step, in episodes of its evaluation."""
    from longhaul.app.study import StudyRequest, study_run

    typer.echo(study_run(run, StudyRequest(checkpoint, episodes)))


def tool(
    task: Annotated[str, typer.Argument(help="The task that brings the tool.")] = "",
    name: Annotated[str, typer.Argument(help="The tool; without one, all are listed.")] = "",
    arguments: Annotated[
        list[str] | None, typer.Argument(help="What the tool takes; -h shows it.")
    ] = None,
) -> None:
    """Run a tool that a task brings, or list them all."""
    from longhaul.app.tools import list_tools, run_tool

    typer.echo(run_tool(task, name, arguments or []) if name else list_tools())

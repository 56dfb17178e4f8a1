"""Commands that look at runs, tasks and configurations without changing anything."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from longhaul.cli import options


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    app.command()(evaluate)
    app.command()(inspect)
    app.command("schedule-replay")(schedule_replay)
    app.command()(tasks)
    app.command()(config)


def evaluate(
    run: options.Run,
    checkpoint: Annotated[
        str, typer.Option(help="latest, best, or the number of steps of a checkpoint.")
    ] = "latest",
    episodes: Annotated[int, typer.Option(help="Episodes to play.")] = 50,
    seed: Annotated[
        int | None, typer.Option(help="Where the episode seeds come from; the run's by default.")
    ] = None,
    greedy: Annotated[
        bool | None,
        typer.Option(
            "--greedy/--sampled", help="Most likely actions, or drawn ones; as the run did."
        ),
    ] = None,
    suite: Annotated[
        list[str] | None,
        typer.Option(help="A suite of the task to play, where it has some; may be repeated."),
    ] = None,
    against: Annotated[
        str,
        typer.Option(
            help="Compare episode by episode with a reference policy, a checkpoint or a run."
        ),
    ] = "",
    references: Annotated[
        bool, typer.Option("--references/--no-references", help="Play reference policies too.")
    ] = True,
    as_json: options.AsJson = False,
) -> None:
    """Measure a checkpoint on fixed episodes; the same call gives the same digits."""
    from longhaul.app.evaluate import EvaluationRequest, evaluate_run
    from longhaul.app.suite_evaluation import SuiteRequest

    request = EvaluationRequest(
        checkpoint=checkpoint,
        episodes=episodes,
        seed=seed,
        greedy=greedy,
        suites=SuiteRequest(tuple(suite or ()), against, references),
    )
    result = evaluate_run(run, request)
    typer.echo(result.as_json() if as_json else result.as_text())


def inspect(
    path: Annotated[Path, typer.Argument(help="A run directory or one of its checkpoints.")],
    as_json: options.AsJson = False,
) -> None:
    """Show what a run or a checkpoint holds, and whether it is whole."""
    from longhaul.app.inspect import inspect_path

    typer.echo(inspect_path(path, as_json=as_json))


def schedule_replay(
    run: options.Run,
    config: options.ConfigFile = None,
    overrides: options.Overrides = None,
    as_json: options.AsJson = False,
) -> None:
    """Run a changed schedule over a run's recorded metrics and show what it would decide."""
    from longhaul.app.replay import replay_run

    typer.echo(replay_run(run, file=config, overrides=overrides or (), as_json=as_json))


def tasks(as_json: options.AsJson = False) -> None:
    """List the tasks that can be trained."""
    from longhaul.app.catalogue import list_tasks

    typer.echo(list_tasks(as_json=as_json))


def config(
    task: options.Task,
    preset: options.Preset = "",
    file: options.ConfigFile = None,
    overrides: options.Overrides = None,
    as_json: options.AsJson = False,
) -> None:
    """Show the configuration a task would train with, as TOML that `--config` takes back."""
    from longhaul.app.catalogue import show_config
    from longhaul.app.configure import ConfigSources, resolve

    sources = ConfigSources(task=task, preset=preset, file=file, overrides=overrides or ())
    typer.echo(show_config(resolve(sources), as_json=as_json))

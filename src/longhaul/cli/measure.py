"""Commands that measure speed and check the machine."""

from __future__ import annotations

from typing import Annotated

import typer

from longhaul.cli import options

bench = typer.Typer(help="Measure speed, side by side in one run.", no_args_is_help=True)


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    app.add_typer(bench, name="bench")
    app.command()(doctor)


@bench.command("train")
def bench_train(
    task: options.Task = "gym:CartPole-v1",
    peer: Annotated[str, typer.Option(help="A peer to measure beside us: sb3 or none.")] = "none",
    total_timesteps: Annotated[int, typer.Option(help="Steps per measurement.")] = 100_000,
    repeats: Annotated[int, typer.Option(help="Measurements of each, taken in turn.")] = 3,
    preset: options.Preset = "",
    overrides: options.Overrides = None,
    as_json: options.AsJson = False,
) -> None:
    """Measure training in agent steps a second, and where the time goes."""
    from longhaul.app.bench import BenchRequest, bench_preset, bench_training
    from longhaul.app.configure import ConfigSources, resolve

    sources = ConfigSources(
        task=task, preset=preset or bench_preset(task), overrides=overrides or ()
    )
    request = BenchRequest(peer=peer, total_timesteps=total_timesteps, repeats=repeats)
    result = bench_training(resolve(sources), request)
    typer.echo(result.as_json() if as_json else result.as_text())


def doctor(
    task: Annotated[str, typer.Argument(help="A task to check as well.")] = "",
    as_json: options.AsJson = False,
) -> None:
    """Check versions, machine and, for a task, whether its environment keeps its promises."""
    from longhaul.app.doctor import examine

    report = examine(task)
    typer.echo(report.as_json() if as_json else report.as_text())
    if not report.healthy:
        raise typer.Exit(3)

"""Commands that measure speed."""

from __future__ import annotations

from typing import Annotated

import typer

from longhaul.cli import options

bench = typer.Typer(help="Measure speed on this machine.", no_args_is_help=True)

Repeats = Annotated[int, typer.Option(help="Measurements of each, taken in turn.")]


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    app.add_typer(bench, name="bench")


@bench.command("train")
def bench_train(
    task: options.Task = "gym:CartPole-v1",
    total_timesteps: Annotated[
        int, typer.Option(help="Steps per measurement; 0: as many as are enough.")
    ] = 0,
    repeats: Repeats = 3,
    preset: options.Preset = "",
    overrides: options.Overrides = None,
    as_json: options.AsJson = False,
) -> None:
    """Measure training in agent steps a second, and where the time goes."""
    from longhaul.app.bench.training import BenchRequest, bench_preset, bench_training
    from longhaul.app.build.sources import ConfigSources, resolve

    sources = ConfigSources(
        task=task, preset=preset or bench_preset(task), overrides=overrides or ()
    )
    found = bench_training(resolve(sources), BenchRequest(total_timesteps, repeats))
    typer.echo(found.as_json() if as_json else found.as_text())


@bench.command("env")
def bench_environment(
    task: options.Task = "gym:CartPole-v1",
    num_envs: Annotated[int, typer.Option(help="Environments stepped side by side.")] = 16,
    runtime: options.Runtimes = "both",
    seconds: Annotated[float, typer.Option(help="Length of each measurement.")] = 2.0,
    repeats: Repeats = 3,
    overrides: options.Overrides = None,
    as_json: options.AsJson = False,
) -> None:
    """Measure how fast environments are stepped, without any learning, in agent steps a second."""
    from longhaul.app.bench.training import EnvBenchRequest, bench_env
    from longhaul.app.build.sources import ConfigSources, resolve

    request = EnvBenchRequest(num_envs, runtime, seconds, repeats)
    found = bench_env(resolve(ConfigSources(task=task, overrides=overrides or ())), request)
    typer.echo(found.as_json() if as_json else found.as_text())

"""Commands that measure speed."""

from __future__ import annotations

from typing import Annotated

import typer

from longhaul.cli import options

bench = typer.Typer(help="Measure speed on this machine.", no_args_is_help=True)

Repeats = Annotated[int, typer.Option(help="Measurements of each system, taken in turn.")]


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    app.add_typer(bench, name="bench")


@bench.command("train")
def bench_train(
    task: options.Task = "gym:CartPole-v1",
    total_timesteps: Annotated[
        int, typer.Option(help="Steps per measurement; 0 chooses a sufficient number.")
    ] = 0,
    repeats: Repeats = 3,
    preset: options.Preset = "",
    overrides: options.Overrides = None,
    as_json: options.AsJson = False,
) -> None:
    """Measure training in agent steps per second, and the share of time of each stage."""
    from longhaul import api
    from longhaul.app.bench.training import BenchRequest, bench_preset, bench_training

    config = api.resolve_config(
        task, preset=preset or bench_preset(task), overrides=overrides or ()
    )
    found = bench_training(config, BenchRequest(total_timesteps, repeats))
    typer.echo(found.as_json() if as_json else found.as_text())


@bench.command("env")
def bench_environment(
    task: options.Task = "gym:CartPole-v1",
    num_envs: Annotated[int, typer.Option(help="Environments stepped in parallel.")] = 16,
    runtime: options.Runtimes = "both",
    seconds: Annotated[float, typer.Option(help="Length of each measurement.")] = 2.0,
    repeats: Repeats = 3,
    overrides: options.Overrides = None,
    as_json: options.AsJson = False,
) -> None:
    """Measure how fast environments are stepped, without learning, in agent steps per second."""
    from longhaul import api
    from longhaul.app.bench.training import EnvBenchRequest, bench_env

    request = EnvBenchRequest(num_envs, runtime, seconds, repeats)
    found = bench_env(api.resolve_config(task, overrides=overrides or ()), request)
    typer.echo(found.as_json() if as_json else found.as_text())

"""Commands about runs that explain themselves: what they say, and what that costs."""

from __future__ import annotations

from typing import Annotated

import typer

from longhaul.cli import options
from longhaul.cli.measure import bench


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    app.command()(hints)
    bench.command("watching")(bench_watching)


def hints(run: options.Run, as_json: options.AsJson = False) -> None:
    """Show what a run's recorded metrics say is wrong, and which setting to change."""
    from longhaul.app.hint_replay import replay_hints

    replayed = replay_hints(run)
    typer.echo(replayed.as_json() if as_json else replayed.as_text())


def bench_watching(
    task: options.Task = "fish",
    total_timesteps: Annotated[int, typer.Option(help="Steps per measurement.")] = 2_000_000,
    repeats: Annotated[int, typer.Option(help="Measurements of each, taken in turn.")] = 5,
    preset: options.Preset = "",
    overrides: options.Overrides = None,
    track: options.Track = None,
    as_json: options.AsJson = False,
) -> None:
    """Measure what hints, heartbeat, watchdog and other logs cost, beside a run without them."""
    from longhaul.app.bench import BenchRequest, bench_preset
    from longhaul.app.bench_watching import bench_watching as measure
    from longhaul.app.configure import ConfigSources, resolve

    sources = ConfigSources(
        task=task,
        preset=preset or bench_preset(task),
        flags={"track": {"to": track} if track else None},
        overrides=overrides or (),
    )
    request = BenchRequest(total_timesteps=total_timesteps, repeats=repeats)
    result = measure(resolve(sources), request)
    typer.echo(result.as_json() if as_json else result.as_text())

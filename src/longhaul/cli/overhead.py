"""The command that measures what watching a run costs."""

from __future__ import annotations

from typing import Annotated

import typer

from longhaul.cli import options


def register(group: typer.Typer) -> None:
    """Add the command of this file to the group of measurements."""
    group.command("overhead")(bench_overhead)


def bench_overhead(
    task: options.Task = "fish",
    total_timesteps: Annotated[int, typer.Option(help="Steps per measurement.")] = 1_500_000,
    repeats: Annotated[int, typer.Option(help="Measurements of each, taken in turn.")] = 5,
    preset: options.Preset = "",
    overrides: options.Overrides = None,
    as_json: options.AsJson = False,
) -> None:
    """Measure what hints, heartbeat, resources, tables and trackers cost in throughput."""
    from longhaul.app.bench import bench_preset
    from longhaul.app.bench_overhead import bench_overhead as measure
    from longhaul.app.configure import ConfigSources, resolve

    sources = ConfigSources(
        task=task, preset=preset or bench_preset(task), overrides=overrides or ()
    )
    found = measure(resolve(sources), total_timesteps=total_timesteps, repeats=repeats)
    typer.echo(found.as_json() if as_json else found.as_text())

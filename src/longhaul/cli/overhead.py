"""Commands that measure what watching a run costs, and what a cluster does."""

from __future__ import annotations

from typing import Annotated

import typer

from longhaul.cli import options


def register(group: typer.Typer) -> None:
    """Add the commands of this file to the group of measurements."""
    group.command("overhead")(bench_overhead)
    group.command("cluster")(bench_collectors)


def bench_overhead(
    task: options.Task = "fish",
    total_timesteps: Annotated[int, typer.Option(help="Steps of each run.")] = 8_000_000,
    without_trackers: Annotated[
        bool, typer.Option("--without-trackers", help="Leave TensorBoard and a dead tracker out.")
    ] = False,
    preset: options.Preset = "",
    overrides: options.Overrides = None,
    as_json: options.AsJson = False,
) -> None:
    """Measure what hints, heartbeat, resources, tables and trackers cost in throughput."""
    from longhaul.app.bench.overhead import bench_overhead as measure
    from longhaul.app.bench.training import bench_preset
    from longhaul.app.configure import ConfigSources, resolve

    sources = ConfigSources(
        task=task, preset=preset or bench_preset(task), overrides=overrides or ()
    )
    found = measure(
        resolve(sources),
        total_timesteps=total_timesteps,
        with_trackers=not without_trackers,
    )
    typer.echo(found.as_json() if as_json else found.as_text())


def bench_collectors(
    task: options.Task = "probe:chase",
    total_timesteps: Annotated[
        int, typer.Option(help="Steps per measurement; 0: as many as are enough.")
    ] = 0,
    repeats: Annotated[int, typer.Option(help="Measurements of each, taken in turn.")] = 5,
    gigabits: Annotated[
        float, typer.Option(help="What the model takes for the learner's network, per second.")
    ] = 10.0,
    per_node: Annotated[int, typer.Option(help="Collectors a node has in the model.")] = 32,
    faster_learner: Annotated[
        float, typer.Option(help="How many times faster than here the model's learner learns.")
    ] = 1.0,
    preset: options.Preset = "",
    overrides: options.Overrides = None,
    as_json: options.AsJson = False,
) -> None:
    """Measure Ray on this machine beside this process alone, and project to larger clusters."""
    from longhaul.app.bench.cluster import bench_cluster
    from longhaul.app.configure import ConfigSources, resolve
    from longhaul.cluster.scaling import Network

    overlapped = ["collect.overlap=true", *(overrides or ())]
    config = resolve(ConfigSources(task=task, preset=preset, overrides=overlapped))
    found = bench_cluster(
        config,
        total_timesteps=total_timesteps,
        repeats=repeats,
        network=Network(gigabits, per_node),
        faster_learner=faster_learner,
    )
    typer.echo(found.as_json() if as_json else found.as_text())

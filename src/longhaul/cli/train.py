"""Commands that train: start or continue a run, and list tasks, their configs and tools."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from longhaul.cli import options


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    app.command()(train)
    app.command()(resume)
    app.command()(tasks)
    app.command()(config)
    # What follows a task's name belongs to its tool, options and -h included.
    own = {"ignore_unknown_options": True, "allow_interspersed_args": False}
    app.command(context_settings=own)(tool)


def train(
    task: options.Task,
    name: Annotated[str | None, typer.Option(help="Name of the run.")] = None,
    seed: options.Seed = None,
    total_timesteps: options.TotalTimesteps = None,
    num_envs: options.NumEnvs = None,
    device: Annotated[str | None, typer.Option(help="auto, cpu, cuda or cuda:N.")] = None,
    require_gpu: options.RequireGpu = False,
    preset: options.Preset = "",
    config: options.ConfigFile = None,
    overrides: options.Overrides = None,
    runs_root: options.RunsRoot = Path("runs"),
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="Show config, size of the network and memory plan, then stop."
        ),
    ] = False,
    resume_choice: options.ResumeChoice = "same",
    continue_from: options.ContinueFrom = None,
    on_memory: options.OnMemory = "stop",
    cluster: options.Cluster = None,
    capture_video: options.CaptureVideo = False,
    track: options.Track = None,
    report: options.Report = True,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Train a task; the same command continues an unfinished run of that name and seed."""
    sources: dict[str, Any] = {
        "preset": preset,
        "config": config,
        "overrides": overrides or (),
        "name": name,
        "seed": seed,
        "total_timesteps": total_timesteps,
        "num_envs": num_envs,
        "device": device,
        "report": {"film_evaluations": 1} if capture_video else None,
        "track": {"to": track} if track else None,
        "cluster": {"address": cluster} if cluster else None,
        "continue_from": continue_from,
    }
    from longhaul import api

    if dry_run:
        resolved = api.resolve_config(task, **sources)
        from longhaul.app.session.start import show_plan

        typer.echo(show_plan(resolved, as_json=as_json))
        return
    how = api.SessionOptions(as_json, quiet, require_gpu, report, on_memory)
    with ending_by_sigint():
        api.train(task, resume=resume_choice, runs_root=runs_root, session=how, **sources)


@contextmanager
def ending_by_sigint() -> Iterator[None]:
    """End an interrupted command by its exit code alone: the session has said what is saved."""
    try:
        yield
    except KeyboardInterrupt:
        raise typer.Exit(128 + signal.SIGINT) from None


def resume(
    run: options.Run,
    total_timesteps: options.TotalTimesteps = None,
    cluster: options.Cluster = None,
    overrides: options.Overrides = None,
    report: options.Report = True,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Continue a run from its newest intact checkpoint, exactly as if it had never stopped."""
    from longhaul import api

    how = api.SessionOptions(as_json=as_json, quiet=quiet, report=report)
    changes = [*(overrides or ())]
    if cluster is not None:
        changes.append(f"cluster.address={json.dumps(cluster)}")
    with ending_by_sigint():
        api.resume(run, total_timesteps=total_timesteps, overrides=changes, session=how)


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
    """Show the config a task would train with, as TOML that `--config` accepts."""
    from longhaul import api
    from longhaul.app.inspect.runs import show_config

    resolved = api.resolve_config(task, preset=preset, config=file, overrides=overrides or ())
    typer.echo(show_config(resolved, as_json=as_json))


def tool(
    task: Annotated[str, typer.Argument(help="Task that has the tool.")] = "",
    name: Annotated[str, typer.Argument(help="Name of the tool; by default all are listed.")] = "",
    arguments: Annotated[
        list[str] | None, typer.Argument(help="Arguments of the tool; -h lists them.")
    ] = None,
) -> None:
    """Run a task's own tool, or list all tools."""
    from longhaul.app.inspect.runs import list_tools, run_tool

    typer.echo(run_tool(task, name, arguments or []) if name else list_tools())

"""Commands that make or continue a run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from longhaul.cli import options

if TYPE_CHECKING:
    from longhaul.app.evaluation.load import Run


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    app.command()(train)
    app.command()(resume)


def train(
    task: options.Task,
    name: Annotated[str | None, typer.Option(help="The run's name.")] = None,
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
        bool, typer.Option("--dry-run", help="Show the resolved config and memory plan, then stop.")
    ] = False,
    resume_choice: Annotated[
        str,
        typer.Option(
            "--resume",
            help="same: go on with the unfinished run of this name and seed, which must have this "
            "config; auto: with the newest run of ours with this name and config, if there is "
            "one, and say why; never: begin anew.",
        ),
    ] = "same",
    cluster: options.Cluster = None,
    capture_video: options.CaptureVideo = False,
    track: options.Track = None,
    report: options.Report = True,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Train a task; the same command again continues an unfinished run of that name and seed."""
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
    }
    from longhaul import api

    if dry_run:
        resolved = api.resolve_config(task, **sources)
        from longhaul.app.session.start import show_plan

        typer.echo(show_plan(resolved, as_json=as_json))
        return
    how = api.SessionOptions(as_json=as_json, quiet=quiet, require_gpu=require_gpu, report=report)
    leave(api.train(task, resume=resume_choice, runs_root=runs_root, options=how, **sources))


def leave(run: Run | None) -> NoReturn:
    """End the process with the exit code of its session."""
    outcome = None if run is None else run.outcome
    raise typer.Exit(0 if outcome is None else outcome.exit_code)


def resume(
    run: options.Run,
    total_timesteps: options.TotalTimesteps = None,
    cluster: options.Cluster = None,
    overrides: options.Overrides = None,
    report: options.Report = True,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Continue a run from its newest good checkpoint, exactly as if it had never stopped."""
    from longhaul import api

    how = api.SessionOptions(as_json=as_json, quiet=quiet, report=report)
    changes = [*(overrides or ())]
    if cluster is not None:
        changes.append(f"cluster.address={json.dumps(cluster)}")
    leave(api.resume(run, total_timesteps=total_timesteps, overrides=changes, options=how))

"""Commands that make or continue a run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from longhaul.cli import options


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    app.command()(train)
    app.command()(resume)
    app.command("verify-resume")(verify_resume)


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
    from longhaul.app.configure import ConfigSources, resolve

    flags = {
        "name": name,
        "seed": seed,
        "total_timesteps": total_timesteps,
        "num_envs": num_envs,
        "device": device,
        "report": {"film_evaluations": 1} if capture_video else None,
        "track": {"to": track} if track else None,
        "cluster": {"address": cluster} if cluster else None,
    }
    resolved = resolve(
        ConfigSources(task=task, preset=preset, file=config, flags=flags, overrides=overrides or ())
    )
    if not quiet:
        _tell_folder(resolved.name)
    # Imported here, because they take torch and with it seconds, which no mistake should wait for.
    from longhaul.app.auto_resume import train_by
    from longhaul.app.session import Asked
    from longhaul.app.train import show_plan

    if dry_run:
        typer.echo(show_plan(resolved, as_json=as_json))
        return
    asked = Asked(as_json=as_json, quiet=quiet, require_gpu=require_gpu, report=report)
    raise typer.Exit(train_by(resume_choice, resolved, runs_root, asked))


def _tell_folder(name: str) -> None:
    """Say what a run's folder is called where that is not simply its name."""
    from longhaul.runs.directory import slug

    if slug(name) != name.lower():
        typer.echo(f"longhaul: the folder of run {name!r} is named {slug(name)!r}", err=True)


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
    from longhaul.app.session import Asked
    from longhaul.app.train import resume_run

    asked = Asked(as_json=as_json, quiet=quiet, report=report)
    changes = [*(overrides or ())]
    if cluster is not None:
        changes.append(f"cluster.address={json.dumps(cluster)}")
    raise typer.Exit(resume_run(run, asked, total_timesteps=total_timesteps, overrides=changes))


def verify_resume(
    task: options.Task = "gym:CartPole-v1",
    iterations: Annotated[int, typer.Option(help="Length of the compared runs.")] = 12,
    interruptions: Annotated[int, typer.Option(help="How often the second run is cut.")] = 3,
    kill: Annotated[
        bool, typer.Option("--kill", help="Cut with SIGKILL at random moments of a real process.")
    ] = False,
    preset: options.Preset = "",
    config: options.ConfigFile = None,
    overrides: options.Overrides = None,
    seed: options.Seed = None,
    num_envs: options.NumEnvs = None,
    as_json: options.AsJson = False,
) -> None:
    """Prove on this machine that an interrupted and resumed run equals an uninterrupted one."""
    from longhaul.app.configure import ConfigSources, resolve

    sources = ConfigSources(
        task=task,
        preset=preset,
        file=config,
        flags={"seed": seed, "num_envs": num_envs},
        overrides=overrides or (),
    )
    resolved = resolve(sources)
    from longhaul.app.verify import Trial, odd_sized, verify

    trial = Trial(iterations=iterations, interruptions=interruptions, kill=kill)
    report = verify(odd_sized(resolved, sources), trial)
    typer.echo(report.as_json() if as_json else report.as_text())
    if not report.equal:
        raise typer.Exit(1)

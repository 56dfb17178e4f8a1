"""Commands that check the machine, the environments and that a run resumes exactly."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from longhaul.cli import options

Deadline = Annotated[float, typer.Option("--deadline", help="Seconds before it counts as stuck.")]


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    app.command()(doctor)
    app.command()(reproduce)
    app.command("verify-resume")(verify_resume)


def doctor(
    task: Annotated[str, typer.Argument(help="A task to check as well.")] = "",
    trials: Annotated[
        int, typer.Option(help="Make, reset and step its environments so often, in each runtime.")
    ] = 0,
    num_envs: Annotated[int, typer.Option(help="Environments side by side in a trial.")] = 8,
    runtime: options.Runtimes = "both",
    deadline: Deadline = 60.0,
    output: Annotated[
        Path, typer.Option(help="Where the trials' report and summary are written.")
    ] = Path(),
    as_json: options.AsJson = False,
) -> None:
    """Check versions, machine and, for a task, whether its environment keeps its promises.

    Ends with exit code 3 if anything is bad or any trial fails.
    """
    from longhaul.app.diagnose.doctor import examine
    from longhaul.app.diagnose.trials import TrialRequest

    request = TrialRequest(trials, num_envs, runtime, deadline, output) if trials else None
    report = examine(task, request, notify=lambda line: typer.echo(line, err=True))
    typer.echo(report.as_json() if as_json else report.as_text())
    if not report.healthy:
        raise typer.Exit(3)


def reproduce(
    file: Annotated[Path, typer.Argument(help="A crash/repro-*.json of a run.")],
    task: Annotated[
        str, typer.Option(help="The task of the run, where the file cannot make its environment.")
    ] = "",
    deadline: Deadline = 60.0,
    as_json: options.AsJson = False,
) -> None:
    """Play an environment's failure again in a process of its own, and say what happens.

    Ends with exit code 0 if it fails as it did in the run, and with 1 if it does not.
    """
    from longhaul.app.diagnose.reproduce import reproduce_file

    verdict = reproduce_file(file, task=task, deadline_seconds=deadline)
    typer.echo(verdict.as_json() if as_json else verdict.as_text())
    if not verdict.is_same:
        raise typer.Exit(1)


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
    from longhaul.app.build.sources import ConfigSources, resolve

    sources = ConfigSources(
        task=task,
        preset=preset,
        file=config,
        flags={"seed": seed, "num_envs": num_envs},
        overrides=overrides or (),
    )
    resolved = resolve(sources)
    from longhaul.app.diagnose.verify import Interruption, odd_sized, verify

    trial = Interruption(iterations=iterations, interruptions=interruptions, kill=kill)
    report = verify(odd_sized(resolved, sources), trial)
    typer.echo(report.as_json() if as_json else report.as_text())
    if not report.equal:
        raise typer.Exit(1)

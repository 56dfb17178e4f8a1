"""Commands that check the machine, environments and exact resume, and that compile ahead."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from longhaul.cli import options
from longhaul.core.errors import ConfigError

Deadline = Annotated[
    float, typer.Option("--deadline", help="Seconds after which a process counts as stuck.")
]


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    app.command()(doctor)
    app.command()(reproduce)
    app.command("verify-resume")(verify_resume)
    app.command("warm-up")(warm_up)


def doctor(
    task: Annotated[str, typer.Argument(help="Task to check as well.")] = "",
    trials: Annotated[
        int,
        typer.Option(
            help="Number of times to make, reset and step its environments, in each runtime."
        ),
    ] = 0,
    num_envs: Annotated[int, typer.Option(help="Environments in one trial.")] = 8,
    runtime: options.Runtimes = "both",
    deadline: Deadline = 60.0,
    output: Annotated[
        Path, typer.Option(help="Folder for the report and summary of the trials.")
    ] = Path(),
    baseline: Annotated[
        Path | None,
        typer.Option(help="File of earlier trials to compare with; written if there is none."),
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Check versions, the machine and, for a task, its environment's API and seeds.

    The exit code is 3 if a check or a trial fails, or is worse than the baseline.
    """
    from longhaul.app.diagnose.doctor import examine
    from longhaul.app.diagnose.trials import TrialRequest

    if baseline is not None and not trials:
        raise ConfigError("--baseline needs --trials, for example --trials 10")
    request = (
        TrialRequest(trials, num_envs, runtime, deadline, output, baseline) if trials else None
    )
    report = examine(task, request, notify=lambda line: typer.echo(line, err=True))
    typer.echo(report.as_json() if as_json else report.as_text())
    if not report.healthy:
        raise typer.Exit(3)


def reproduce(
    file: Annotated[Path, typer.Argument(help="A crash/repro-*.json file of a run.")],
    task: Annotated[
        str, typer.Option(help="Task of the run, if the file alone cannot make its environment.")
    ] = "",
    deadline: Deadline = 60.0,
    as_json: options.AsJson = False,
) -> None:
    """Reproduce an environment's failure in a separate process.

    The exit code is 0 if it fails as in the run, 1 if not.
    """
    from longhaul.app.diagnose.reproduce import reproduce_file

    verdict = reproduce_file(file, task=task, deadline_seconds=deadline)
    typer.echo(verdict.as_json() if as_json else verdict.as_text())
    if not verdict.is_same:
        raise typer.Exit(1)


def verify_resume(
    task: options.Task = "gym:CartPole-v1",
    iterations: Annotated[int, typer.Option(help="Iterations of the compared runs.")] = 12,
    interruptions: Annotated[int, typer.Option(help="Interruptions of the second run.")] = 3,
    kill: Annotated[
        bool, typer.Option("--kill", help="Interrupt by SIGKILL at random times.")
    ] = False,
    controls: Annotated[
        bool,
        typer.Option(
            "--controls", help="Also resume without each part of a checkpoint, which must differ."
        ),
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

    trial = Interruption(iterations, interruptions, kill=kill, controls=controls)
    report = verify(odd_sized(resolved, sources), trial)
    typer.echo(report.as_json() if as_json else report.as_text())
    if not report.sound:
        raise typer.Exit(1)


def warm_up(
    tasks: Annotated[
        list[str] | None,
        typer.Argument(help="Tasks to compile; by default all that need no argument."),
    ] = None,
) -> None:
    """Compile the native code of tasks now; their first runs then start faster."""
    from longhaul.app.diagnose.doctor import warm_up as compile_ahead

    compile_ahead(tasks or [], typer.echo)

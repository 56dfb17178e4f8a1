"""Commands that measure speed and check the machine and the environments."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from longhaul.cli import options

bench = typer.Typer(help="Measure speed, side by side in one run.", no_args_is_help=True)

DEFAULT_ENVS = 16

Runtimes = Annotated[
    str, typer.Option(help="How to run them: serial, processes, batched, or both it can have.")
]
PeerPython = Annotated[
    Path, typer.Option(help="mario: the Python that has the peers; see make peers-mario.")
]
Deadline = Annotated[float, typer.Option("--deadline", help="Seconds before it counts as stuck.")]


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    app.add_typer(bench, name="bench")
    app.command("warm-up")(warm_up)
    app.command()(doctor)
    app.command()(reproduce)


@bench.command("train")
def bench_train(
    task: options.Task = "gym:CartPole-v1",
    peer: Annotated[
        str,
        typer.Option(
            help="A peer to measure beside us: sb3 or none; "
            "for mario sb3, sample-factory, sb3-today, all or none."
        ),
    ] = "none",
    total_timesteps: Annotated[
        int, typer.Option(help="Steps per measurement; 0: as many as are enough.")
    ] = 0,
    repeats: Annotated[int, typer.Option(help="Measurements of each, taken in turn.")] = 3,
    preset: options.Preset = "",
    overrides: options.Overrides = None,
    peer_python: PeerPython = Path(".venv-peers/bin/python"),
    sample_factory_python: Annotated[
        Path,
        typer.Option(help="mario: the Python that has it; see make peers-sample-factory."),
    ] = Path(".venv-sample-factory/bin/python"),
    as_json: options.AsJson = False,
) -> None:
    """Measure training in agent steps a second, and where the time goes."""
    from longhaul.app.bench.mario_training import PeerPythons, bench_game_training, trains_game
    from longhaul.app.bench.predecessor import bench_predecessor, has_predecessor
    from longhaul.app.bench.training import BenchRequest, bench_preset, bench_training
    from longhaul.app.configure import ConfigSources, resolve

    sources = ConfigSources(
        task=task, preset=preset or bench_preset(task), overrides=overrides or ()
    )
    if trains_game(task):
        pythons = PeerPythons(peer_python, sample_factory_python)
        named = ConfigSources(task=task, preset=preset, overrides=overrides or ())
        asked = BenchRequest(peer, total_timesteps, repeats)
        game = bench_game_training(named, asked, pythons, lambda line: typer.echo(line, err=True))
        typer.echo(game.as_json() if as_json else game.as_text())
        return
    request = BenchRequest(peer, total_timesteps, repeats)
    if peer != "none" and has_predecessor(task):
        beside = bench_predecessor(resolve(sources), request)
        typer.echo(beside.as_json() if as_json else beside.as_text())
        return
    result = bench_training(resolve(sources), request)
    typer.echo(result.as_json() if as_json else result.as_text())


@bench.command("env")
def bench_environment(
    task: options.Task = "gym:longhaul/FreePixels-v0",
    num_envs: Annotated[
        int,
        typer.Option(help="Environments stepped side by side; 0: 16, or the task's own sizes."),
    ] = 0,
    peer: Annotated[
        str,
        typer.Option(
            help="Peers to measure beside us: sb3, gymnasium, all or none; "
            "for mario nes-py, sync, async, all or none."
        ),
    ] = "none",
    runtime: Runtimes = "both",
    seconds: Annotated[float, typer.Option(help="Length of each measurement.")] = 2.0,
    repeats: Annotated[int, typer.Option(help="Measurements of each, taken in turn.")] = 3,
    overrides: options.Overrides = None,
    rom: Annotated[str, typer.Option(help="mario: the .nes file, where it is not found.")] = "",
    peer_python: PeerPython = Path(".venv-peers/bin/python"),
    as_json: options.AsJson = False,
) -> None:
    """Measure how fast environments are stepped, without any learning, in agent steps a second."""
    from longhaul.app.bench.env import EnvBenchRequest, bench_env
    from longhaul.app.bench.variants import bench_variants, has_variants
    from longhaul.app.configure import ConfigSources, resolve

    request = EnvBenchRequest(num_envs or DEFAULT_ENVS, peer, runtime, seconds, repeats)
    if task == "mario":
        from longhaul.app.bench.mario import bench_mario

        game = bench_mario(request, rom=rom, python=peer_python)
        typer.echo(game.as_json() if as_json else game.as_text())
        return
    if has_variants(task) and not overrides and num_envs == 0:
        found = bench_variants(task, seconds=seconds, repeats=repeats)
        typer.echo(found.as_json() if as_json else found.as_text())
        return
    result = bench_env(resolve(ConfigSources(task=task, overrides=overrides or ())), request)
    typer.echo(result.as_json() if as_json else result.as_text())


@bench.command("recovery")
def bench_killed_workers(
    task: options.Task = "gym:CartPole-v1",
    num_envs: Annotated[int, typer.Option(help="Environments stepped side by side.")] = 16,
    kills: Annotated[int, typer.Option(help="Workers killed, one after another.")] = 20,
    window: Annotated[float, typer.Option(help="Seconds of each measurement of speed.")] = 1.0,
    overrides: options.Overrides = None,
    as_json: options.AsJson = False,
) -> None:
    """Kill worker processes in mid-step and measure how soon all is as before.

    Ends with exit code 3 if the environments were not as fast again within 10 seconds every time.
    """
    from longhaul.app.bench.recovery import RecoveryRequest, bench_recovery
    from longhaul.app.configure import ConfigSources, resolve

    request = RecoveryRequest(num_envs, kills, window)
    result = bench_recovery(resolve(ConfigSources(task=task, overrides=overrides or ())), request)
    typer.echo(result.as_json() if as_json else result.as_text())
    if not result.is_fast_again:
        raise typer.Exit(3)


def warm_up(
    tasks: Annotated[
        list[str] | None, typer.Argument(help="Tasks; without any, all that need no argument.")
    ] = None,
) -> None:
    """Compile the native code of tasks ahead, so that their first run starts at once."""
    from longhaul.app.warm_up import warm_up as compile_ahead

    compile_ahead(tasks or [], typer.echo)


def doctor(
    task: Annotated[str, typer.Argument(help="A task to check as well.")] = "",
    trials: Annotated[
        int, typer.Option(help="Make, reset and step its environments so often, in each runtime.")
    ] = 0,
    num_envs: Annotated[int, typer.Option(help="Environments side by side in a trial.")] = 8,
    runtime: Runtimes = "both",
    deadline: Deadline = 60.0,
    output: Annotated[
        Path, typer.Option(help="Where the trials' report and summary are written.")
    ] = Path(),
    as_json: options.AsJson = False,
) -> None:
    """Check versions, machine and, for a task, whether its environment keeps its promises.

    Ends with exit code 3 if anything is bad or any trial fails.
    """
    from longhaul.app.doctor import examine
    from longhaul.app.trials import TrialRequest

    request = TrialRequest(trials, num_envs, runtime, deadline, output) if trials else None
    report = examine(task, request, tell=lambda line: typer.echo(line, err=True))
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
    from longhaul.app.reproduce import reproduce_file

    verdict = reproduce_file(file, task=task, deadline_seconds=deadline)
    typer.echo(verdict.as_json() if as_json else verdict.as_text())
    if not verdict.is_same:
        raise typer.Exit(1)

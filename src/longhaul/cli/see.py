"""Commands that show runs to people: films, reports, comparisons."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from longhaul.cli import options


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    app.command()(watch)
    app.command()(report)
    app.command()(compare)
    app.command()(runs)
    app.command()(serve)
    app.command("new-experiment")(new_experiment)


def watch(
    run: options.Run,
    checkpoint: options.Checkpoint = "latest",
    episode: Annotated[
        str, typer.Option(help="worst, median, best, or an episode's number in the evaluation.")
    ] = "worst",
    count: Annotated[int, typer.Option(help="Films to make, from the episode chosen on.")] = 1,
    suite: Annotated[
        str, typer.Option(help="Film episodes of this suite of the task, as evaluate takes it.")
    ] = "",
    gif: Annotated[bool, typer.Option("--gif", help="Write a GIF instead of an MP4.")] = False,
    out: Annotated[
        Path | None, typer.Option(help="Where the film goes, .mp4 or .gif; media/ by default.")
    ] = None,
    live: Annotated[
        bool, typer.Option("--live", help="Play in the terminal instead of writing a film.")
    ] = False,
    as_json: options.AsJson = False,
) -> None:
    """Film episodes of a checkpoint's evaluation, with what the policy does and expects beside."""
    from longhaul.app.watch import FilmRequest, play_live, watch_run

    request = FilmRequest(checkpoint, episode, count, gif=gif, out=out, suite=suite)
    if live:
        from rich.console import Console

        play_live(run, request, Console())
        return
    films = watch_run(run, request)
    if as_json:
        typer.echo(json.dumps([film.as_row() for film in films]))
    else:
        typer.echo("\n".join(film.as_text() for film in films))


def report(run: options.Run, as_json: options.AsJson = False) -> None:
    """Write a run's plots, its report as one page, and the parts of its notebook it can fill in."""
    from longhaul.app.report import report_run

    made = report_run(run)
    if as_json:
        paths = {"report": str(made.page), "notebook": str(made.notebook), "plots": made.plots}
        typer.echo(json.dumps(paths))
    else:
        typer.echo(made.as_text())


def compare(
    targets: Annotated[
        list[str], typer.Argument(help="Two or more run directories, or one task with --arms.")
    ],
    arms: Annotated[
        str,
        typer.Option(
            help="Ways to train the task: presets by commas, or name:key=value;key=value each."
        ),
    ] = "",
    seeds: Annotated[int, typer.Option(help="Runs of each arm, with seeds from 1 on.")] = 3,
    jobs: options.Jobs = 1,
    cluster: options.JobsCluster = "",
    cpus_per_job: options.CpusPerJob = 1.0,
    overrides: options.Overrides = None,
    runs_root: options.RunsRoot = Path("runs"),
    anyway: Annotated[
        bool, typer.Option("--anyway", help="Compare runs whose conditions are not equal.")
    ] = False,
    out: Annotated[Path | None, typer.Option(help="The folder of the page and its plots.")] = None,
    as_json: options.AsJson = False,
) -> None:
    """Compare runs, or train the arms of an experiment and compare them, with intervals."""
    from longhaul.app.arms import Arm, Experiment
    from longhaul.app.compare import compare_arms, compare_runs
    from longhaul.app.trial_place import TrialPlace
    from longhaul.core.errors import ConfigError

    if not arms:
        found = compare_runs([Path(target) for target in targets], anyway=anyway, out=out)
    elif len(targets) == 1:
        ways = tuple(Arm.parse(arm) for arm in arms.split(","))
        place = TrialPlace(cluster, jobs, cpus_per_job)
        changes = tuple(overrides or ())
        experiment = Experiment(targets[0], ways, seeds, runs_root, changes, place=place)
        found = compare_arms(experiment, lambda text: typer.echo(text, err=True), out=out)
    else:
        raise ConfigError("--arms trains one task; give its name alone")
    typer.echo(found.as_json() if as_json else found.as_text())


def runs(
    runs_root: options.RunsRoot = Path("runs"),
    task: Annotated[str, typer.Option(help="Only runs of this task.")] = "",
    as_json: options.AsJson = False,
) -> None:
    """List runs, one line each: how they stand, how far they came, what they reached."""
    from longhaul.app.listing import list_runs

    typer.echo(list_runs(runs_root, task=task, as_json=as_json))


def serve(
    root: Annotated[Path, typer.Argument(metavar="RUNS", help="The folder of all runs.")] = Path(
        "runs"
    ),
    host: Annotated[
        str, typer.Option(help="The address to listen at; any but this machine's own asks a token.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="The port; 0 takes one that is free.")] = 8765,
    token: Annotated[
        str,
        typer.Option(
            envvar="LONGHAUL_TOKEN", help="Ask everybody for it; made if other machines can come."
        ),
    ] = "",
    allow_host: Annotated[
        list[str] | None,
        typer.Option(help="A further name this server is reached by; may be repeated."),
    ] = None,
) -> None:
    """Show runs in the browser, live: curves, schedules, hints, films; reads them and no more."""
    from longhaul.app.serve import serve_runs

    serve_runs(root, typer.echo, host=host, port=port, token=token, allowed_hosts=allow_host or ())


def new_experiment(
    from_run: Annotated[Path, typer.Option("--from", help="The run the next one builds on.")],
    name: Annotated[str, typer.Option(help="Its name; the next number by default.")] = "",
    overrides: options.Overrides = None,
    out: Annotated[Path, typer.Option(help="Where its config and notes go.")] = Path("experiments"),
) -> None:
    """Begin the next experiment: what differs from the preset as a config, and notes to fill in."""
    from longhaul.app.new_experiment import begin_experiment

    typer.echo(begin_experiment(from_run, name, overrides or (), out).as_text())

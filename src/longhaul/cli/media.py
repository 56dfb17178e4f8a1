"""Commands that write films, reports and policy files of a run, or serve it as a web page."""

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
    app.command()(serve)
    app.command()(export)
    app.command("import-torch")(import_torch)


def watch(
    run: options.Run,
    checkpoint: options.Checkpoint = "latest",
    episode: Annotated[
        str, typer.Option(help="worst, median, best, or an episode's number in the evaluation.")
    ] = "worst",
    count: Annotated[
        int, typer.Option(help="Number of films, starting with the chosen episode.")
    ] = 1,
    suite: Annotated[
        str, typer.Option(help="Film episodes of this suite, as `evaluate --suite` takes it.")
    ] = "",
    gif: Annotated[bool, typer.Option("--gif", help="Write a GIF instead of an MP4.")] = False,
    out: Annotated[
        Path | None, typer.Option(help="File to write, .mp4 or .gif; in media/ by default.")
    ] = None,
    live: Annotated[
        bool, typer.Option("--live", help="Play in the terminal instead of writing a film.")
    ] = False,
    as_json: options.AsJson = False,
) -> None:
    """Film episodes of a checkpoint's evaluation, with the policy's actions and values."""
    from longhaul.app.artifacts.films import FilmRequest, play_live, watch_run
    from longhaul.app.evaluation.load import Run

    request = FilmRequest(checkpoint, episode, count, gif=gif, out=out, suite=suite)
    if live:
        from rich.console import Console

        play_live(Run(run), request, Console())
        return
    films = watch_run(Run(run), request)
    if as_json:
        typer.echo(json.dumps([film.as_row() for film in films]))
    else:
        typer.echo("\n".join(film.as_text() for film in films))


def report(run: options.Run, as_json: options.AsJson = False) -> None:
    """Write a run's plots and report, and fill in the measured parts of its notebook."""
    from longhaul.app.artifacts.report import report_run

    made = report_run(run)
    if as_json:
        paths = {"report": str(made.page), "notebook": str(made.notebook), "plots": made.plots}
        typer.echo(json.dumps(paths))
    else:
        typer.echo(made.as_text())


def serve(
    root: Annotated[Path, typer.Argument(metavar="RUNS", help="Folder of all runs.")] = Path(
        "runs"
    ),
    host: Annotated[
        str, typer.Option(help="Address to listen on; other than loopback, a token is required.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on; 0 takes a free one.")] = 8765,
    token: Annotated[
        str,
        typer.Option(
            envvar="LONGHAUL_TOKEN",
            help="Token that every client must send; generated if other machines can connect.",
        ),
    ] = "",
    allow_host: Annotated[
        list[str] | None,
        typer.Option(help="Additional host name of this server; may be repeated."),
    ] = None,
) -> None:
    """Show runs in the browser, live: curves, schedules, hints, films. Read-only."""
    from longhaul.app.inspect.runs import serve_runs

    serve_runs(root, typer.echo, host=host, port=port, token=token, allowed_hosts=allow_host or ())


def export(
    run: options.Run,
    checkpoint: options.Checkpoint = "latest",
    out: Annotated[
        Path | None, typer.Option(help="Folder to write; in the run directory by default.")
    ] = None,
    onnx: Annotated[
        bool, typer.Option("--onnx/--no-onnx", help="Write an ONNX graph too, where possible.")
    ] = True,
    as_json: options.AsJson = False,
) -> None:
    """Export a checkpoint's policy to a folder that loads without the run, and to ONNX."""
    from longhaul.app.artifacts.export import export_run
    from longhaul.app.evaluation.load import Run

    made = export_run(Run(run), checkpoint, out, onnx=onnx)
    typer.echo(made.as_json() if as_json else made.as_text())


def import_torch(
    file: Annotated[Path, typer.Argument(help="A .pt file with weights, compiled or plain.")],
    task: Annotated[str, typer.Option(help="Task whose policy takes the weights.")],
    out: Annotated[
        Path | None, typer.Option(help="Folder for the policy; without it, only print the matches.")
    ] = None,
    renames: Annotated[
        list[str] | None,
        typer.Option("--map", metavar="OLD=NEW", help="Replace this prefix of weight names."),
    ] = None,
    partial: Annotated[
        bool, typer.Option("--partial", help="Write it even if weights are missing.")
    ] = False,
    preset: options.Preset = "",
    config: options.ConfigFile = None,
    overrides: options.Overrides = None,
    as_json: options.AsJson = False,
) -> None:
    """Import the weights of a PyTorch file without running its code, and print the matches."""
    from longhaul import api
    from longhaul.app.artifacts.import_torch import Request, import_weights

    resolved = api.resolve_config(task, preset=preset, config=config, overrides=overrides or ())
    found = import_weights(resolved, Request(file, tuple(renames or ()), out, partial))
    typer.echo(found.as_json() if as_json else found.as_text())

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


def watch(
    run: options.Run,
    checkpoint: options.Checkpoint = "latest",
    episode: Annotated[
        str, typer.Option(help="worst, median, best, or an episode's number in the evaluation.")
    ] = "worst",
    count: Annotated[int, typer.Option(help="Films to make, from the episode chosen on.")] = 1,
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

    request = FilmRequest(checkpoint, episode, count, gif=gif, out=out)
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

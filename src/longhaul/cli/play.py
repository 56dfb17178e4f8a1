"""The command that lets people play."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from longhaul.cli import options


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    app.command()(play)


def play(
    task: Annotated[str, typer.Argument(help="The game to play: mario.")],
    stage: Annotated[str, typer.Option(help="The stage to begin with, 1-1 to 8-4.")] = "1-1",
    script: Annotated[
        str, typer.Option(help="Buttons and frames to hold them for, such as RIGHT+B:180,A:20.")
    ] = "",
    movie: Annotated[
        Path | None, typer.Option(help="A movie to replay, ours or an .fm2 of FCEUX.")
    ] = None,
    record: Annotated[
        Path | None, typer.Option(help="Where to write the movie of what was pressed.")
    ] = None,
    film: Annotated[
        Path | None, typer.Option(help="Where to write a film of it, .mp4 or .gif.")
    ] = None,
    rom: Annotated[str, typer.Option(help="The game's .nes file, where it is not found.")] = "",
    as_json: options.AsJson = False,
) -> None:
    """Play a game with the keys of the terminal, by a script or by a movie."""
    from longhaul.app.play import PlayRequest
    from longhaul.app.play import play as play_through

    request = PlayRequest(task, stage, script, movie, record, film, rom)
    if request.is_by_hand:
        from rich.console import Console

        from longhaul.app.play_live import play_by_hand

        played = play_by_hand(request, Console())
    else:
        played = play_through(request)
    typer.echo(played.as_json() if as_json else played.as_text())

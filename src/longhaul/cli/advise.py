"""The command that tells what a run says of itself."""

from __future__ import annotations

import typer

from longhaul.cli import options


def register(app: typer.Typer) -> None:
    """Add the command of this file."""
    app.command()(hints)


def hints(run: options.Run, as_json: options.AsJson = False) -> None:
    """Show what a run's recorded metrics say is wrong, and which setting to change."""
    from longhaul.app.hint_replay import replay_hints

    replayed = replay_hints(run)
    typer.echo(replayed.as_json() if as_json else replayed.as_text())

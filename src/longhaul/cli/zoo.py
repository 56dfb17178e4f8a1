"""Commands for the trained policies that come with longhaul."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from longhaul.cli import options


def known(name: str) -> str:
    """Return the name of a policy; raise early, before torch is imported, if there is none."""
    from longhaul.app.evaluation.zoo import PREFIX, zoo_folder

    return zoo_folder(name.removeprefix(PREFIX)).name


Name = Annotated[
    str, typer.Argument(help="Name of a policy; see `longhaul zoo list`.", callback=known)
]
zoo = typer.Typer(
    help="Trained policies that come with longhaul; `longhaul.load('zoo:NAME')` loads one.",
    no_args_is_help=True,
)


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    app.add_typer(zoo, name="zoo")


@zoo.command("list")
def list_policies(as_json: options.AsJson = False) -> None:
    """List the policies, one line each: task, training steps, score."""
    from longhaul.app.evaluation.zoo import zoo_cards, zoo_table

    cards = zoo_cards()
    if as_json:
        typer.echo(json.dumps([card.as_values() for card in cards]))
    else:
        typer.echo(zoo_table(cards))


@zoo.command()
def show(name: Name, as_json: options.AsJson = False) -> None:
    """Show a policy's card: how it was trained, what it reaches, and how that was measured."""
    from longhaul.app.evaluation.zoo import read_zoo_card

    card = read_zoo_card(name)
    typer.echo(json.dumps(card.as_values()) if as_json else card.as_text())


@zoo.command()
def evaluate(name: Name, as_json: options.AsJson = False) -> None:
    """Play the episodes of a policy's card again, and print both scores."""
    from longhaul.app.artifacts.zoo import evaluate_policy

    result = evaluate_policy(name)
    typer.echo(result.as_json() if as_json else result.as_text())


@zoo.command()
def watch(
    name: Name,
    episode: Annotated[
        str, typer.Option(help="worst, median, best, or an episode's number in the evaluation.")
    ] = "median",
    count: Annotated[
        int, typer.Option(help="Number of films, starting with the chosen episode.")
    ] = 1,
    gif: Annotated[bool, typer.Option("--gif", help="Write a GIF instead of an MP4.")] = False,
    out: Annotated[
        Path | None, typer.Option(help="File to write; NAME-EPISODE.mp4 here by default.")
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Film episodes of a policy's evaluation."""
    from longhaul.app.artifacts.films import FilmRequest
    from longhaul.app.artifacts.zoo import watch_policy

    films = watch_policy(name, FilmRequest(episode=episode, count=count, gif=gif, out=out))
    if as_json:
        typer.echo(json.dumps([film.as_row() for film in films]))
    else:
        typer.echo("\n".join(film.as_text() for film in films))

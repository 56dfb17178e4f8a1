"""The command line of NetHack: `longhaul nethack script`, `arms` and `knock-out`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from longhaul.cli import options

app = typer.Typer(no_args_is_help=True)
Actions = Annotated[str, typer.Option(help="The action set: score or extended.")]
Games = Annotated[int, typer.Option(help="Held-out games to play.")]


@app.command()
def script(
    without: Annotated[
        str, typer.Option(help="Skills to leave out, one after another, separated by commas.")
    ] = "",
    actions: Actions = "score",
    games: Games = 200,
    cap: Annotated[int, typer.Option(help="Steps after which a game is cut.")] = 2000,
    as_json: options.AsJson = False,
) -> None:
    """Measure the script, and what leaving out each of some skills costs, game by game."""
    from longhaul.tasks.nethack.commands.measure import measure_script

    left_out = tuple(name for name in without.split(",") if name)
    found = measure_script(left_out, actions=actions, games=games, cap=cap)
    typer.echo(found.as_json() if as_json else found.as_text())


@app.command("knock-out")
def knock_out(
    run: Annotated[Path, typer.Argument(help="A run of skills, or an exported policy.")],
    games: Games = 200,
    as_json: options.AsJson = False,
) -> None:
    """Measure what each expert is worth: play without its skills, on the same games."""
    from longhaul.tasks.nethack.commands.measure import measure_experts

    found = measure_experts(run, games=games)
    typer.echo(found.as_json() if as_json else found.as_text())


@app.command()
def arms(
    only: Annotated[
        str, typer.Option(help="Some of the arms, separated by commas; all by default.")
    ] = "",
    seeds: Annotated[int, typer.Option(help="Runs of each arm, with seeds 1, 2, ...")] = 5,
    overrides: options.Overrides = None,
    runs_root: options.RunsRoot = Path("runs"),
    as_json: options.AsJson = False,
) -> None:
    """Train the arms that show what rules and experts are worth, and compare them."""
    from longhaul.app.experiments.compare import compare_arms
    from longhaul.tasks.nethack.commands.arms import experiment

    asked = tuple(name for name in only.split(",") if name)
    planned = experiment(asked, seeds=seeds, root=runs_root, overrides=tuple(overrides or ()))
    found = compare_arms(planned, lambda words: typer.echo(words, err=True))
    typer.echo(found.as_json() if as_json else found.as_text())

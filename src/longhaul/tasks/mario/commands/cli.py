"""The command line of Mario: `longhaul mario play`, `movie` and `campaign`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from longhaul.cli import options

app = typer.Typer(no_args_is_help=True)

Explore = Annotated[
    bool,
    typer.Option(
        "--explore/--no-explore",
        help="Search the way through each course first, and train along it with the preset "
        "specialist.",
    ),
]


@app.command()
def play(
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
    rom: Annotated[
        str, typer.Option(help="The game's .nes file, if it is not found automatically.")
    ] = "",
    as_json: options.AsJson = False,
) -> None:
    """Play a game with the keys of the terminal, by a script or by a movie."""
    from longhaul.tasks.mario.commands.play import PlayRequest
    from longhaul.tasks.mario.commands.play import play as play_through

    request = PlayRequest(stage, script, movie, record, film, rom)
    if request.is_by_hand:
        from rich.console import Console

        from longhaul.tasks.mario.commands.play import play_by_hand

        played = play_by_hand(request, Console())
    else:
        played = play_through(request)
    typer.echo(played.as_json() if as_json else played.as_text())


@app.command()
def movie(
    demo: Annotated[Path, typer.Argument(help="A demonstration that longhaul explore wrote.")],
    out: Annotated[Path, typer.Option(help="The movie; an .fm2 for FCEUX if its name ends so.")],
    rom: Annotated[
        str, typer.Option(help="The game's .nes file, if it is not found automatically.")
    ] = "",
) -> None:
    """Write a demonstration as a movie of every frame's buttons, and play it to its end."""
    from longhaul.tasks.mario.commands.movie import export_demo

    typer.echo(export_demo(demo, out, rom).as_text())


@app.command()
def campaign(
    stages: Annotated[
        str, typer.Option(help="The courses: all, or single ones and ranges, as in 1-1,1-3..2-2.")
    ] = "all",
    budget: Annotated[str, typer.Option(help="How long to train in all: 90s, 15m, 2h.")] = "2h",
    slice_: Annotated[
        str,
        typer.Option(
            "--slice",
            help="Training time of a course per turn; empty: 1m to 4m, chosen so trying all "
            "takes half the budget.",
        ),
    ] = "",
    target: Annotated[float, typer.Option(help="The clear rate at which a course is left.")] = 0.8,
    name: Annotated[str, typer.Option(help="The campaign's name.")] = "campaign",
    preset: options.Preset = "",
    overrides: options.Overrides = None,
    films: Annotated[
        bool, typer.Option("--films/--no-films", help="Film the first clear of each course.")
    ] = True,
    transfer: Annotated[
        bool,
        typer.Option(
            "--transfer/--no-transfer",
            help="Begin a course with the weights of one that is cleared: the most alike, "
            "or else the one that is cleared most often.",
        ),
    ] = True,
    teacher: Annotated[
        str, typer.Option(help="A run whose weights courses begin with as long as none is cleared.")
    ] = "",
    explore: Explore = False,
    jobs: Annotated[int, typer.Option(help="How many courses are trained at a time.")] = 1,
    runs_root: options.RunsRoot = Path("runs"),
    as_json: options.AsJson = False,
) -> None:
    """Train stage by stage, where progress is likely; run it again to continue."""
    from longhaul.tasks.mario.commands.campaign import CampaignRequest, run_campaign

    request = CampaignRequest(
        courses=stages,
        budget_seconds=options.seconds_of(budget),
        slice_seconds=options.seconds_of(slice_) if slice_ else None,
        target=target,
        name=name,
        preset=preset,
        overrides=tuple(overrides or ()),
        root=runs_root,
        films=films,
        transfer=transfer,
        teacher=teacher,
        explore=explore,
        jobs=jobs,
    )
    report = run_campaign(request, lambda text: typer.echo(text, err=True))
    typer.echo(report.as_json() if as_json else report.as_text())
    raise typer.Exit(report.exit_code)

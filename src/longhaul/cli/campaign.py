"""The command that trains course after course."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from longhaul.cli import options


def register(app: typer.Typer) -> None:
    """Add the command of this file."""
    app.command()(campaign)


def campaign(
    task: options.Task,
    stages: Annotated[
        str, typer.Option(help="The courses: all, or single ones and spans, as in 1-1,1-3..2-2.")
    ] = "all",
    budget: Annotated[str, typer.Option(help="How long to train in all: 90s, 15m, 2h.")] = "2h",
    slice_: Annotated[
        str,
        typer.Option(
            "--slice",
            help="How long a course is trained at a time; empty: 1m to 4m, so that trying all "
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
        str,
        typer.Option(help="A run whose weights courses begin with as long as none is cleared."),
    ] = "",
    jobs: Annotated[int, typer.Option(help="How many courses are trained at a time.")] = 1,
    runs_root: options.RunsRoot = Path("runs"),
    as_json: options.AsJson = False,
) -> None:
    """Train a task course by course, where progress is likely; the same command goes on."""
    from longhaul.app.campaign import CampaignRequest, run_campaign, seconds_of

    request = CampaignRequest(
        task=task,
        courses=stages,
        budget_seconds=seconds_of(budget),
        slice_seconds=seconds_of(slice_) if slice_ else None,
        target=target,
        name=name,
        preset=preset,
        overrides=tuple(overrides or ()),
        root=runs_root,
        films=films,
        transfer=transfer,
        teacher=teacher,
        jobs=jobs,
    )
    report = run_campaign(request, lambda text: typer.echo(text, err=True))
    typer.echo(report.as_json() if as_json else report.as_text())
    raise typer.Exit(report.exit_code)

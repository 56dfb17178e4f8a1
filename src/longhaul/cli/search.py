"""The command that searches for better config values."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated

import typer

from longhaul.cli import options

Space = Annotated[
    list[str] | None,
    typer.Option(
        metavar="KEY=KIND:VALUES",
        help="A config key to search: KEY=float:LOW..HIGH, log:LOW..HIGH, int:LOW..HIGH, with "
        "/STEP behind if wanted, logint:LOW..HIGH or choice:A,B,C; may be repeated. `default` "
        "stands for the task's own space, which is searched if nothing is given.",
    ),
]
SpaceFile = Annotated[
    Path | None,
    typer.Option(help="A TOML file laid out like a config, with 'log:LOW..HIGH' or lists."),
]
Take = Annotated[
    str,
    typer.Option(
        help="What of the metric counts: tail, its mean over the last quarter of the trial; "
        "last; best; mean, over all of it."
    ),
]
Budget = Annotated[
    str, typer.Option(help="How long to search in all: 90s, 15m, 2h; without end by default.")
]
TrialTimeout = Annotated[
    str, typer.Option(help="How long one trial may take; one that takes longer has failed.")
]
Timesteps = Annotated[
    int | None,
    typer.Option(
        parser=options.whole_number("--timesteps"),
        help="Steps of a trial; as many as the task has by default.",
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing while trials are trained.")]


def register(app: typer.Typer) -> None:
    """Add the command of this file."""
    app.command()(search)


def search(
    task: options.Task,
    trials: Annotated[int, typer.Option(help="Trials, those of earlier calls included.")] = 20,
    space: Space = None,
    space_file: SpaceFile = None,
    objective: Annotated[
        str, typer.Option(help="The metric to look for; the task's score by default.")
    ] = "",
    direction: Annotated[str, typer.Option(help="maximize or minimize.")] = "maximize",
    take: Take = "tail",
    pruner: Annotated[
        str, typer.Option(help="How hopeless trials are ended early: median, hyperband or none.")
    ] = "median",
    budget: Budget = "",
    trial_timeout: TrialTimeout = "",
    timesteps: Timesteps = None,
    jobs: options.Jobs = 1,
    cluster: options.JobsCluster = "",
    cpus_per_job: options.CpusPerJob = 1.0,
    seed: Annotated[
        int, typer.Option(help="Where values are drawn from; trial N trains with seed SEED+N.")
    ] = 1,
    name: Annotated[str, typer.Option(help="The search's name.")] = "search",
    preset: options.Preset = "",
    config: options.ConfigFile = None,
    overrides: options.Overrides = None,
    runs_root: options.RunsRoot = Path("runs"),
    as_json: options.AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Search for better config values, trial by trial; the same command goes on."""
    from longhaul.app.search import plan
    from longhaul.app.search.report import search_and_report
    from longhaul.app.trial_place import TrialPlace

    request = plan.SearchRequest(
        task=task,
        trials=trials,
        space=tuple(space or ()),
        space_file=space_file,
        objective=objective,
        direction=plan.one_of("--direction", direction, plan.DIRECTIONS),
        take=plan.one_of("--take", take, plan.TAKES),
        pruner=plan.one_of("--pruner", pruner, plan.PRUNERS),
        budget_seconds=_seconds(budget),
        trial_seconds=_seconds(trial_timeout),
        timesteps=timesteps,
        seed=seed,
        place=TrialPlace(cluster, jobs, cpus_per_job),
        name=name,
        preset=preset,
        file=config,
        overrides=tuple(overrides or ()),
        root=runs_root,
    )
    searched = search_and_report(request, _hush if quiet else _tell)
    typer.echo(searched.as_json() if as_json else searched.as_text())
    raise typer.Exit(searched.exit_code)


def _seconds(text: str) -> float:
    from longhaul.app.campaign import seconds_of

    return seconds_of(text) if text else math.inf


def _tell(text: str) -> None:
    typer.echo(text, err=True)


def _hush(text: str) -> None:
    """Say nothing."""

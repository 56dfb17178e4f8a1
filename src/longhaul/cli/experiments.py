"""Commands that train several runs and compare them."""

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
    """Add the commands of this file."""
    app.command()(compare)
    app.command()(search)
    app.command("new-experiment")(new_experiment)


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
    from longhaul.core.errors import ConfigError

    if arms and len(targets) != 1:
        raise ConfigError("--arms trains one task; give its name alone")
    paths = [] if arms else [options.demand_run(Path(target)) for target in targets]
    # Imported here, because they take torch and with it seconds, which no mistake should wait for.
    from longhaul.app.experiments.arms import Arm, Experiment
    from longhaul.app.experiments.compare import compare_arms, compare_runs
    from longhaul.app.experiments.jobs import TrialPlace

    if arms:
        ways = tuple(Arm.parse(arm) for arm in arms.split(","))
        place = TrialPlace(cluster, jobs, cpus_per_job)
        changes = tuple(overrides or ())
        experiment = Experiment(targets[0], ways, seeds, runs_root, changes, place=place)
        found = compare_arms(experiment, _notify, out=out)
    else:
        found = compare_runs(paths, anyway=anyway, out=out)
    typer.echo(found.as_json() if as_json else found.as_text())


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
    _check_task(task, preset)
    from longhaul.app.experiments.jobs import TrialPlace
    from longhaul.app.experiments.search import plan
    from longhaul.app.experiments.search.report import search_and_report

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
    searched = search_and_report(request, _hush if quiet else _notify)
    typer.echo(searched.as_json() if as_json else searched.as_text())
    raise typer.Exit(searched.exit_code)


def new_experiment(
    from_run: Annotated[Path, typer.Option("--from", help="The run the next one builds on.")],
    name: Annotated[str, typer.Option(help="Its name; the next number by default.")] = "",
    overrides: options.Overrides = None,
    out: Annotated[Path, typer.Option(help="Where its config and notes go.")] = Path("experiments"),
) -> None:
    """Begin the next experiment: what differs from the preset as a config, and notes to fill in."""
    from longhaul.app.experiments.new_experiment import begin_experiment

    typer.echo(begin_experiment(from_run, name, overrides or (), out).as_text())


def _check_task(task: str, preset: str) -> None:
    """Refuse an unknown task or preset before torch is imported, which takes seconds."""
    from longhaul.app.build.sources import ConfigSources, resolve

    resolve(ConfigSources(task=task, preset=preset))


def _seconds(text: str) -> float:
    return options.seconds_of(text) if text else math.inf


def _notify(text: str) -> None:
    typer.echo(text, err=True)


def _hush(text: str) -> None:
    """Say nothing."""

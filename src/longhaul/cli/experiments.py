"""Commands that train several runs, compare them, and create experiments and tasks."""

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
        help="Config key to search: KEY=float:LOW..HIGH, log:LOW..HIGH, int:LOW..HIGH "
        "(optionally int:LOW..HIGH/STEP), logint:LOW..HIGH or choice:A,B,C; may be repeated. "
        "`default` is the task's own search space, which is used if no key is given.",
    ),
]
SpaceFile = Annotated[
    Path | None,
    typer.Option(help="TOML file structured like a config, with 'log:LOW..HIGH' or lists."),
]
Take = Annotated[
    str,
    typer.Option(
        help="How the metric becomes the trial's score: tail (mean over the last quarter), "
        "last, best, or mean (over the whole trial)."
    ),
]
Budget = Annotated[
    str, typer.Option(help="Total time of the search: 90s, 15m, 2h; unlimited by default.")
]
TrialTimeout = Annotated[
    str, typer.Option(help="Time limit of one trial; a longer trial counts as failed.")
]
Timesteps = Annotated[
    int | None,
    typer.Option(
        parser=options.whole_number("--timesteps"),
        help="Steps of a trial; by default those of the task's config.",
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing while trials train.")]


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    app.command()(compare)
    app.command()(search)
    app.command()(explore)
    app.command("new-experiment")(new_experiment)
    app.command("new-task")(new_task)


def compare(
    targets: Annotated[
        list[str],
        typer.Argument(
            help="Two or more run directories, or one task with --arms; a file is a training log "
            "of another program, such as the predecessor's training_log.json."
        ),
    ],
    arms: Annotated[
        str,
        typer.Option(
            help="Arms to train, separated by commas: a preset, or name:key=value;key=value."
        ),
    ] = "",
    seeds: Annotated[int, typer.Option(help="Runs of each arm, with seeds 1, 2, ...")] = 3,
    jobs: options.Jobs = 1,
    cluster: options.JobsCluster = "",
    cpus_per_job: options.CpusPerJob = 1.0,
    overrides: options.Overrides = None,
    runs_root: options.RunsRoot = Path("runs"),
    anyway: Annotated[
        bool, typer.Option("--anyway", help="Compare runs even if their conditions differ.")
    ] = False,
    out: Annotated[Path | None, typer.Option(help="Folder for the page and its plots.")] = None,
    as_json: options.AsJson = False,
) -> None:
    """Compare runs, or train the arms of an experiment and compare them, with intervals."""
    from longhaul.core.errors import ConfigError

    if arms and len(targets) != 1:
        raise ConfigError("--arms takes exactly one task")
    logs = [] if arms else [Path(target) for target in targets if Path(target).is_file()]
    named = [] if arms else [Path(target) for target in targets if Path(target) not in logs]
    paths = [options.demand_run(path) for path in named]
    # Imported after the checks: torch takes seconds to import.
    from longhaul.app.experiments.arms import Arm, Experiment
    from longhaul.app.experiments.compare import compare_arms, compare_runs, compare_training
    from longhaul.app.experiments.jobs import TrialPlace

    if logs:
        training = compare_training(paths, logs)
        typer.echo(training.as_json() if as_json else training.as_text())
        return
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
    trials: Annotated[int, typer.Option(help="Trials, including those of earlier calls.")] = 20,
    space: Space = None,
    space_file: SpaceFile = None,
    objective: Annotated[
        str, typer.Option(help="Metric to optimize; the task's score by default.")
    ] = "",
    direction: Annotated[str, typer.Option(help="maximize or minimize.")] = "maximize",
    take: Take = "tail",
    pruner: Annotated[
        str, typer.Option(help="Rule that stops bad trials early: median, hyperband or none.")
    ] = "median",
    budget: Budget = "",
    trial_timeout: TrialTimeout = "",
    timesteps: Timesteps = None,
    jobs: options.Jobs = 1,
    cluster: options.JobsCluster = "",
    cpus_per_job: options.CpusPerJob = 1.0,
    seed: Annotated[
        int, typer.Option(help="Seed of the sampler; trial N trains with seed SEED+N.")
    ] = 1,
    name: Annotated[str, typer.Option(help="Name of the search.")] = "search",
    preset: options.Preset = "",
    config: options.ConfigFile = None,
    overrides: options.Overrides = None,
    runs_root: options.RunsRoot = Path("runs"),
    as_json: options.AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Search for better config values; the same command continues an interrupted search."""
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
    searched = search_and_report(request, (lambda text: None) if quiet else _notify)
    typer.echo(searched.as_json() if as_json else searched.as_text())
    raise typer.Exit(searched.exit_code)


def explore(
    task: options.Task,
    goals: Annotated[
        str,
        typer.Option(
            "--goal",
            "--stage",
            help="Goals of the task to search, separated by commas, or all of them.",
        ),
    ] = "all",
    budget: Annotated[str, typer.Option(help="Time for each goal: 60s, 15m, 2h.")] = "60s",
    seed: Annotated[int, typer.Option(help="Seed of the search.")] = 0,
    simulators: Annotated[
        int,
        typer.Option(
            parser=options.whole_number("--simulators"),
            help="Simulators that search side by side; another number finds other ways.",
        ),
    ] = 192,
    threads: Annotated[
        int, typer.Option(help="Threads that share them, 0: one per core; results are the same.")
    ] = 0,
    name: Annotated[str, typer.Option(help="Name of the search; by default its seed.")] = "",
    preset: options.Preset = "",
    overrides: options.Overrides = None,
    films: Annotated[
        bool, typer.Option("--films/--no-films", help="Film what was found, each goal once.")
    ] = True,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show nothing while searching.")] = (
        False
    ),
    runs_root: options.RunsRoot = Path("runs"),
    as_json: options.AsJson = False,
) -> None:
    """Search for decisions that solve a task, from saved states; run it again to continue.

    For each goal that is solved it writes a demonstration, which training can begin from:
    `longhaul train TASK --set env.path.demos='["FILE"]'`.
    """
    _check_task(task, preset)
    # Imported after the checks: torch takes seconds to import.
    from longhaul.app.experiments.explore.explore import ExploreRequest, run_explore

    request = ExploreRequest(
        task=task,
        goals=goals,
        budget_seconds=options.seconds_of(budget),
        seed=seed,
        count=simulators,
        threads=threads,
        preset=preset,
        overrides=tuple(overrides or ()),
        name=name,
        root=runs_root,
        films=films,
        quiet=quiet,
    )
    report = run_explore(request)
    typer.echo(report.as_json() if as_json else report.as_text())
    raise typer.Exit(report.exit_code)


def new_experiment(
    from_run: Annotated[Path, typer.Option("--from", help="Run to start from.")],
    name: Annotated[
        str, typer.Option(help="Name of the experiment; by default with the next number.")
    ] = "",
    overrides: options.Overrides = None,
    out: Annotated[Path, typer.Option(help="Folder for its config and notes.")] = Path(
        "experiments"
    ),
) -> None:
    """Create the next experiment: a config of what differs from the preset, and notes to fill."""
    from longhaul.app.experiments.new_experiment import begin_experiment

    typer.echo(begin_experiment(from_run, name, overrides or (), out).as_text())


def new_task(
    name: Annotated[str, typer.Argument(help="Name of the task and of its Python package.")],
    out: Annotated[Path, typer.Option(help="Folder to write the package into.")] = Path(),
) -> None:
    """Write a new task as a Python package: a small example that trains and has tests."""
    from longhaul.app.experiments.new_experiment import new_task as write_task

    typer.echo(write_task(name, out))


def _check_task(task: str, preset: str) -> None:
    """Refuse an unknown task or preset before torch is imported, which takes seconds."""
    from longhaul import api

    api.resolve_config(task, preset=preset)


def _seconds(text: str) -> float:
    return options.seconds_of(text) if text else math.inf


def _notify(text: str) -> None:
    typer.echo(text, err=True)

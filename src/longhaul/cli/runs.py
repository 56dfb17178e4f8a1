"""Commands that read runs: their checkpoints and their logs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from longhaul.cli import options


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    app.command()(evaluate)
    app.command()(runs)
    app.command()(inspect)
    app.command()(metrics)
    app.command()(tail)
    app.command()(repair)
    app.command()(hints)
    app.command("schedule-replay")(schedule_replay)
    app.command()(records)
    app.command()(study)


def evaluate(
    run: options.Run,
    checkpoint: options.Checkpoint = "latest",
    episodes: Annotated[int, typer.Option(help="Episodes to play.")] = 50,
    seed: Annotated[
        int | None, typer.Option(help="Seed of the episodes; by default the config's.")
    ] = None,
    greedy: Annotated[
        bool | None,
        typer.Option(
            "--greedy/--sampled",
            help="Take the most likely actions, or sample them; by default as in the config.",
        ),
    ] = None,
    suite: Annotated[
        list[str] | None,
        typer.Option(help="Evaluation suite of the task; may be repeated."),
    ] = None,
    against: Annotated[
        str,
        typer.Option(
            help="Reference policy, checkpoint or run to compare with, episode by episode."
        ),
    ] = "",
    references: Annotated[
        bool, typer.Option("--references/--no-references", help="Also play reference policies.")
    ] = True,
    as_json: options.AsJson = False,
) -> None:
    """Evaluate a checkpoint on fixed episodes; the same call gives the same result."""
    from longhaul.app.evaluation.evaluate import EvaluationRequest, evaluate_run
    from longhaul.app.evaluation.load import Run
    from longhaul.app.evaluation.suites import SuiteRequest

    request = EvaluationRequest(
        checkpoint=checkpoint,
        episodes=episodes,
        seed=seed,
        greedy=greedy,
        suites=SuiteRequest(tuple(suite or ()), against, references),
    )
    result = evaluate_run(Run(run), request)
    typer.echo(result.as_json() if as_json else result.as_text())


def runs(
    runs_root: options.RunsRoot = Path("runs"),
    task: Annotated[str, typer.Option(help="Only runs of this task.")] = "",
    as_json: options.AsJson = False,
) -> None:
    """List runs, one line each: status, progress and score."""
    from longhaul.app.inspect.runs import list_runs

    typer.echo(list_runs(runs_root, task=task, as_json=as_json))


def inspect(
    path: Annotated[Path, typer.Argument(help="Run directory or one of its checkpoints.")],
    as_json: options.AsJson = False,
) -> None:
    """Show the contents of a run or a checkpoint, and whether they are intact."""
    from longhaul.app.inspect.runs import inspect_path

    typer.echo(inspect_path(path, as_json=as_json))


def metrics(
    run: options.Run,
    select: Annotated[
        list[str] | None,
        typer.Option(help="Names of metrics, separated by commas; * matches any text."),
    ] = None,
    last: Annotated[int, typer.Option(help="Only the last N iterations; 0: all.")] = 0,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print one line per iteration.")] = False,
    as_json: options.AsJson = False,
) -> None:
    """Show a run's metrics: last, mean and extremes, or every iteration as CSV or JSON."""
    from longhaul.app.inspect.logs import select_metrics

    found = select_metrics(run, select or (), last=last)
    if as_json:
        typer.echo(found.as_json())
    else:
        typer.echo(found.as_csv() if as_csv else found.as_text())


def tail(
    run: options.Run,
    log: Annotated[
        str, typer.Option(help="metrics, timings, episodes, events, sessions or resources.")
    ] = "metrics",
    lines: Annotated[int, typer.Option("--lines", "-n", help="Lines to show at first.")] = 10,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Show new lines until the run ends.")
    ] = False,
    as_json: options.AsJson = False,
) -> None:
    """Show the end of a run's log, and follow it if asked."""
    from longhaul.app.inspect.logs import tail_run

    for line in tail_run(run, log, lines=lines, follow=follow, as_json=as_json):
        typer.echo(line)


def repair(
    run: Annotated[
        Path, typer.Argument(help="Run directory, or a folder of another trainer's checkpoints.")
    ],
    apply: Annotated[
        bool, typer.Option("--apply", help="Repair the files; without it, only list the damage.")
    ] = False,
    num_steps: Annotated[
        int, typer.Option(help="Rollout length of another trainer whose files do not hold it.")
    ] = 64,
    update_if_lower: Annotated[
        bool,
        typer.Option(
            "--update-if-lower", help="Also raise another trainer's counts that are too low."
        ),
    ] = False,
    as_json: options.AsJson = False,
) -> None:
    """Find truncated, garbled, duplicate and incomplete lines in a run's logs, and repair them.

    In a folder of checkpoints that a task's earlier trainer wrote, fill in lost step counts.
    """
    from longhaul.app.evaluation.load import Run
    from longhaul.app.inspect.repair import repair_run
    from longhaul.app.inspect.repair_folder import is_foreign, repair_folder

    if is_foreign(run):
        mended = repair_folder(run, apply=apply, num_steps=num_steps, if_lower=update_if_lower)
        typer.echo(mended.as_json() if as_json else mended.as_text())
        return
    found = repair_run(Run(options.demand_run(run)), apply=apply)
    typer.echo(found.as_json() if as_json else found.as_text())


def hints(run: options.Run, as_json: options.AsJson = False) -> None:
    """Show problems that a run's recorded metrics indicate, and which setting to change."""
    from longhaul.app.evaluation.load import Run
    from longhaul.app.inspect.replay import replay_hints

    replayed = replay_hints(Run(run))
    typer.echo(replayed.as_json() if as_json else replayed.as_text())


def schedule_replay(
    run: options.Run,
    config: options.ConfigFile = None,
    overrides: options.Overrides = None,
    as_json: options.AsJson = False,
) -> None:
    """Replay a changed schedule over a run's recorded metrics and show its decisions."""
    from longhaul.app.evaluation.load import Run
    from longhaul.app.inspect.replay import replay_run

    typer.echo(replay_run(Run(run), file=config, overrides=overrides or (), as_json=as_json))


def records(run: options.Run) -> None:
    """Write the task's own record files from the run's logs, as training does."""
    from longhaul.app.artifacts.records import record_run
    from longhaul.app.evaluation.load import Run

    typer.echo(record_run(Run(run)))


def study(
    run: options.Run,
    checkpoint: options.Checkpoint = "latest",
    episodes: Annotated[int, typer.Option(help="Episodes to replay.")] = 6,
) -> None:
    """Record what a trained policy did, step by step, in episodes of its evaluation."""
    from longhaul.app.artifacts.records import study_run
    from longhaul.app.evaluation.load import Run

    typer.echo(study_run(Run(run), checkpoint, episodes))

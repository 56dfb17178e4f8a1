"""Commands that read a run: its checkpoints, its logs and what they say."""

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
    checkpoint: Annotated[
        str, typer.Option(help="latest, best, or the number of steps of a checkpoint.")
    ] = "latest",
    episodes: Annotated[int, typer.Option(help="Episodes to play.")] = 50,
    seed: Annotated[
        int | None, typer.Option(help="Where the episode seeds come from; the run's by default.")
    ] = None,
    greedy: Annotated[
        bool | None,
        typer.Option(
            "--greedy/--sampled", help="Most likely actions, or drawn ones; as the run did."
        ),
    ] = None,
    suite: Annotated[
        list[str] | None,
        typer.Option(help="A suite of the task to play, where it has some; may be repeated."),
    ] = None,
    against: Annotated[
        str,
        typer.Option(
            help="Compare episode by episode with a reference policy, a checkpoint or a run."
        ),
    ] = "",
    references: Annotated[
        bool, typer.Option("--references/--no-references", help="Play reference policies too.")
    ] = True,
    as_json: options.AsJson = False,
) -> None:
    """Measure a checkpoint on fixed episodes; the same call gives the same digits."""
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
    """List runs, one line each: how they stand, how far they came, what they reached."""
    from longhaul.app.inspect.runs import list_runs

    typer.echo(list_runs(runs_root, task=task, as_json=as_json))


def inspect(
    path: Annotated[Path, typer.Argument(help="A run directory or one of its checkpoints.")],
    as_json: options.AsJson = False,
) -> None:
    """Show what a run or a checkpoint holds, and whether it is whole."""
    from longhaul.app.inspect.runs import inspect_path

    typer.echo(inspect_path(path, as_json=as_json))


def metrics(
    run: options.Run,
    select: Annotated[
        list[str] | None,
        typer.Option(help="Metrics by name, with commas between; * stands for anything."),
    ] = None,
    last: Annotated[int, typer.Option(help="Only so many iterations from the end.")] = 0,
    as_csv: Annotated[bool, typer.Option("--csv", help="Write one line per iteration.")] = False,
    as_json: options.AsJson = False,
) -> None:
    """Show what a run measured: last, mean and extremes, or every iteration as CSV or JSON."""
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
    lines: Annotated[int, typer.Option("--lines", "-n", help="Lines to begin with.")] = 10,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Show what comes, until the run is over.")
    ] = False,
    as_json: options.AsJson = False,
) -> None:
    """Show the end of a run's log, and follow it."""
    from longhaul.app.inspect.logs import tail_run

    for line in tail_run(run, log, lines=lines, follow=follow, as_json=as_json):
        typer.echo(line)


def repair(
    run: options.Run,
    apply: Annotated[
        bool, typer.Option("--apply", help="Mend what was found; without it, only tell.")
    ] = False,
    as_json: options.AsJson = False,
) -> None:
    """Find cut, garbled, doubled and incomplete lines in a run's logs, and mend them if asked."""
    from longhaul.app.evaluation.load import Run
    from longhaul.app.inspect.repair import repair_run

    found = repair_run(Run(run), apply=apply)
    typer.echo(found.as_json() if as_json else found.as_text())


def hints(run: options.Run, as_json: options.AsJson = False) -> None:
    """Show what a run's recorded metrics say is wrong, and which setting to change."""
    from longhaul.app.evaluation.load import Run
    from longhaul.app.inspect.hint_replay import replay_hints

    replayed = replay_hints(Run(run))
    typer.echo(replayed.as_json() if as_json else replayed.as_text())


def schedule_replay(
    run: options.Run,
    config: options.ConfigFile = None,
    overrides: options.Overrides = None,
    as_json: options.AsJson = False,
) -> None:
    """Run a changed schedule over a run's recorded metrics and show what it would decide."""
    from longhaul.app.evaluation.load import Run
    from longhaul.app.inspect.replay import replay_run

    typer.echo(replay_run(Run(run), file=config, overrides=overrides or (), as_json=as_json))


def records(run: options.Run) -> None:
    """Make the files the run's task keeps of it from its logs, as training does by itself."""
    from longhaul.app.artifacts.records import record_run
    from longhaul.app.evaluation.load import Run

    typer.echo(record_run(Run(run)))


def study(
    run: options.Run,
    checkpoint: Annotated[
        str, typer.Option(help="latest, best, or the number of steps of a checkpoint.")
    ] = "latest",
    episodes: Annotated[int, typer.Option(help="Episodes to play again.")] = 6,
) -> None:
    """Look into a trained policy: what it did, step by step, in episodes of its evaluation."""
    from longhaul.app.artifacts.records import StudyRequest, study_run
    from longhaul.app.evaluation.load import Run

    typer.echo(study_run(Run(run), StudyRequest(checkpoint, episodes)))

"""Commands over what a run left behind: its logs, its table, its policy."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from longhaul.cli import options


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    app.command()(metrics)
    app.command()(tail)
    app.command()(repair)
    app.command()(export)
    app.command("import-torch")(import_torch)


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
    from longhaul.app.select_metrics import select_metrics

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
    from longhaul.app.tail import tail_run

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
    from longhaul.app.repair import repair_run

    found = repair_run(run, apply=apply)
    typer.echo(found.as_json() if as_json else found.as_text())


def export(
    run: options.Run,
    checkpoint: options.Checkpoint = "latest",
    out: Annotated[
        Path | None, typer.Option(help="The folder to write; in the run directory by default.")
    ] = None,
    onnx: Annotated[
        bool, typer.Option("--onnx/--no-onnx", help="Write an ONNX graph too, where possible.")
    ] = True,
    as_json: options.AsJson = False,
) -> None:
    """Write a checkpoint's policy as one folder that loads without the run, and as ONNX."""
    from longhaul.app.export import export_run

    made = export_run(run, checkpoint, out, onnx=onnx)
    typer.echo(made.as_json() if as_json else made.as_text())


def import_torch(
    file: Annotated[Path, typer.Argument(help="A .pt file with weights, compiled or plain.")],
    task: Annotated[str, typer.Option(help="The task whose policy takes the weights.")],
    out: Annotated[
        Path | None, typer.Option(help="Write the policy into this folder; else only tell.")
    ] = None,
    renames: Annotated[
        list[str] | None,
        typer.Option("--map", metavar="OLD=NEW", help="Exchange the beginning of names."),
    ] = None,
    partial: Annotated[
        bool, typer.Option("--partial", help="Write it even if weights are missing.")
    ] = False,
    preset: options.Preset = "",
    config: options.ConfigFile = None,
    overrides: options.Overrides = None,
    as_json: options.AsJson = False,
) -> None:
    """Take over the weights of a foreign file, running no code of it, and tell what matched."""
    from longhaul.app.configure import ConfigSources, resolve
    from longhaul.app.import_torch import Request, import_weights

    resolved = resolve(
        ConfigSources(task=task, preset=preset, file=config, overrides=overrides or ())
    )
    found = import_weights(resolved, Request(file, tuple(renames or ()), out, partial))
    typer.echo(found.as_json() if as_json else found.as_text())

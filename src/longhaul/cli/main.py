"""The `longhaul` command: one function per command, and the exit code of every ending."""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
from collections.abc import Iterator

import typer

from longhaul.cli import (
    advise,
    campaign,
    experiment,
    logs,
    look,
    measure,
    overhead,
    play,
    search,
    see,
    tools,
)
from longhaul.cli.leftovers import leave_nothing
from longhaul.cli.streams import open_closed_streams
from longhaul.core.errors import LonghaulError, without_controls

ABOUT = "Train agents in runs that are fast, unkillable, exactly resumable and self-explaining."

app = typer.Typer(
    name="longhaul",
    help=ABOUT,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
experiment.register(app)
campaign.register(app)
look.register(app)
logs.register(app)
measure.register(app)
overhead.register(measure.bench)
advise.register(app)
play.register(app)
search.register(app)
see.register(app)
tools.register(app)


@app.callback(invoke_without_command=True)
def longhaul(
    version: bool = typer.Option(False, "--version", help="Show the version and exit."),
) -> None:
    """Train agents in runs that are fast, unkillable, exactly resumable and self-explaining."""
    if version:
        from importlib.metadata import version as installed

        typer.echo(f"longhaul {installed('longhaul')}")
        raise typer.Exit


@contextlib.contextmanager
def ending_by_sigterm() -> Iterator[None]:
    """Let SIGTERM end a command by its exit code, with everything closed, not by the raw signal.

    A run that is under way has its own handler, which saves a checkpoint first.
    """
    number = signal.SIGTERM
    if threading.current_thread() is not threading.main_thread() or (
        signal.getsignal(number) is not signal.SIG_DFL
    ):
        yield
        return
    signal.signal(number, lambda *_: sys.exit(128 + number))
    try:
        yield
    finally:
        signal.signal(number, signal.SIG_DFL)


def main() -> None:
    """Run the command line; a user's mistake ends in one line and a documented exit code.

    Typer ends an interrupted command with 130 and one whose reader left without a word.
    """
    open_closed_streams()
    leave_nothing()
    try:
        with ending_by_sigterm():
            app()
    except LonghaulError as error:
        with contextlib.suppress(OSError):  # the code says it even if the words reach nobody
            sys.stderr.write(f"longhaul: {without_controls(str(error))}\n")
        sys.exit(error.exit_code)

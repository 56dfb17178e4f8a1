"""The `longhaul` command: one function per command, and the exit code of every ending."""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

import typer

from longhaul.cli import bench, diagnose, experiments, media, runs, tasks, train
from longhaul.cli.task_commands import LonghaulCommands
from longhaul.core.errors import LonghaulError, without_controls
from longhaul.envs.processes.descendants import marked, new_mark

if TYPE_CHECKING:
    import psutil


VARIABLE = "LONGHAUL_COMMAND"
"""Holds a mark that every program started by the command inherits."""
ASK_SECONDS = 2.0
"""How long processes are given to end when they are asked to, before they are killed."""
PYTHONS_OWN = "multiprocessing.resource_tracker"
"""A helper of Python's that ends by itself and frees what others have left."""


def open_closed_streams() -> None:
    """Open the null device in place of standard streams the process was started without.

    Otherwise the next file that is opened gets the number of such a stream, and what any library
    prints goes into it.
    """
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(number)
        except OSError:
            opened = os.open(os.devnull, os.O_RDWR)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(number, mode, closefd=False))


def leave_nothing() -> None:
    """End all descendants when this process exits, daemons included.

    The process does not adopt its orphans: those that end would stay as zombies for as long as it
    runs, which may be weeks.
    """
    own = f"{os.getpid()}-"
    if os.environ.get(VARIABLE, "").startswith(own):
        return
    os.environ[VARIABLE] = mark = own + new_mark()
    # Registered first, so that it comes last: others may still need their helpers to finish.
    atexit.register(end_descendants, os.getpid(), mark)


def end_descendants(owner: int, mark: str) -> None:
    """Ask everything this process has started to end, then kill it; a copy of it does nothing."""
    if os.getpid() != owner:
        return
    import psutil  # only now: most commands need it for nothing else

    for _ in range(3):  # what was started meanwhile is found by the next look
        if not (living := _living(mark)):
            return
        for process in living:
            with suppress(psutil.Error):
                process.terminate()
        _, stubborn = psutil.wait_procs(living, ASK_SECONDS)
        for process in stubborn:
            with suppress(psutil.Error):
                process.kill()
        psutil.wait_procs(stubborn, ASK_SECONDS)


def _living(mark: str) -> list[psutil.Process]:
    """Return the processes with the mark, and the children of this one, which may be forks."""
    import psutil

    found = {process.pid: process for process in psutil.Process().children(recursive=True)}
    for pid in marked(mark, VARIABLE):
        with suppress(psutil.Error):
            found.setdefault(pid, psutil.Process(pid))
    found.pop(os.getpid(), None)
    return [process for process in found.values() if _is_to_end(process)]


def _is_to_end(process: psutil.Process) -> bool:
    import psutil

    try:
        is_dead = process.status() == psutil.STATUS_ZOMBIE
        return not is_dead and PYTHONS_OWN not in " ".join(process.cmdline())
    except psutil.Error:
        return False


ABOUT = "Train agents in runs that are fast, unkillable, exactly resumable and self-explaining."

app = typer.Typer(
    name="longhaul",
    cls=LonghaulCommands,
    help=ABOUT,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for group in (train, runs, media, experiments, tasks, diagnose, bench):
    group.register(app)


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
            app(prog_name="longhaul")
    except LonghaulError as error:
        with contextlib.suppress(OSError):  # the code says it even if the words reach nobody
            sys.stderr.write(f"longhaul: {without_controls(str(error))}\n")
        sys.exit(error.exit_code)

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
from functools import cached_property
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperGroup

from longhaul.cli import bench, diagnose, experiments, media, runs, train, zoo
from longhaul.core.errors import LonghaulError, without_controls
from longhaul.core.system import PARENT, end_with, processes_with, refuse_windows
from longhaul.envs.processes.descendants import new_mark

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    import psutil


VARIABLE = "LONGHAUL_COMMAND"
"""Environment variable with a mark that every child process inherits."""
ASK_SECONDS = 2.0
"""Time between SIGTERM and SIGKILL."""
PYTHONS_OWN = "multiprocessing.resource_tracker"
"""A helper process of Python that ends by itself and frees shared memory."""


def open_closed_streams() -> None:
    """Open the null device in place of standard streams that are closed.

    Otherwise the next opened file gets the descriptor of such a stream, and everything a library
    prints goes into that file.
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

    The process does not adopt its orphans: ended ones would stay zombies for as long as it runs,
    which may be weeks.
    """
    own = f"{os.getpid()}-"
    if os.environ.get(VARIABLE, "").startswith(own):
        return
    os.environ[VARIABLE] = mark = own + new_mark()
    # Registered first, so it runs last: other exit handlers may still need their processes.
    atexit.register(end_descendants, os.getpid(), mark)
    # The exit code is decided by then; a signal would replace it, such as a second Ctrl-C.
    for number in (signal.SIGTERM, signal.SIGINT):
        atexit.register(signal.signal, number, signal.SIG_IGN)


def end_descendants(owner: int, mark: str) -> None:
    """Send SIGTERM, then SIGKILL, to everything this process has started; a fork does nothing."""
    if os.getpid() != owner:
        return
    import psutil  # imported late: most commands need it for nothing else

    for _ in range(3):  # the next round finds processes started meanwhile
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
    for pid in processes_with(VARIABLE, mark):
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


TASK_COMMANDS = "longhaul.commands"
"""Group of entry points: a task's name and its `typer.Typer`."""


def task_entries() -> list[EntryPoint]:
    """Return the tasks that have commands, by name, without importing them."""
    from importlib.metadata import entry_points

    return sorted(entry_points(group=TASK_COMMANDS), key=lambda entry: entry.name)


def explained(command: Any, ctx: Any) -> Any:
    """Return a command whose help shows no type beside flags, which take no value."""
    for option in command.get_params(ctx) if command is not None else ():
        if getattr(option, "is_bool_flag", False):
            option.metavar = ""
    for inner in getattr(command, "commands", {}).values():
        explained(inner, ctx)
    return command


class TaskCommands(TyperGroup):
    """The commands of one task, imported when one of them or its help is called."""

    def __init__(self, entry: EntryPoint, context_settings: dict[str, Any]) -> None:
        super().__init__(
            name=entry.name,
            help=f"Commands of the task {entry.name}.",
            no_args_is_help=True,
            context_settings=context_settings,
        )
        self._entry = entry

    @cached_property
    def _group(self) -> Any:
        """The task's own group."""
        return typer.main.get_group(self._entry.load())

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of the task's commands."""
        names: list[str] = self._group.list_commands(ctx)
        return names

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return one of the task's commands."""
        return explained(self._group.get_command(ctx, cmd_name), ctx)


class LonghaulCommands(TyperGroup):
    """Our own commands, and one group for each task that has commands.

    Installed packages are only searched for the help and for a command that is not our own.
    """

    @cached_property
    def _tasks(self) -> dict[str, TaskCommands]:
        return {
            entry.name: TaskCommands(entry, dict(self.context_settings))
            for entry in task_entries()
            if entry.name not in self.commands
        }

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of all commands, those of tasks last."""
        return [*super().list_commands(ctx), *self._tasks]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command by its name, None if there is none."""
        return explained(super().get_command(ctx, cmd_name), ctx) or self._tasks.get(cmd_name)


ABOUT = "Train agents in long runs that survive crashes, resume exactly and explain themselves."

app = typer.Typer(
    name="longhaul",
    cls=LonghaulCommands,
    help=ABOUT,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for group in (train, runs, media, zoo, experiments, diagnose, bench):
    group.register(app)


@app.callback(invoke_without_command=True)
def longhaul(
    version: bool = typer.Option(False, "--version", help="Show the version and exit."),
) -> None:
    """Train agents in long runs that survive crashes, resume exactly and explain themselves."""
    if version:
        from importlib.metadata import version as installed

        typer.echo(f"longhaul {installed('longhaul-rl')}")
        raise typer.Exit


@contextlib.contextmanager
def ending_by_sigterm() -> Iterator[None]:
    """Let SIGTERM end a command with an exit code after cleaning up, not by the raw signal.

    A training run has its own handler, which saves a checkpoint first.
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

    Typer ends an interrupted command with exit code 130, and exits silently on a broken pipe.
    """
    open_closed_streams()
    try:
        refuse_windows()
        if parent := os.environ.pop(PARENT, ""):
            end_with(int(parent), signal.SIGTERM)
        leave_nothing()
        with ending_by_sigterm():
            app(prog_name="longhaul")
    except LonghaulError as error:
        with suppress(OSError):  # stderr may be closed; the exit code is enough
            sys.stderr.write(f"longhaul: {without_controls(str(error))}\n")
        sys.exit(error.exit_code)

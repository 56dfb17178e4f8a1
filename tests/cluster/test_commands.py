"""Commands on nodes: begun where there is room, begun again when a node dies, asked to stop."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from longhaul.cluster.commands import (
    END_SECONDS,
    LOCKED_SECONDS,
    MOST_DEATHS,
    CommandHost,
    CommandSpec,
    RemoteCommand,
)
from longhaul.cluster.connect import ClusterError
from longhaul.core.errors import LockedError

NAME = "search-0001"


class DeadError(Exception):
    """What Ray raises for an actor that is no more."""


class FailedError(DeadError):
    """What Ray raises for an error in an actor, which it carries along."""

    def __init__(self, cause: Exception) -> None:
        super().__init__("a whole traceback")
        self.cause = cause


@dataclass
class FakeRay:
    """Actors whose answers are known beforehand; one that has none left waits for room."""

    lives: list[list[Any]]
    """For each actor what its polls answer, in order; an error is raised."""
    asked_to_stop: int = 0
    hired: int = 0
    killed: list[int] = field(default_factory=list)
    now: float = 0.0

    @property
    def exceptions(self) -> Any:
        return SimpleNamespace(RayTaskError=FailedError, RayError=DeadError)

    def hire(self) -> Any:
        number, self.hired = self.hired, self.hired + 1
        answers = iter(self.lives[number]) if number < len(self.lives) else iter(())

        def stop() -> None:
            self.asked_to_stop += 1

        return SimpleNamespace(
            number=number,
            poll=SimpleNamespace(remote=lambda: next(answers, "nobody knows")),
            ask_to_stop=SimpleNamespace(remote=stop),
        )

    def wait(self, references: list[Any], timeout: float) -> tuple[list[Any], list[Any]]:
        return ([], references) if references == ["nobody knows"] else (references, [])

    def get(self, reference: Any) -> Any:
        if isinstance(reference, Exception):
            raise reference
        return reference

    def kill(self, actor: Any, *, no_restart: bool) -> None:
        assert no_restart
        self.killed.append(actor.number)

    def rest(self, seconds: float) -> None:
        self.now += seconds

    def command(self) -> RemoteCommand:
        return RemoteCommand(self, self.hire, NAME, clock=lambda: self.now, rest=self.rest)


def test_a_command_runs_until_it_has_an_exit_code() -> None:
    ray = FakeRay([[None, None, 5]])
    command = ray.command()
    assert [command.poll() for _ in range(4)] == [None, None, 5, 5]
    assert (ray.hired, ray.killed) == (1, [0])


def test_a_command_begins_again_when_its_node_dies() -> None:
    ray = FakeRay([[None, DeadError()], [None, 0]])
    command = ray.command()
    assert [command.poll() for _ in range(4)] == [None, None, None, 0]
    assert ray.hired == 2


def test_a_command_that_kills_every_node_is_given_up() -> None:
    ray = FakeRay([[DeadError()]] * (MOST_DEATHS + 1))
    command = ray.command()
    assert [command.poll() for _ in range(MOST_DEATHS + 1)][-1] == -signal.SIGKILL
    assert ray.hired == MOST_DEATHS + 1


def test_a_lock_held_by_the_dead_is_waited_for() -> None:
    ray = FakeRay([[DeadError()], [LockedError.exit_code], [0]])
    command = ray.command()
    assert [command.poll() for _ in range(3)] == [None, None, 0]


def test_a_lock_held_by_the_living_is_the_commands_own_affair() -> None:
    assert FakeRay([[LockedError.exit_code]]).command().poll() == LockedError.exit_code
    ray = FakeRay([[DeadError()], [LockedError.exit_code]])
    command = ray.command()
    command.poll()
    ray.now = LOCKED_SECONDS + 1
    assert command.poll() == LockedError.exit_code


def test_what_a_node_cannot_do_is_told_as_if_it_had_happened_here() -> None:
    command = FakeRay([[FailedError(ClusterError("the node has no folder"))]]).command()
    with pytest.raises(ClusterError, match=f"^{NAME}: the node has no folder$"):
        command.poll()


def test_a_command_that_is_asked_to_stop_is_waited_for() -> None:
    ray = FakeRay([[None, None, 143]])
    command = ray.command()
    command.poll()
    assert command.end() == 143
    assert ray.asked_to_stop == 1


def test_a_command_that_does_not_stop_is_killed_in_the_end() -> None:
    ray = FakeRay([[None] * 100_000])
    command = ray.command()
    command.poll()
    assert command.end() == -signal.SIGKILL
    assert (ray.killed, ray.now >= END_SECONDS) == ([0], True)


def test_a_command_that_dies_while_it_stops_does_not_begin_again() -> None:
    ray = FakeRay([[None, DeadError()], [0]])
    command = ray.command()
    command.poll()
    command.ask_to_stop()
    assert command.poll() == -signal.SIGKILL
    assert ray.hired == 1


def test_a_command_that_waits_for_room_ends_at_once() -> None:
    ray = FakeRay([[]])
    command = ray.command()
    assert command.poll() is None
    assert command.end() == -signal.SIGKILL
    assert ray.now == 0.0


class Started:
    """A command that runs for ever."""

    def __init__(self, command: Sequence[str], log: Path) -> None:
        self.command, self.log = list(command), log
        self.folder, self.variable = Path.cwd(), os.environ.get("LONGHAUL_TEST_VARIABLE")
        self.is_asked = False

    def poll(self) -> int | None:
        return None

    def ask_to_stop(self) -> None:
        self.is_asked = True


def test_a_node_runs_the_command_with_its_own_python_in_the_users_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir("/")
    monkeypatch.setenv("LONGHAUL_TEST_VARIABLE", "that of the node")
    made: list[Started] = []

    def start(command: Sequence[str], log: Path) -> Started:
        made.append(Started(command, log))
        return made[-1]

    command = ("/elsewhere/bin/python", "-m", "longhaul", "train")
    errand = CommandSpec(
        command, tmp_path / "log", tmp_path, {"LONGHAUL_TEST_VARIABLE": "the user's"}
    )
    host = CommandHost(start, errand)
    host.ask_to_stop()
    assert not made
    assert host.poll() is None
    assert host.poll() is None
    (started,) = made
    assert started.command == [sys.executable, "-m", "longhaul", "train"]
    assert (started.folder, started.variable) == (tmp_path, "the user's")
    host.ask_to_stop()
    assert started.is_asked


def test_a_node_without_the_runs_folder_says_so(tmp_path: Path) -> None:
    host = CommandHost(
        Started, CommandSpec(("python",), tmp_path / "not here" / "log", tmp_path, {})
    )
    with pytest.raises(ClusterError, match="--runs-root must be a folder that all nodes share"):
        host.poll()

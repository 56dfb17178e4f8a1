"""The command itself: help, version, what it imports, and how it ends."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from docs.tools.commands import commands

from longhaul.cli.main import app
from tests.cli.conftest import Longhaul

COMMANDS = (
    "train",
    "resume",
    "verify-resume",
    "evaluate",
    "inspect",
    "schedule-replay",
    "tasks",
    "config",
    "bench",
    "doctor",
    "reproduce",
    "watch",
    "report",
    "compare",
    "runs",
    "serve",
    "new-experiment",
    "records",
    "study",
    "tool",
    "search",
    "explore",
    "warm-up",
    "metrics",
    "tail",
    "repair",
    "export",
    "import-torch",
    "hints",
    "new-task",
    "zoo",
)
HEAVY = ("torch", "numpy", "gymnasium", "numba", "msgspec", "longhaul.app", "longhaul.runs")


def test_help_needs_none_of_the_heavy_packages() -> None:
    code = (
        "import sys\n"
        "from longhaul.cli.main import main\n"
        "sys.argv = ['longhaul', '--help']\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert not end.code\n"
        f"found = [name for name in {HEAVY!r} if name in sys.modules]\n"
        "sys.exit(f'imported {found}' if found else 0)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert all(command in done.stdout for command in COMMANDS)


@pytest.mark.parametrize("command", [*COMMANDS, "bench train", "zoo evaluate"])
def test_every_command_explains_itself(longhaul: Longhaul, command: str) -> None:
    for flag in ("--help", "-h"):
        outcome = longhaul(*command.split(), flag)
        assert outcome.code == 0
        assert "Usage: longhaul" in outcome.out
        assert "<bool>" not in outcome.out  # a flag takes no value


def test_the_commands_of_a_task_are_imported_when_one_is_called(tmp_path: Path) -> None:
    package = tmp_path / "toy_task-1.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: toy-task\nVersion: 1\n")
    (package / "entry_points.txt").write_text("[longhaul.commands]\ntoy = toy_commands:app\n")
    (tmp_path / "toy_commands.py").write_text(
        "import typer\nprint('imported')\napp = typer.Typer()\n"
        "@app.command()\ndef juggle(balls: int):\n    print(f'{balls} balls')\n"
        "@app.command()\ndef rest():\n    pass\n"
    )

    def said(*words: str) -> str:
        return subprocess.run(
            [sys.executable, "-m", "longhaul", *words],
            env=os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])},
            capture_output=True, text=True, check=True,
        ).stdout  # fmt: skip

    helped = said("--help")
    assert "Commands of the task toy." in helped
    assert "imported" not in helped
    assert said("toy", "juggle", "3") == "imported\n3 balls\n"
    assert "juggle" in said("toy", "--help")


def test_there_are_no_other_commands_than_the_ones_tested() -> None:
    assert {name.split()[1] for name, _ in commands(app, "longhaul")} == set(COMMANDS)


def test_the_version_is_the_installed_one(longhaul: Longhaul) -> None:
    from importlib.metadata import version

    outcome = longhaul("--version")
    assert (outcome.code, outcome.out) == (0, f"longhaul {version('longhaul-rl')}\n")


def test_no_command_at_all_shows_the_help(longhaul: Longhaul) -> None:
    outcome = longhaul()
    assert "Usage: longhaul" in outcome.out + outcome.err
    assert outcome.code in (0, 2)


def test_bench_and_doctor_speak_json_and_text(longhaul: Longhaul) -> None:
    assert longhaul("doctor").code == 0
    outcome = longhaul("doctor", "gym:CartPole-v77", "--json")
    assert outcome.code == 3
    assert '"healthy": false' in outcome.out


def test_sigterm_before_there_is_a_run_ends_by_the_documented_code(tmp_path: Path) -> None:
    started = tmp_path / "started"
    (tmp_path / "slow_module.py").write_text(
        f"import pathlib, time\npathlib.Path({str(started)!r}).touch()\ntime.sleep(60)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-m", "longhaul", "train", "gym:slow_module:Some-v0"],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(tmp_path)}, stderr=subprocess.PIPE,
    )  # fmt: skip
    while not started.exists():
        assert process.poll() is None
        time.sleep(0.05)
    process.terminate()
    _, said = process.communicate(timeout=30)
    assert process.returncode == 143
    assert b"Traceback" not in said
    assert not (tmp_path / "runs").exists()

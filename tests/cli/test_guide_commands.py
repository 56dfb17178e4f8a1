"""Every command that the guide and the README print runs, shortened by flags."""

from __future__ import annotations

import re
import shlex
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import gymnasium as gym
import pytest

from longhaul.core.errors import ConfigError
from longhaul.runs.directory import RunDirectory
from longhaul.tasks.mario.rom import find_rom
from tests.app.small import finished_run, flags
from tests.app.test_guide_examples import GUIDE, ROOT, write_blocks
from tests.cli.conftest import Longhaul

FENCE = re.compile(r"^```(?:sh|bash|console)\n(.*?)^```$", re.M | re.S)
# What may stand before a command, such as a launcher or the path of the virtual environment.
CALL = re.compile(r"^(?:.*\s)?(?:\S*/|-m )?longhaul (?P<words>[^\n]+)$")
RUN = re.compile(
    r"^(?:RUN|runs/(?P<task>[a-z0-9-]+)/(?:\d{8}-\d{6}-[\w-]+|\*\w+\*))(?P<rest>/.*)?$"
)

ENDLESS = {
    "serve": "tests/web start servers and end them",
    "mario": "tests/tasks/mario/commands play and train courses",
    "bench": "measures for minutes; tests/app/bench run the parts",
    "reproduce": "needs a repro file of its run; tests/app/diagnose/test_reproduce.py makes one",
    "tool": "needs records of evaluations; tests/tasks/fish make them",
    "study": "needs a trained player; tests/tasks/nethack make one",
}
PROCESSES = ("search", "compare", "verify-resume")
"""Commands that start processes, which take seconds each."""
SHORT = (
    *flags("total_iterations=0", "learn.replay.enabled=false", "evaluate.every_iterations=0"),
    *("--total-timesteps", "64"),
)
COUNTED_IN_ITERATIONS = ("gate", "original")
"""Presets that cannot be shortened; tests/tasks/fish train with them."""
REFUSED = {"train nethack --set learn.learning_rate=1e-5": 2}
"""Commands that the guide prints with the message that refuses them, and their exit codes."""
SHORTENED = {
    "train": (*SHORT, "--no-report"),
    "resume": ("--quiet", "--no-report"),
    "evaluate": ("--episodes", "2"),
    "verify-resume": ("--iterations", "2", "--interruptions", "1", *flags()),
    "search": ("--trials", "1", "--timesteps", "64", "--jobs", "1", *flags()),
    "compare": ("--seeds", "1", *flags(), "--set", "total_timesteps=64"),
    "doctor": ("--trials", "1"),
}


@dataclass(frozen=True)
class Command:
    """A command as a page prints it."""

    page: str
    text: str

    @property
    def words(self) -> list[str]:
        return shlex.split(self.text, comments=True)

    @property
    def needs_more(self) -> str:
        """Why it cannot run here; empty if it can."""
        if "corridor" in self.words:
            return "needs an installed package; test_guide_examples.py makes one"
        if any(name in word for word in self.words for name in ("hard.toml", "hard.json")):
            return "needs the reader's own file"
        if any(".demo" in word for word in self.words):
            return "needs a demonstration; tests/app/experiments/test_explore.py trains along one"
        if any("teacher.sources" in word and "runs/" in word for word in self.words):
            return "needs trained teachers; tests/app/session/test_teaching.py trains some"
        if any(word == "--cluster" or "cluster.address" in word for word in self.words):
            return "needs a cluster; tests/cluster start one"
        if self.words[:2] == ["explore", "mario"]:
            return "searches for minutes; tests/tasks/mario/test_search_space.py searches a little"
        if self.words[:2] == ["compare", "nethack"] or self.words[0] == "nethack":
            return "plays hundreds of games; tests/tasks/nethack play some"
        return ENDLESS.get(self.words[0], "")


def printed_commands() -> list[Command]:
    found = []
    for page in (ROOT / "README.md", *sorted(GUIDE.glob("*.md"))):
        for block in FENCE.findall(page.read_text("utf-8")):
            for line in block.replace("\\\n", " ").splitlines():
                match = CALL.match(line.partition(" # ")[0].rstrip())
                if match and "pip install" not in line:
                    found.append(Command(page.name, " ".join(match["words"].split())))
    return list(dict.fromkeys(found))


COMMANDS = printed_commands()
RUNNABLE = [
    pytest.param(
        command,
        id=f"{command.page}: {command.text[:60]}",
        marks=[pytest.mark.thorough] if command.words[0] in PROCESSES else [],
    )
    for command in COMMANDS
    if not command.needs_more
]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    return finished_run(tmp_path_factory.mktemp("guide"))


@pytest.fixture
def desk(
    trained: RunDirectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[RunDirectory]:
    """A reader's folder: the files the guide shows, and a run."""
    for page in ("config.md", "environments.md", "own-environment.md", "suites.md"):
        write_blocks(page, tmp_path)
    run = shutil.copytree(trained.path, tmp_path / "runs" / "gym-cartpole-v1" / trained.path.name)
    best = tmp_path / "runs" / "gym-cartpole-v1" / "search.search" / "best.toml"
    best.parent.mkdir()
    best.write_text("[learn]\nn_epochs = 2\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    modules, ids = set(sys.modules), set(gym.registry)
    yield RunDirectory(run)
    for name in set(sys.modules) - modules:
        if name in ("my_envs", "fragile"):
            del sys.modules[name]
    for env_id in set(gym.registry) - ids:
        del gym.registry[env_id]


def skip_without_game(words: list[str]) -> None:
    if any(word == "mario" for word in words):
        try:
            find_rom("")
        except ConfigError as error:
            pytest.skip(str(error))
    if "nethack" in words:
        pytest.importorskip("nle")


def on_this_desk(word: str, desk: RunDirectory, root: Path) -> str:
    """Return an argument with the runs of the guide replaced by one that is there."""
    match = RUN.match(word)
    return f"{desk.path.relative_to(root)}{match['rest'] or ''}" if match else word


def test_the_guide_prints_many_commands_and_most_of_them_run_here() -> None:
    assert len(COMMANDS) > 80
    assert len(RUNNABLE) > 50


@pytest.mark.parametrize("command", RUNNABLE)
def test_a_printed_command_runs(
    command: Command, longhaul: Longhaul, desk: RunDirectory, tmp_path: Path
) -> None:
    words = [on_this_desk(word, desk, tmp_path) for word in command.words]
    skip_without_game(words)
    if words[0] in ("evaluate", "watch", "records") and (
        command.page.startswith(("nethack", "fish")) or "--suite" in words
    ):
        pytest.skip("needs a run of the task itself, which tests/tasks make")
    shortened = SHORTENED.get(words[0], ())
    if set(words) & set(COUNTED_IN_ITERATIONS):
        shortened = ("--dry-run",)
    if "--continue-from" in words:
        shortened = ("--no-report",)
    if {"resume", "--continue-from"} & set(words) and "--total-timesteps" in words:
        words[words.index("--total-timesteps") + 1] = "128"
    outcome = longhaul(*words, *shortened)
    assert "Traceback" not in outcome.err
    assert outcome.code == REFUSED.get(command.text, 0), outcome.err

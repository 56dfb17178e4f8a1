"""The guide's examples do what the guide says; code blocks with a title are files."""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import gymnasium as gym
import pytest
from docs.tools.commands import all_commands, parameters

from longhaul.app.build.components import build_task
from longhaul.app.build.config import SessionOptions
from longhaul.app.build.sources import ConfigSources, from_values, read_toml, resolve
from longhaul.app.diagnose.verify import Interruption, verify
from longhaul.app.inspect.runs import list_tasks
from longhaul.app.session.run import run_session
from longhaul.app.session.start import begin_run, show_plan
from longhaul.core.env import StepBuffers
from longhaul.core.errors import ConfigError
from longhaul.core.spaces import Tier
from longhaul.engine.loop import after_iterations
from longhaul.envs.checks import check_seeds
from longhaul.envs.gymnasium.env import GymnasiumEnv
from longhaul.runs.directory import RunDirectory
from longhaul.runs.logs.jsonl import Row, read_rows

ROOT = Path(__file__).resolve().parents[2]
GUIDE = ROOT / "docs" / "guide"
BLOCK = re.compile(r'^```\w+ title="(?P<title>[^"]+)"\n(?P<text>.*?)^```$', re.M | re.S)
# The first line of a movie names its format, not a command.
COMMAND = re.compile(r"^(?:srun )?(longhaul (?!movie \d)[^\n]+)$", re.M)
QUIET = SessionOptions(quiet=True)
SMALL = ("num_envs=4", "collect.num_steps=64", "learn.minibatch_size=64")


def titled_blocks(page: str) -> dict[str, str]:
    return {m["title"]: m["text"] for m in BLOCK.finditer((GUIDE / page).read_text("utf-8"))}


def write_blocks(page: str, folder: Path) -> None:
    for title, text in titled_blocks(page).items():
        path = folder / title
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def train_shortly(sources: ConfigSources, root: Path, iterations: int) -> RunDirectory:
    config = resolve(sources)
    run = begin_run(config, root).directory
    run_session(run, config, QUIET, also_until=after_iterations(iterations))
    return run


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder Python imports from, which leaves no module and no env id behind."""
    monkeypatch.syspath_prepend(tmp_path)
    modules, ids = set(sys.modules), set(gym.registry)
    yield tmp_path
    for name in set(sys.modules) - modules:
        if name.partition(".")[0] in ("my_envs", "corridor"):
            del sys.modules[name]
    for env_id in set(gym.registry) - ids:
        del gym.registry[env_id]


@pytest.fixture
def my_envs(folder: Path) -> Path:
    write_blocks("own-environment.md", folder)
    return folder


@pytest.fixture
def corridor(folder: Path) -> Path:
    """The package of the task, known to Python as `pip install` makes it known."""
    write_blocks("own-task.md", folder)
    (folder / "corridor" / "__init__.py").touch()
    env = titled_blocks("own-environment.md")["my_envs.py"]
    (folder / "corridor" / "env.py").write_text(env, encoding="utf-8")
    project = tomllib.loads((folder / "pyproject.toml").read_text("utf-8"))["project"]
    installed = folder / f"{project['name']}-{project['version']}.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text(f"Name: {project['name']}\nVersion: {project['version']}\n")
    lines = [
        f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in entries.items())
        for group, entries in project["entry-points"].items()
    ]
    (installed / "entry_points.txt").write_text("\n".join(lines))
    return folder


@pytest.mark.usefixtures("my_envs")
def test_the_guides_environment_keeps_its_promises() -> None:
    task = build_task(from_values({"task": "gym:my_envs:Corridor-v0"}))
    check = check_seeds(task.envs)
    assert check.honest
    assert check.source.spec.tier is Tier.REPLAY
    assert task.envs.spec.has_masks


@pytest.mark.usefixtures("my_envs")
def test_the_guides_environment_forbids_leaving_the_corridor_and_draws_itself() -> None:
    env = GymnasiumEnv("my_envs:Corridor-v0", {"length": 20}, render=True)
    slots = StepBuffers.allocate(env.spec, 1)
    env.bind(slots)
    env.reset(1, None)
    picture = env.frame()
    env.close()
    assert slots.mask is not None
    assert slots.mask.tolist() == [[False, True]]
    assert picture is not None
    assert picture.shape == (16, 320, 3)


def test_the_guides_environment_trains_and_uses_the_guides_starts(my_envs: Path) -> None:
    sources = ConfigSources(
        "gym:my_envs:Corridor-v0", file=my_envs / "starts.toml", overrides=SMALL
    )
    run = train_shortly(sources, my_envs / "runs", iterations=12)
    used = [row.get("starts/used", 0.0) for row in read_rows(run.metrics).rows]
    assert sum(used) > 0
    reasons = {row["reason"] for row in read_rows(run.episodes).rows}
    assert reasons <= {"arrived", "time_limit"}


def test_the_guides_task_is_found_and_trains_with_its_preset(corridor: Path) -> None:
    assert "reach the far end of a corridor" in list_tasks(as_json=False)
    config = resolve(ConfigSources("corridor"))
    assert (config.total_timesteps, config.options) == (30_000, {"length": 12})
    sources = ConfigSources("corridor", overrides=(*SMALL, "total_timesteps=1280"))
    run = train_shortly(sources, corridor / "runs", iterations=5)
    measured: list[Row] = read_rows(run.metrics).rows
    assert any("env/arrived" in row for row in measured)
    moves = [move for row in read_rows(run.events).rows for move in row["moves"]]
    assert {move["setting"] for move in moves} == {"corridor.step_price"}
    assert moves[-1]["new"] == 0.02


@pytest.mark.usefixtures("corridor")
def test_the_guides_task_refuses_wrong_options_as_the_guide_shows() -> None:
    page = (GUIDE / "own-task.md").read_text("utf-8")
    for override in ("options.length=1", "options.lengths=1"):
        with pytest.raises(ConfigError) as refused:
            resolve(ConfigSources("corridor", overrides=(override,)))
        assert f"longhaul: {refused.value}\n" in page


@pytest.mark.usefixtures("corridor")
def test_the_guides_task_resumes_exactly() -> None:
    config = resolve(ConfigSources("corridor", overrides=(*SMALL, "total_timesteps=1280")))
    assert verify(config, Interruption(iterations=4, interruptions=2)).equal


def test_the_guides_schedule_fits_the_command_that_uses_it(tmp_path: Path) -> None:
    write_blocks("config.md", tmp_path)
    sources = ConfigSources("gym:CartPole-v1", file=tmp_path / "slower.toml")
    config = resolve(sources)
    ramp, nudge = read_toml(tmp_path / "slower.toml")["schedule"]
    # The ramp begins where the preset's learning rate is.
    assert list(config.schedule) == [{**ramp, "start": config.learn.learning_rate}, nudge]
    assert "total  " in show_plan(config, as_json=False)


@pytest.mark.parametrize("page", sorted(path.name for path in GUIDE.glob("*.md")))
def test_every_command_in_the_guide_exists_and_knows_its_options(page: str) -> None:
    known = {
        name: {option for one in parameters(function) for option in one.written.split("`")[1::2]}
        for name, function in all_commands()
    }
    for line in COMMAND.findall((GUIDE / page).read_text("utf-8")):
        words = line.split()
        named = [" ".join(words[:length]) for length in (3, 2)]  # `bench` has commands of its own
        command = next((name for name in named if name in known), None)
        assert command is not None, line
        options = {option.split()[0] for option in known[command]}
        assert {word for word in words if word.startswith("--")} <= options, line

"""A learner, a controller and a task come from outside: one file and one entry point each."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import longhaul
from longhaul.app.build.components import build_schedule, build_settings, build_task
from longhaul.app.build.sources import ConfigSources, from_values, read_toml, resolve, to_values
from longhaul.core.errors import ConfigError
from longhaul.runs.logs.jsonl import read_rows

CONTRIBUTING = Path(__file__).parents[2] / "CONTRIBUTING.md"
TASK = '''
"""Balancing a pole."""

from dataclasses import dataclass
from pathlib import Path

from longhaul.core.task import Evaluation, Task
from longhaul.envs.gymnasium.env import GymnasiumFactory, gymnasium_envs
from longhaul.nets.config import build_policy
from longhaul.tasks.kind import TaskKind


@dataclass(frozen=True, slots=True)
class Options:
    limit: int = 20
    """Steps of an episode."""


def build(request):
    made = GymnasiumFactory("CartPole-v1", {"max_episode_steps": request.options.limit})
    envs = gymnasium_envs(made)
    return Task(
        name="pole",
        envs=envs,
        make_policy=lambda: build_policy(envs.spec, request.policy),
        summarize=lambda episodes: {},
        evaluation=Evaluation(),
    )


TASK = TaskKind("pole", "balance a pole", Options, build, ("pole",), Path(__file__).parent)
'''
ENTRY_POINTS = """
[longhaul.tasks]
pole = reef.task:TASK

[longhaul.learners]
a2c = reef.learner:A2C
broken = reef.learner:Missing
nothing = reef.task:TASK

[longhaul.controllers]
stairs = reef.controller:Stairs
broken = reef.nowhere:Stairs
"""
SMALL = ("num_envs=2", "collect.num_steps=16", "learn.minibatch_size=32", "policy.hidden=[8]")
STAIRS = "{kind='%s', name='steps', setting='learn.learning_rate', every=2}"


@pytest.fixture
def reef(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The package of CONTRIBUTING.md, known to Python as `pip install` makes it known."""
    text = CONTRIBUTING.read_text("utf-8")
    blocks = dict(re.findall(r'```python title="reef/(\w+)\.py"\n(.*?)```', text, re.DOTALL))
    folder = tmp_path / "site"
    (folder / "reef").mkdir(parents=True)
    for name, code in {"__init__": "", "task": TASK, **blocks}.items():
        (folder / "reef" / f"{name}.py").write_text(code, encoding="utf-8")
    installed = folder / "reef-1.0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: reef\nVersion: 1.0\n")
    (installed / "entry_points.txt").write_text(ENTRY_POINTS)
    monkeypatch.syspath_prepend(folder)
    for name in [name for name in sys.modules if name.partition(".")[0] == "reef"]:
        monkeypatch.delitem(sys.modules, name)
    return folder


def command(reef: Path, *arguments: str) -> str:
    """Run the public command where the package is installed; return what it says."""
    source = Path(longhaul.__file__).parents[1]
    outcome = subprocess.run(
        [sys.executable, "-m", "longhaul", *arguments],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(reef), str(source)])},
        cwd=reef.parent,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert outcome.returncode == 0, outcome.stderr
    return outcome.stdout


def given(*values: str) -> list[str]:
    return [part for value in (*SMALL, *values) for part in ("--set", value)]


@pytest.mark.parametrize(
    ("learner", "controller"),
    [("a2c", "stairs"), ("reef.learner:A2C", "reef.controller:Stairs")],
    ids=["by entry point", "by module and class"],
)
def test_what_a_package_brings_trains_and_resumes(
    reef: Path, learner: str, controller: str
) -> None:
    values = (
        f"learn.algorithm='{learner}'",
        "learn.trace_decay=0.9",
        f"schedule=[{STAIRS % controller}]",
        "options.limit=15",
    )
    shared = ("--quiet", "--no-report")
    command(reef, "train", "pole", "--total-timesteps", "96", *shared, *given(*values))
    (metrics,) = (reef.parent / "runs").rglob("metrics.jsonl")
    run = metrics.parent
    kept = read_toml(run / "config.toml")["learn"]
    assert (kept["algorithm"], kept["trace_decay"], kept["n_epochs"]) == (learner, 0.9, 1)
    assert "clip_range" not in kept
    command(reef, "resume", str(run), "--total-timesteps", "192", *shared)
    rows = list(read_rows(metrics).rows)
    assert [row["iteration"] for row in rows] == [1, 2, 3, 4, 5, 6]
    rates = [row["train/learning_rate"] / rows[0]["train/learning_rate"] for row in rows]
    assert rates == [1.0, 1.0, 0.5, 0.5, 0.25, 0.25]
    assert all(row["rollout/ep_len_mean"] <= 15 for row in rows)


@pytest.mark.usefixtures("reef")
def test_a_config_with_them_reads_back_as_it_was() -> None:
    config = resolve(ConfigSources("pole", overrides=("learn.algorithm=a2c",)))
    assert from_values(to_values(config)) == config


@pytest.mark.usefixtures("reef")
@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (["a2d"], "no choice 'a2d'; did you mean 'a2c'? (choices: ppo, vtrace, a2c, broken"),
        (["broken"], "'broken': the plugin 'reef.learner:Missing' of reef cannot be loaded"),
        (["nothing"], "not a subclass of Learner"),
        (["reef.lerner:A2C"], "the module 'reef.lerner' cannot be imported: ModuleNotFoundError"),
        (["reef.learner:A2B"], "has no 'A2B'; did you mean 'A2C'?"),
        (["a2c", "learn.trace_dcay=1"], "'learn.trace_dcay'; did you mean 'learn.trace_decay'?"),
        (["a2c", "learn.trace_decay=nan"], "learn.trace_decay = nan must be a finite number"),
        (["a2c", "learn.clip_range=0.1"], "learn.clip_range would have no effect"),
    ],
)
def test_a_learner_that_cannot_be_had_is_one_clear_error(overrides: list[str], said: str) -> None:
    name, *others = overrides
    with pytest.raises(ConfigError, match=re.escape(said)):
        resolve(ConfigSources("pole", overrides=(f"learn.algorithm={name}", *others)))


@pytest.mark.usefixtures("reef")
@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("stair", "start_queue, broken, stairs; did you mean 'stairs'?"),
        ("broken", "schedule.steps.kind = 'broken': the plugin 'reef.nowhere:Stairs' of reef"),
        ("reef.controller:StairsState", "StairsState has no 'name'"),
        ("reef.task:TASK", "not a dataclass"),
    ],
)
def test_a_controller_that_cannot_be_had_is_one_clear_error(kind: str, said: str) -> None:
    config = resolve(ConfigSources("pole", overrides=(f"schedule=[{STAIRS % kind}]",)))
    task = build_task(config)
    with pytest.raises(ConfigError, match=re.escape(said)):
        build_schedule(config, task, build_settings(config, task))

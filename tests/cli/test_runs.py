"""Looking at runs, tasks and configurations."""

from __future__ import annotations

import json
import shutil
import tomllib
from pathlib import Path

import pytest

from longhaul.runs.checkpoints.inspect import list_checkpoints
from longhaul.runs.directory import RunDirectory
from tests.app.small import CARTPOLE, finished_run, flags
from tests.cli.conftest import Longhaul, everything_in

RAMP = "schedule=[{kind='ramp', name='rate', setting='learn.learning_rate', start=1e-3}]"


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    """A finished run with scores and decisions; tests that write take a copy."""
    return finished_run(
        tmp_path_factory.mktemp("trained"),
        "checkpoint.every_iterations=1",
        "evaluate.every_iterations=1",
        "evaluate.episodes=2",
        RAMP,
    )


@pytest.fixture
def run(trained: RunDirectory, tmp_path: Path) -> RunDirectory:
    return RunDirectory(shutil.copytree(trained.path, tmp_path / "run"))


def test_an_evaluation_repeats_to_the_digit(longhaul: Longhaul, run: RunDirectory) -> None:
    first = longhaul("evaluate", run.path, "--episodes", "4", "--json")
    second = longhaul("evaluate", run.path, "--episodes", "4", "--json")
    assert first.code == second.code == 0
    assert first.out == second.out
    found = json.loads(first.out)
    assert len(found["episodes"]) == 4
    assert found["metrics"]["eval/mean_reward"] == pytest.approx(
        sum(episode["episode_return"] for episode in found["episodes"]) / 4
    )
    kept = run.evaluations / "step-000000000096-4-greedy-seed20000003.json"
    assert json.loads(kept.read_text()) == found


def test_another_seed_or_drawn_actions_are_another_evaluation(
    longhaul: Longhaul, run: RunDirectory
) -> None:
    command = ("evaluate", run.path, "--episodes", "3", "--json")
    results = [
        json.loads(longhaul(*command, *more).out)["episodes"]
        for more in ((), ("--seed", "5"), ("--sampled",), ("--sampled",))
    ]
    assert results[0] != results[1]
    assert results[0] != results[2]
    assert results[2] == results[3]
    assert len(list(run.evaluations.iterdir())) == 3


def test_the_best_checkpoint_is_the_one_with_the_highest_score(
    longhaul: Longhaul, run: RunDirectory
) -> None:
    scores = {
        path.name: json.loads(longhaul("inspect", path, "--json").out)["score"]["value"]
        for path in list_checkpoints(run.checkpoints)
    }
    outcome = longhaul("evaluate", run.path, "--checkpoint", "best", "--episodes", "1", "--json")
    assert outcome.code == 0
    assert scores[json.loads(outcome.out)["checkpoint"]] == max(scores.values())


def test_a_checkpoint_can_be_named_by_its_steps(longhaul: Longhaul, run: RunDirectory) -> None:
    outcome = longhaul("evaluate", run.path, "--checkpoint", "64", "--episodes", "1")
    assert outcome.code == 0
    assert "step-000000000064" in outcome.out
    assert "mean return" in outcome.out
    assert "475: not reached" in outcome.out


def test_inspecting_a_run_shows_how_it_stands(longhaul: Longhaul, run: RunDirectory) -> None:
    before = everything_in(run.path)
    facts = json.loads(longhaul("inspect", run.path, "--json").out)
    assert facts["task"] == CARTPOLE
    assert facts["status"] == "finished"
    assert facts["env_steps"] == 96
    assert set(facts["checkpoints"].values()) == {"whole"}
    assert "eval/mean_reward" in facts["metrics"]
    text = longhaul("inspect", run.path).out
    assert "total_timesteps reached" in text
    assert "step-000000000096" in text
    assert everything_in(run.path) == before


def test_inspecting_a_checkpoint_shows_what_it_holds(longhaul: Longhaul, run: RunDirectory) -> None:
    newest = list_checkpoints(run.checkpoints)[0]
    facts = json.loads(longhaul("inspect", newest, "--json").out)
    assert facts["whole"] is True
    assert facts["env_steps"] == 96
    assert facts["facts"]["tier"] == "replay"
    assert "learn.learning_rate" in facts["settings"]
    assert facts["parts"]["learner.safetensors"] > 0
    assert "learner.safetensors" in longhaul("inspect", newest).out


def test_inspecting_something_else_says_what_it_is_not(longhaul: Longhaul, tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("nothing")
    for path in (tmp_path, file):
        outcome = longhaul("inspect", path)
        assert outcome.code == 2
        assert "neither a run directory nor a checkpoint" in outcome.problem


def test_replaying_the_same_schedule_decides_the_same(
    longhaul: Longhaul, run: RunDirectory
) -> None:
    decided = json.loads(longhaul("schedule-replay", run.path, "--json").out)
    assert {line["agreement"] for line in decided} <= {"same", "opening"}
    assert any(line["agreement"] == "same" for line in decided)


def test_replaying_a_changed_schedule_shows_what_would_differ(
    longhaul: Longhaul, run: RunDirectory
) -> None:
    before = everything_in(run.path)
    changed = RAMP.replace("1e-3", "5e-4")
    outcome = longhaul("schedule-replay", run.path, "--set", changed)
    assert outcome.code == 0
    assert "differs" in outcome.out
    assert "3 iterations replayed" in outcome.out
    decided = json.loads(longhaul("schedule-replay", run.path, "--set", changed, "--json").out)
    differing = [line for line in decided if line["agreement"] == "differs"]
    assert differing
    assert all(line["move"]["new"] < line["recorded"]["new"] for line in differing[:1])
    assert everything_in(run.path) == before


def test_replaying_no_schedule_shows_what_would_be_missing(
    longhaul: Longhaul, run: RunDirectory, tmp_path: Path
) -> None:
    empty = tmp_path / "empty.toml"
    empty.write_text("schedule = []\n")
    decided = json.loads(longhaul("schedule-replay", run.path, "--config", empty, "--json").out)
    assert {line["agreement"] for line in decided} == {"only recorded"}


def test_all_tasks_are_listed_with_their_presets(longhaul: Longhaul) -> None:
    listed = {task["name"]: task for task in json.loads(longhaul("tasks", "--json").out)}
    assert {"gym", "probe"} <= listed.keys()
    assert "CartPole-v1" in listed["gym"]["presets"]
    text = longhaul("tasks").out
    assert all(name in text for name in listed)


def test_every_example_of_every_task_has_a_configuration(longhaul: Longhaul) -> None:
    tasks = json.loads(longhaul("tasks", "--json").out)
    for example in (example for task in tasks for example in task["examples"]):
        assert longhaul("config", example).code == 0


@pytest.mark.parametrize("task", [CARTPOLE, "probe:recall", "gym:LunarLander-v3"])
def test_a_shown_config_reads_back_to_itself(longhaul: Longhaul, tmp_path: Path, task: str) -> None:
    file = tmp_path / "shown.toml"
    file.write_text(longhaul("config", task, "--set", "seed=9", "--set", "learn.gamma=0.5").out)
    again = longhaul("config", task, "--config", file)
    assert again.out == file.read_text()
    values = json.loads(longhaul("config", task, "--config", file, "--json").out)
    assert values == {**tomllib.loads(file.read_text()), "schedule": values["schedule"]}
    assert values["seed"] == 9


def test_what_is_trained_with_is_what_config_shows(
    longhaul: Longhaul, trained: RunDirectory
) -> None:
    words = flags("checkpoint.every_iterations=1", "evaluate.every_iterations=1")
    shown = longhaul("config", CARTPOLE, *words, "--set", "evaluate.episodes=2", "--set", RAMP)
    assert shown.out == trained.config.read_text()

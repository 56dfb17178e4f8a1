"""Comparing runs and training arms, listing runs, beginning the next experiment."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from longhaul.app.artifacts.report import report_run
from longhaul.app.build.sources import ConfigSources, resolve
from longhaul.app.experiments.arms import Arm, Experiment
from longhaul.app.experiments.compare import compare_arms, compare_runs, name_arms
from longhaul.app.experiments.new_experiment import begin_experiment, next_name
from longhaul.app.inspect.runs import list_runs
from longhaul.app.session.run import run_session
from longhaul.core.errors import ConfigError, LonghaulError
from longhaul.report.notebook import section
from longhaul.runs.directory import RunDirectory
from tests.app.small import CARTPOLE, SMALL, finished_run

pytestmark = pytest.mark.thorough

MEASURED = ("evaluate.final_episodes=3",)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[RunDirectory]:
    """Two runs of one arm and one of another."""
    root = tmp_path_factory.mktemp("runs")
    return [
        finished_run(root, *MEASURED, "name=plain", "seed=1"),
        finished_run(root, *MEASURED, "name=plain", "seed=2"),
        finished_run(root, *MEASURED, "name=wide", "policy.hidden=[16]"),
    ]


def test_runs_that_differ_in_seed_and_name_only_are_one_arm(runs: list[RunDirectory]) -> None:
    found = compare_runs([run.path for run in runs])
    assert [(arm.arm, arm.runs) for arm in found.comparison.arms] == [("plain", 2), ("wide", 1)]
    assert found.differences == {"wide": {"policy.hidden": (16,)}}
    assert found.page is not None
    assert "wide" in found.page.read_text()
    assert (found.page.parent / "compare-scores.png").exists()
    assert "P(better)" in found.as_text()
    assert {run["arm"] for run in json.loads(found.as_json())["runs"]} == {"plain", "wide"}


def test_a_run_may_have_moved_to_another_cluster(runs: list[RunDirectory], tmp_path: Path) -> None:
    alone, first, second = (
        RunDirectory(shutil.copytree(runs[0].path, tmp_path / name)) for name in ("0", "1", "2")
    )
    for run, address in ((first, "a:6379"), (second, "b:6379")):
        text = run.config.read_text().replace('address = ""', f'address = "{address}"')
        run.config.write_text(text)
    found = compare_runs([alone.path, first.path, second.path])
    assert [(arm.arm, arm.runs) for arm in found.comparison.arms] == [("plain", 1), ("plain'", 2)]
    assert found.differences == {"plain'": {"cluster.address": "a cluster"}}


def test_a_run_that_was_measured_otherwise_is_refused(
    runs: list[RunDirectory], tmp_path: Path
) -> None:
    other = finished_run(tmp_path, "evaluate.final_episodes=2", "name=other", "learn.gamma=0.5")
    with pytest.raises(ConfigError, match=r"other episodes|2 episodes of seed"):
        compare_runs([runs[0].path, other.path])


def test_arms_of_one_name_are_told_apart() -> None:
    arms = name_arms(
        {
            Path("a"): {"name": "same", "x": 1},
            Path("b"): {"name": "same", "x": 2},
            Path("c"): {"name": "third", "x": 1},
        }
    )
    assert arms == {Path("a"): "same", Path("b"): "same'", Path("c"): "same"}


@pytest.mark.parametrize(
    ("text", "arm"),
    [
        ("default", Arm("default")),
        ("steady", Arm("steady", preset="steady")),
        (
            "fast:learn.learning_rate=1e-2; num_envs=4",
            Arm("fast", overrides=("learn.learning_rate=1e-2", "num_envs=4")),
        ),
    ],
)
def test_arms_are_presets_or_changed_keys(text: str, arm: Arm) -> None:
    assert Arm.parse(text) == arm


def experiment(root: Path, *arms: str, seeds: int = 2) -> Experiment:
    ways = tuple(map(Arm.parse, arms))
    return Experiment(CARTPOLE, ways, seeds, root, (*SMALL, "evaluate.final_episodes=2"))


def test_a_wrong_arm_is_told_before_anything_is_trained(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="discuont"):
        compare_arms(experiment(tmp_path, "default", "x:learn.discuont=1"), lambda text: None)
    assert not list(tmp_path.iterdir())
    with pytest.raises(ConfigError, match="at least two arms"):
        compare_arms(experiment(tmp_path, "default"), lambda text: None)


def finished_arm(root: Path, plan: Experiment, arm: Arm, seed: int) -> None:
    """Train one run of an experiment in this process, as its own process would."""
    flags = {"name": f"compare-{arm.name}", "seed": seed}
    overrides = (*plan.overrides, *arm.overrides)
    config = resolve(ConfigSources(CARTPOLE, preset=arm.preset, flags=flags, overrides=overrides))
    from longhaul.app.session.start import begin_run
    from tests.app.small import QUIET

    assert run_session(begin_run(config, root).directory, config, QUIET).exit_code == 0


def test_what_is_trained_already_is_not_trained_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = experiment(tmp_path, "default", "short:learn.gamma=0.5")
    for arm in plan.arms:
        for seed in (1, 2):
            finished_arm(tmp_path, plan, arm, seed)
    monkeypatch.setattr("sys.executable", "/bin/false")
    told: list[str] = []
    found = compare_arms(plan, told.append)
    assert found.comparison.over_runs
    assert [arm.runs for arm in found.comparison.arms] == [2, 2]
    assert told[-1] == "4 of 4: short, seed 2"
    (first, *_) = sorted((tmp_path / "gym-cartpole-v1").glob("2*"))
    shutil.rmtree(first)
    with pytest.raises(LonghaulError, match="ended with exit code 1"):
        compare_arms(plan, told.append)


@pytest.mark.slow
def test_arms_are_trained_in_processes_of_their_own(tmp_path: Path) -> None:
    plan = experiment(tmp_path, "default", "short:learn.gamma=0.5")
    found = compare_arms(plan, lambda text: None)
    assert found.comparison.over_runs
    assert len(list((tmp_path / "gym-cartpole-v1").glob("2*/run.json"))) == 4


def test_runs_are_listed_one_a_line(runs: list[RunDirectory]) -> None:
    root = runs[0].path.parents[1]
    text = list_runs(root, task="", as_json=False)
    assert text.count("finished") == 3
    listed = json.loads(list_runs(root, task=CARTPOLE, as_json=True))
    assert [(line["name"], line["seed"]) for line in listed] == [
        ("plain", 1),
        ("plain", 2),
        ("wide", 1),
    ]
    assert listed[0]["steps"] == 96
    assert list_runs(root, task="fish", as_json=False) == f"no runs in {root}"


@pytest.mark.parametrize(
    ("name", "following"), [("v7", "v8"), ("v09", "v10"), ("default", "default-2"), ("a-2", "a-3")]
)
def test_the_next_experiment_has_the_next_number(name: str, following: str) -> None:
    assert next_name(name) == following


def test_the_next_experiment_takes_over_what_was_learned(
    runs: list[RunDirectory], tmp_path: Path
) -> None:
    run = RunDirectory(shutil.copytree(runs[2].path, tmp_path / "run"))
    report_run(run.path)
    text = run.notebook.read_text()
    text = text[: text.index("## Learning")] + "## Learning\n\nWide is slow.\n\n"
    run.notebook.write_text(text + "## Next steps\n\nTry it deeper.\n")
    begun = begin_experiment(run.path, "", ["learn.gamma=0.9"], tmp_path / "experiments")
    assert begun.config.name == "wide-2.toml"
    notes = begun.notes.read_text()
    assert "Wide is slow." in section(notes, "Start")
    assert section(notes, "Plan") == "Try it deeper.\n\n- `learn.gamma=0.9`"
    config = resolve(ConfigSources(CARTPOLE, file=begun.config, flags={"name": "wide-2"}))
    assert (config.policy.hidden, config.learn.gamma) == ((16,), 0.9)
    assert "\nseed" not in begun.config.read_text()
    with pytest.raises(ConfigError, match="exists; give the experiment another --name"):
        begin_experiment(run.path, "", (), tmp_path / "experiments")
    with pytest.raises(ConfigError, match="discuont"):
        begin_experiment(run.path, "x", ["learn.discuont=1"], tmp_path / "experiments")

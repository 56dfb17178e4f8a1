from __future__ import annotations

from pathlib import Path

import pytest

from longhaul.app.session.run import run_session
from longhaul.core.errors import ConfigError
from longhaul.runs.directory import RunDirectory
from longhaul.runs.reader import read_metrics
from tests.app.small import QUIET, finished_run, small_config, stopped_run


@pytest.fixture(scope="module")
def teacher(tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    return finished_run(
        tmp_path_factory.mktemp("teacher"), "seed=5", "name=teacher", "policy.core=gru",
        "collect.chunk=8",
    )  # fmt: skip


def test_a_run_learns_from_the_policy_of_another_and_resumes_exactly(
    tmp_path: Path, teacher: RunDirectory
) -> None:
    taught = (f"learn.teacher.sources=['{teacher.path}']", "learn.teacher.policy_coef=0.0")
    whole = finished_run(tmp_path / "whole", *taught)
    parts = stopped_run(tmp_path / "parts", *taught)
    config = small_config("gym:CartPole-v1", "checkpoint.every_iterations=1", *taught)
    assert run_session(parts, config, QUIET).exit_code == 0
    first, second = (read_metrics(run).rows for run in (whole, parts))
    names = [name for name in first[-1] if name.startswith(("train/", "rollout/"))]
    assert "train/teacher_kl" in names
    for left, right in zip(first, second, strict=True):
        assert [left.get(name) for name in names] == [right.get(name) for name in names]


@pytest.mark.parametrize(
    ("sources", "words"),
    [
        ("['script']", "brings no script"),
        ("['nowhere']", "is not a run, a checkpoint"),
        ("['zoo:acrobot']", "was trained on"),
        ("['zoo:cartpole','zoo:cartpole']", "does not say for which observations it is made"),
    ],
)
def test_a_teacher_that_does_not_fit_is_refused(tmp_path: Path, sources: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        finished_run(tmp_path, f"learn.teacher.sources={sources}")


def test_continuous_actions_have_no_teacher(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="continuous actions is not supported"):
        finished_run(tmp_path, "learn.teacher.sources=['script']", task="gym:Pendulum-v1")


def test_teachers_of_single_stages_teach_one_policy_of_all_of_them(tmp_path: Path) -> None:
    def stage(name: str, *more: str) -> RunDirectory:
        own = (f"options.stages={[name]}", "total_timesteps=64", *more)
        return finished_run(tmp_path / name, *own, task="mario:standin")

    sources = f"learn.teacher.sources={[str(stage(name).path) for name in ('1-1', '1-2')]}"
    taught = finished_run(
        tmp_path / "both", "options.stages=['1-1..1-2']", "options.course_numbers=true", sources,
        "learn.teacher.policy_coef=0.0", "total_timesteps=64", task="mario:standin",
    )  # fmt: skip
    assert read_metrics(taught).rows[-1]["train/teacher_kl"] > 0
    with pytest.raises(ConfigError, match=r"need options\.course_numbers = true"):
        stage("2-1", sources)

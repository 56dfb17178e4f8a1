from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch

from longhaul.app.build.config import SessionOptions
from longhaul.app.evaluation.load import Run
from longhaul.app.session.run import run_session
from longhaul.app.session.start import begin_run
from longhaul.core.errors import ConfigError
from longhaul.engine.loop import after_iterations
from longhaul.runs.directory import RunDirectory
from tests.app.small import QUIET, finished_run, small_config

FROZEN = ("learn.learning_rate=1e-30", "schedule=[]")


@pytest.fixture(scope="module")
def teacher(tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    return finished_run(tmp_path_factory.mktemp("teacher"), "seed=5", "name=teacher")


def weights(run: RunDirectory) -> dict[str, torch.Tensor]:
    found: dict[str, torch.Tensor] = Run(run).checkpoint("latest").states["learner"]["policy"]
    return found


def same(left: dict[str, torch.Tensor], right: dict[str, torch.Tensor]) -> bool:
    return all(torch.equal(left[name], right[name]) for name in left)


def test_a_run_begins_with_the_weights_of_another(tmp_path: Path, teacher: RunDirectory) -> None:
    pupil = finished_run(tmp_path, f"start_from={teacher.path}", *FROZEN)
    assert same(weights(pupil), weights(teacher))
    assert not same(weights(finished_run(tmp_path, *FROZEN, "name=alone")), weights(teacher))


def test_a_checkpoint_can_be_named(tmp_path: Path, teacher: RunDirectory) -> None:
    checkpoint = Run(teacher).checkpoint("latest").path
    assert same(
        weights(finished_run(tmp_path, f"start_from={checkpoint}", *FROZEN)), weights(teacher)
    )


def test_a_run_goes_on_without_them(tmp_path: Path, teacher: RunDirectory) -> None:
    lent = tmp_path / "lent"
    shutil.copytree(teacher.path, lent)
    config = small_config("gym:CartPole-v1", f"start_from={lent}", "checkpoint.every_iterations=1")
    run = begin_run(config, tmp_path / "runs").directory
    run_session(run, config, QUIET, also_until=after_iterations(1))
    shutil.rmtree(lent)
    assert run_session(run, config, SessionOptions(quiet=True)).exit_code == 0


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("policy.hidden=[16]", "its network has a different architecture"),
        ("start_from=nowhere", "is not a run, a checkpoint"),
    ],
)
def test_what_does_not_fit_is_told(
    tmp_path: Path, teacher: RunDirectory, override: str, words: str
) -> None:
    with pytest.raises(ConfigError, match=words):
        finished_run(tmp_path, f"start_from={teacher.path}", override)

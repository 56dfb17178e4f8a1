"""Mistakes on the command line: one line, the right exit code, and nothing made or changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.app.small import CARTPOLE, flags
from tests.cli.conftest import Longhaul, everything_in


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        pytest.param(["gmy:CartPole-v1"], 2, "did you mean 'gym:CartPole-v1'", id="task-typo"),
        pytest.param(["CartPole-v1"], 2, "did you mean 'gym:CartPole-v1'", id="task-no-kind"),
        pytest.param(["chess"], 2, "(tasks: fish, gym, mario, nethack, probe", id="task-unknown"),
        pytest.param(["gym"], 2, "needs an environment id", id="task-no-argument"),
        pytest.param(["probe:rekall"], 2, "did you mean 'recall'", id="probe-typo"),
        pytest.param(["gym:CartPol-v1"], 2, "CartPole-v1", id="env-typo"),
        pytest.param(["gym:CartPole-v77"], 2, "CartPole", id="env-version"),
        pytest.param(["gym:no_such_module:Env-v0"], 2, "no_such_module", id="env-module"),
        pytest.param(
            [CARTPOLE, "--set", "learn.epoch=3"], 2, "did you mean 'learn.epochs'", id="key-typo"
        ),
        pytest.param(
            [CARTPOLE, "--set", "totaltimesteps=3"], 2, "'total_timesteps'", id="top-key-typo"
        ),
        pytest.param(
            [CARTPOLE, "--set", "options.kwarg.a=3"], 2, "'options.kwargs'", id="option-typo"
        ),
        pytest.param(
            [CARTPOLE, "--set", "learn.epochs=many"], 2, "learn.epochs: expected int", id="type"
        ),
        pytest.param(
            [CARTPOLE, "--set", "learn=3"], 2, "learn is a table of settings, not 3", id="no-table"
        ),
        pytest.param(
            [CARTPOLE, "--set", "policy.core=grue"], 2, "did you mean 'gru'", id="choice-typo"
        ),
        pytest.param([CARTPOLE, "--num-envs", "0"], 2, "num_envs must be at least 1", id="no-envs"),
        pytest.param([CARTPOLE, "--total-timesteps", "-5"], 2, "total_timesteps", id="negative"),
        pytest.param([CARTPOLE, "--seed", "-1"], 2, "seed cannot be negative", id="negative-seed"),
        pytest.param(
            [CARTPOLE, "--set", "learn.discount=1.5"], 2, "between 0 and 1", id="impossible"
        ),
        pytest.param(
            [CARTPOLE, "--set", "learn.learning_rate=nan"], 2, "learn.learning_rate", id="nan"
        ),
        pytest.param(
            [CARTPOLE, "--set", "collect.chunk=7"], 2, "must divide collect.steps", id="chunk"
        ),
        pytest.param(
            [CARTPOLE, "--set", "learn.epochs"], 2, "--set takes key=value", id="no-value"
        ),
        pytest.param([CARTPOLE, "--set", "=3"], 2, "--set takes key=value", id="no-key"),
        pytest.param([CARTPOLE, "--preset", "CartPole"], 2, "'CartPole-v1'", id="preset-typo"),
        pytest.param([CARTPOLE, "--device", "gpu"], 2, "use auto, cpu, cuda", id="device-unknown"),
        pytest.param([CARTPOLE, "--device", "meta"], 2, "not supported", id="device-unsupported"),
        pytest.param(
            [CARTPOLE, "--device", "cpu", "--require-gpu"], 2, "--require-gpu", id="cpu-and-gpu"
        ),
        pytest.param(
            [CARTPOLE, "--set", "schedule=[{kind='rampp', name='x'}]"], 2, "'ramp'", id="controller"
        ),
        pytest.param(
            [
                CARTPOLE,
                "--set",
                "schedule=[{kind='ramp', name='x', setting='learn.learning_rat', start=1.0}]",
            ],
            2,
            "'learn.learning_rate'",
            id="setting-typo",
        ),
        pytest.param([CARTPOLE, "--name", "///"], 2, "cannot name a folder", id="name"),
        pytest.param([CARTPOLE, "--name", "n" * 90], 2, "cannot name a folder", id="long-name"),
        pytest.param(["gym:Toy/TextObservation-v0"], 2, "Text", id="observation-space"),
        pytest.param(["gym:Toy/GraphAction-v0"], 2, "Graph", id="action-space"),
        pytest.param(
            [CARTPOLE, "--set", "options.kwargs.colour='red'"], 2, "colour", id="env-argument"
        ),
    ],
)
def test_training_refuses_in_one_line_and_makes_nothing(
    longhaul: Longhaul, tmp_path: Path, arguments: list[str], code: int, says: str
) -> None:
    outcome = longhaul("train", *arguments, "--runs-root", tmp_path / "runs")
    assert outcome.code == code
    assert says in outcome.problem
    assert everything_in(tmp_path) == {}


@pytest.mark.parametrize(
    ("content", "says"),
    [
        pytest.param(None, "does not exist", id="missing"),
        pytest.param("learn = [", "is not valid TOML", id="invalid"),
        pytest.param("learn.epoch = 3", "did you mean 'learn.epochs'", id="unknown-key"),
        pytest.param("\x80\x04K\x05.", "is not valid TOML", id="pickle"),
    ],
)
def test_a_bad_config_file_is_named(
    longhaul: Longhaul, tmp_path: Path, content: str | None, says: str
) -> None:
    file = tmp_path / "mine.toml"
    if content is not None:
        file.write_text(content)
    before = everything_in(tmp_path)
    outcome = longhaul("train", CARTPOLE, "--config", file, "--runs-root", tmp_path / "runs")
    assert outcome.code == 2
    assert says in outcome.problem
    assert everything_in(tmp_path) == before


def test_a_config_that_is_a_folder_or_not_text_is_named(longhaul: Longhaul, tmp_path: Path) -> None:
    binary = tmp_path / "binary.toml"
    binary.write_bytes(b"\xff\xfe\x00")
    for file in (tmp_path, binary):
        outcome = longhaul("config", CARTPOLE, "--config", file)
        assert outcome.code == 2
        assert f"config file {str(file)!r} cannot be read" in outcome.problem


def test_a_runs_root_that_cannot_hold_runs_is_refused(longhaul: Longhaul, tmp_path: Path) -> None:
    blocked = tmp_path / "runs"
    blocked.write_text("a file, not a folder")
    outcome = longhaul("train", CARTPOLE, *flags(), "--runs-root", blocked)
    assert outcome.code == 2
    assert f"cannot create a run in {blocked}" in outcome.problem
    assert list(tmp_path.iterdir()) == [blocked]


def test_more_environments_than_memory_end_with_exit_code_6(
    longhaul: Longhaul, tmp_path: Path
) -> None:
    outcome = longhaul("train", CARTPOLE, "--num-envs", 10**12, "--runs-root", tmp_path, "--quiet")
    assert outcome.code == 6
    assert "the machine has" in outcome.problem


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(["resume", "nowhere"], id="resume"),
        pytest.param(["evaluate", "nowhere"], id="evaluate"),
        pytest.param(["inspect", "nowhere"], id="inspect"),
        pytest.param(["schedule-replay", "nowhere"], id="replay"),
        pytest.param(["verify-resume", "--iterations", "1"], id="too-short"),
        pytest.param(["verify-resume", "--interruptions", "-1"], id="no-interruptions"),
        pytest.param(["bench", "train", "--peer", "pufferlib"], id="peer"),
        pytest.param(["bench", "train", "--repeats", "0"], id="repeats"),
        pytest.param(
            ["bench", "train", "--total-timesteps", "1", "--repeats", "1"], id="bench-too-short"
        ),
        pytest.param(["config", "gym:CartPole-v1", "--preset", "nothing"], id="preset"),
    ],
)
def test_other_commands_refuse_in_one_line_as_well(
    longhaul: Longhaul, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    outcome = longhaul(*arguments)
    assert outcome.code == 2
    assert outcome.problem
    assert everything_in(tmp_path) == {}


def test_a_usage_error_has_the_code_of_a_config_error(longhaul: Longhaul) -> None:
    assert longhaul("train").code == 2
    assert longhaul("train", CARTPOLE, "--num-envs", "many").code == 2
    assert longhaul("fly").code == 2

"""What a command says of an environment that raises, and what it keeps."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.app.zoo import task
from tests.cli.conftest import Longhaul

pytestmark = pytest.mark.thorough

SMALL = (
    "--no-report", "--num-envs", "4", "--total-timesteps", "600", "--set", "collect.num_steps=32",
    "--set", "evaluate.final_episodes=2", "--set", "env.check_seeds=false", "--device", "cpu",
)  # fmt: skip
LINE = r"KeyError: 'ball' at zoo\.py:\d+ in may_raise"


def trained(longhaul: Longhaul, root: Path, where: str, runtime: str, name: str = "Raises") -> str:
    changes = ("--set", f"options.kwargs.where={where}") if where else ()
    ended = longhaul(
        "train", task(name), "--runs-root", root, *SMALL, *changes,
        "--set", f"env.runtime={runtime}", "--set", "env.processes.workers=1",
    )  # fmt: skip
    assert "Traceback" not in ended.err
    return ended.err


def test_an_exception_in_a_step_names_the_line_and_the_file_with_its_traceback(
    longhaul: Longhaul, tmp_path: Path
) -> None:
    last = trained(longhaul, tmp_path, "step", "serial").splitlines()[-1]
    found = re.search(rf"step 5: {LINE}; traceback in (.+/crash/raised-1\.txt)$", last)
    assert found, last
    text = Path(found[1]).read_text()
    assert 'raise KeyError("ball")' in text
    assert "KeyError: 'ball'" in text


def test_a_worker_says_what_was_raised_and_where_and_that_the_seed_is_set_aside(
    longhaul: Longhaul, tmp_path: Path
) -> None:
    lines = trained(longhaul, tmp_path, "step", "processes").splitlines()
    found = re.search(rf"step 5: raised in step: {LINE}; see (.+/crash/raised-1\.txt)$", lines[1])
    assert found, lines
    assert 'raise KeyError("ball")' in Path(found[1]).read_text()
    assert re.search(rf"seed \d+ is quarantined \({LINE}\); see .+/crash/repro-", lines[2])
    told = [line for line in lines if "raised in step" in line]
    assert len(told) <= 4, "the first few, then a count"


@pytest.mark.parametrize("runtime", ["serial", "processes"])
@pytest.mark.parametrize("where", ["construct", "reset"])
def test_an_env_that_cannot_begin_names_the_line(
    longhaul: Longhaul, tmp_path: Path, where: str, runtime: str
) -> None:
    last = trained(longhaul, tmp_path, where, runtime).splitlines()[-1]
    found = re.search(rf"{LINE}; traceback in (.+\.txt)$", last)
    assert found, last
    path = Path(found[1])
    assert 'raise KeyError("ball")' in path.read_text()
    path.unlink()
    assert not any(tmp_path.iterdir()), "no run was begun"


@pytest.mark.parametrize("runtime", ["serial", "processes"])
def test_an_exception_in_close_is_told_and_costs_nothing(
    longhaul: Longhaul, tmp_path: Path, runtime: str
) -> None:
    told = trained(longhaul, tmp_path, "close", runtime)
    assert re.search(rf"raised in close: {LINE}", told)
    assert "mean return" in told


def test_a_film_of_an_env_that_cannot_be_drawn_names_the_line(
    longhaul: Longhaul, tmp_path: Path
) -> None:
    trained(longhaul, tmp_path, "render", "serial")
    (run,) = tmp_path.glob("*/*")
    ended = longhaul("watch", run)
    assert ended.code == 3
    assert re.search(rf"{LINE}; traceback in .+/crash/raised-1\.txt$", ended.problem)


def test_a_wrong_shape_in_every_episode_is_told_a_few_times_and_counted(
    longhaul: Longhaul, tmp_path: Path
) -> None:
    lines = trained(longhaul, tmp_path, "", "serial", "WrongShape").splitlines()
    told = [line for line in lines if "has shape (3,)" in line]
    assert len(told) <= 6
    assert any("(10 times so far)" in line for line in told)
    assert "101 transitions were dropped" in lines[-1]

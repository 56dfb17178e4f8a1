"""Comparing the trials of an environment with a stored baseline."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from longhaul.app.diagnose.baseline import TrialsVerdict, compare_trials
from longhaul.app.diagnose.doctor import DoctorFinding, Examination
from longhaul.app.diagnose.trials import TrialRow, Trials
from longhaul.core.errors import ConfigError

TASK = "gym:CartPole-v1"


def trials(seconds: Sequence[float] = (0.2,) * 5, *, bad: int = 0, digest: str = "d") -> Trials:
    rows = [
        TrialRow("serial", n, "ok" if n >= bad else "stuck", {"step": spent}, spent, digest=digest)
        for n, spent in enumerate(seconds)
    ]
    return Trials(tuple(rows), "report.jsonl")


def compared(now: Trials, file: Path, then: Trials | None = None) -> TrialsVerdict:
    assert compare_trials(TASK, 2, then or trials(), file).was_written
    return compare_trials(TASK, 2, now, file)


def is_healthy(verdict: TrialsVerdict) -> bool:
    good = (DoctorFinding("python", good=True, detail=""),)
    return Examination(good, trials(), verdict).healthy


def test_without_a_baseline_the_trials_become_it(tmp_path: Path) -> None:
    verdict = compare_trials(TASK, 2, trials(), tmp_path / "base.json")
    assert verdict.was_written
    assert is_healthy(verdict)
    assert json.loads((tmp_path / "base.json").read_text())["modes"]["serial"]["ok"] == 5


def test_trials_as_good_as_the_baseline_are_healthy_and_leave_it(tmp_path: Path) -> None:
    file = tmp_path / "base.json"
    assert compare_trials(TASK, 2, trials(), file).was_written
    before = file.read_bytes()
    verdict = compare_trials(TASK, 2, trials((0.19, 0.21, 0.2)), file)
    assert verdict == TrialsVerdict(file)
    assert is_healthy(verdict)
    assert file.read_bytes() == before


@pytest.mark.parametrize(
    ("now", "says"),
    [
        (trials(bad=1), "serial: 4 of 5 trials succeed, before 5 of 5"),
        (trials((0.5,) * 5), "serial: step takes 0.500 s, before 0.200 s"),
        (trials(digest="other"), "the same seeds and actions show something else"),
    ],
)
def test_a_regression_is_named_and_unhealthy(now: Trials, says: str, tmp_path: Path) -> None:
    verdict = compared(now, tmp_path / "base.json")
    assert any(says in one for one in verdict.regressions), verdict.regressions
    assert not is_healthy(verdict)
    assert says in verdict.as_text()


@pytest.mark.parametrize("seconds", [0.39, 0.2])
def test_less_than_twice_the_time_is_no_regression(seconds: float, tmp_path: Path) -> None:
    assert not compared(trials((seconds,) * 5), tmp_path / "base.json").regressions


def test_milliseconds_are_no_regression(tmp_path: Path) -> None:
    fast = trials((0.001,) * 5)
    assert not compared(trials((0.05,) * 5), tmp_path / "base.json", fast).regressions


def test_a_baseline_may_have_failures_which_do_not_excuse_more_of_them(tmp_path: Path) -> None:
    then = trials(bad=2)
    assert not compared(trials(bad=2), tmp_path / "one.json", then).regressions
    assert compared(trials(bad=3), tmp_path / "two.json", then).regressions


def change(file: Path, **values: Any) -> None:
    file.write_text(json.dumps({**json.loads(file.read_text()), **values}))


def test_times_of_another_machine_are_not_compared(tmp_path: Path) -> None:
    file = tmp_path / "base.json"
    assert compare_trials(TASK, 2, trials(), file).was_written
    change(file, machine="another processor")
    verdict = compare_trials(TASK, 2, trials((9.0,) * 5), file)
    assert not verdict.regressions
    assert "times were not compared: the baseline is of another processor" in verdict.as_text()
    assert compare_trials(TASK, 2, trials(bad=1), file).regressions


def test_a_baseline_of_something_else_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "base.json"
    assert compare_trials(TASK, 2, trials(), file).was_written
    with pytest.raises(ConfigError, match="measured with num_envs = 2, not 4"):
        compare_trials(TASK, 4, trials(), file)
    with pytest.raises(ConfigError, match="measured with task"):
        compare_trials("fish", 2, trials(), file)


@pytest.mark.parametrize("content", ["{torn", "[]", '{"task": "fish"}'])
def test_a_damaged_baseline_is_refused(content: str, tmp_path: Path) -> None:
    (file := tmp_path / "base.json").write_text(content)
    with pytest.raises(ConfigError, match="--baseline"):
        compare_trials(TASK, 2, trials(), file)

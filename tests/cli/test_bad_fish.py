"""Row 33 of the checklist: a wrong configuration names its key and ends with an exit code."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Longhaul

GATE = [
    "total_iterations=24",
    "evaluate.every_iterations=8",
    "options.training.curriculum='20:8,25:16'",
    "options.training.ladder.phase_targets=[0.0, 0.1]",
    "options.training.gate.phase_allowance=[1, 2]",
]


@pytest.mark.parametrize(
    ("overrides", "key"),
    [
        (["options.fihs=3"], "unknown config key 'options.fihs'; did you mean 'options.fish'"),
        (["options.training.gate.succes_p10=3"], "options.training.gate.success_p10"),
        ([*GATE, "options.training.gate.failure_p10=200"], "failure_p10 = 200 is above"),
        (["options.tail.path='no such file.json'", "options.tail.iterations=3"], "no such file"),
        (["options.training.curriculum='20:8'"], "total_iterations must be set"),
        ([*GATE, "evaluate.suite='v83'"], "did you mean 'v38'"),
    ],
    ids=["unknown key", "unknown gate key", "infeasible gate", "missing file", "sum", "suite"],
)
def test_a_wrong_configuration_names_its_key(
    overrides: list[str], key: str, tmp_path: Path, longhaul: Longhaul
) -> None:
    flags = [flag for override in overrides for flag in ("--set", override)]
    outcome = longhaul("train", "fish", "--runs-root", tmp_path / "runs", *flags)
    assert outcome.code == 2
    assert key in outcome.problem
    assert not (tmp_path / "runs").exists(), "nothing is left of a run that cannot begin"

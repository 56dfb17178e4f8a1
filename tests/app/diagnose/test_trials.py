from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from longhaul.app.diagnose.trials import (
    REPORT,
    SUMMARY,
    DoctorTrial,
    Seen,
    TrialRequest,
    TrialRow,
    Trials,
    modes,
    observe,
    run_trials,
)
from longhaul.core.env import SingleEnvs
from longhaul.core.errors import ConfigError
from longhaul.envs.config import EnvConfig, Runtime
from longhaul.envs.gymnasium.env import GymnasiumFactory, gymnasium_envs
from longhaul.tasks.probe.chase import chase_envs

pytestmark = pytest.mark.thorough


def toy(name: str) -> SingleEnvs:
    return gymnasium_envs(GymnasiumFactory(f"tests.app.trial_toys:Trial/{name}-v0"))


def seen(name: str, mode: Runtime = "serial") -> Seen:
    stages: list[str] = []
    found = observe(DoctorTrial(toy(name), mode, 2, EnvConfig()), stages.append)
    assert stages[0] == "construct"
    if found.outcome == "ok":
        assert stages == ["construct", "reset", "step", "close"]
    return found


def test_a_good_environment_passes_and_shows_the_same_every_time() -> None:
    first, again = seen("Drawn"), seen("Drawn")
    assert first.outcome == "ok", first.error
    assert first.starts_differ
    assert first == again


def test_worker_processes_see_what_the_serial_runtime_sees() -> None:
    assert seen("Drawn", "processes") == seen("Drawn", "serial")


def test_an_environment_whose_episodes_start_alike_is_not_at_fault() -> None:
    found = seen("Constant")
    assert found.outcome == "ok", found.error
    assert not found.starts_differ


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("Frozen", "nothing changed in 32 steps"),
        ("BrokenStep", "the simulator fell over"),
        ("NanObservation", "nan"),
    ],
)
def test_what_is_wrong_is_said(name: str, says: str) -> None:
    found = seen(name)
    assert found.outcome == "failed"
    assert says in found.error


@pytest.mark.parametrize(
    ("name", "outcome", "says"),
    [
        ("BrokenStep", "failed", "the simulator fell over"),
        ("NanObservation", "failed", "nan"),
        ("Dying", "died", "SIGKILL"),
    ],
)
def test_what_a_worker_does_wrong_counts_even_if_the_runtime_gets_over_it(
    name: str, outcome: str, says: str
) -> None:
    found = seen(name, "processes")
    assert found.outcome == outcome
    assert says in found.error


def request(tmp_path: Path, **changes: object) -> TrialRequest:
    plain = TrialRequest(trials=1, num_envs=2, runtime="serial", output=tmp_path)
    return replace(plain, **changes)  # type: ignore[arg-type]  # whatever the test names


def test_both_modes_are_tried_from_nothing_and_written_down(tmp_path: Path) -> None:
    told: list[str] = []
    done = run_trials(
        toy("Talkative"),
        EnvConfig(),
        request(tmp_path, runtime="both"),
        reproducible=True,
        notify=told.append,
    )
    assert done.all_ok, done.as_text()
    lines = [json.loads(line) for line in (tmp_path / REPORT).read_text().splitlines()]
    assert [(line["mode"], line["outcome"]) for line in lines] == [
        ("serial", "ok"),
        ("processes", "ok"),
    ]
    assert list(lines[0]["seconds"]) == ["start", "construct", "reset", "step", "close"]
    assert lines[0]["digest"] == lines[1]["digest"]
    assert (tmp_path / SUMMARY).read_text() == done.as_text() + "\n"
    assert told == ["serial: 1 of 1 trials, 0 not ok", "processes: 1 of 1 trials, 0 not ok"]


@pytest.mark.parametrize(
    ("name", "outcome", "stage", "says"),
    [("Dying", "died", "", "in step: its process was killed by SIGKILL")],
)
def test_a_trial_that_takes_its_process_along_is_one_line(
    name: str, outcome: str, stage: str, says: str, tmp_path: Path
) -> None:
    done = run_trials(toy(name), EnvConfig(), request(tmp_path), reproducible=True)
    (row,) = done.rows
    assert (row.outcome, row.stuck_stage, row.error) == (outcome, stage, says)
    assert not done.all_ok


def test_a_stuck_trial_ends_at_its_deadline_with_its_stage_and_stack(tmp_path: Path) -> None:
    asked = request(tmp_path, deadline_seconds=4.0)
    (row,) = run_trials(toy("Endless"), EnvConfig(), asked, reproducible=True).rows
    assert (row.outcome, row.stuck_stage) == ("stuck", "reset")
    assert row.error == "in reset: no end after 4 s"
    assert "trial_toys.py" in row.detail


def test_a_trial_that_sees_something_else_than_the_first_failed(tmp_path: Path) -> None:
    asked = request(tmp_path, trials=2)
    first, second = run_trials(toy("Unseeded"), EnvConfig(), asked, reproducible=True).rows
    assert first.outcome == "ok"
    assert second.outcome == "failed"
    assert "differ from those of the first trial" in second.error


def test_modes_are_what_a_source_offers() -> None:
    assert modes(toy("Drawn"), "both") == ("serial", "processes")
    assert modes(chase_envs(), "both") == ("serial", "batched")
    assert modes(toy("Drawn"), "processes") == ("processes",)
    with pytest.raises(ConfigError, match="use both or one of serial, batched"):
        modes(chase_envs(), "processes")


def test_a_source_that_cannot_be_sent_is_refused_before_anything_is_tried(tmp_path: Path) -> None:
    source = replace(toy("Drawn"), make=lambda: toy("Drawn").make())
    with pytest.raises(ConfigError, match="cannot be tried in a separate process"):
        run_trials(source, EnvConfig(), request(tmp_path), reproducible=True)
    assert not (tmp_path / REPORT).exists()


@pytest.mark.parametrize(
    ("changes", "says"),
    [({"trials": 0}, "--trials"), ({"num_envs": 0}, "--num-envs"),
     ({"deadline_seconds": 0.0}, "--deadline")],
)  # fmt: skip
def test_a_request_that_makes_no_sense_is_refused(
    changes: dict[str, object], says: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=says):
        request(tmp_path, **changes)


def test_the_summary_counts_outcomes_and_names_the_stuck_stage() -> None:
    rows = [
        TrialRow("serial", n, "ok", {"construct": n / 10}, n / 10, starts_differ=False)
        for n in range(1, 21)
    ]
    rows.append(TrialRow("processes", 1, "stuck", {"construct": 60.0}, 60.0, "construct", "no end"))
    trials = Trials(tuple(rows), "report.jsonl")
    text = trials.as_text()
    assert "serial     20 of 20  0       0     0      -" in text
    assert "processes  0 of 1    0       0     1      construct (1)" in text
    assert "serial     construct  1.050   2.000   2.000" in text
    assert "1 x processes: no end" in text
    assert "every episode starts in the same state" in text
    assert "one line per trial: report.jsonl" in text
    values = trials.as_values()
    assert values["serial"]["ok"] == 20
    assert values["processes"]["stuck_stages"] == {"construct": 1}
    assert json.dumps(values)

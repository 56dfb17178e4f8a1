from __future__ import annotations

import json
from pathlib import Path

import pytest

from longhaul.app.build.sources import ConfigSources, resolve
from longhaul.app.diagnose.doctor import (
    DoctorFinding,
    Examination,
    TaskExamination,
    examine,
    examine_apart,
    examine_task,
)
from longhaul.app.diagnose.trials import TrialRequest, TrialRow, Trials
from longhaul.core.errors import ConfigError


def examined(task: str) -> TaskExamination:
    """Examine a task in this process, which saves starting another."""
    return examine_task(resolve(ConfigSources(task=task)), lambda stage: None)


def test_a_good_environment_is_healthy_and_so_are_its_trials(tmp_path: Path) -> None:
    request = TrialRequest(trials=1, num_envs=2, runtime="serial", output=tmp_path)
    found = examine("gym:CartPole-v1", request)
    assert found.healthy, found.as_text()
    details = {finding.what: finding.detail for finding in found.findings}
    assert "tier replay" in details["seeds"]
    assert "passes Gymnasium's checker" in details["API"]
    words = "observation 'obs' (float32, 4); action one of 2 choices"
    assert details["task"] == f"gym:CartPole-v1: {words}"
    assert details["torch"]
    assert found.trials is not None
    assert "1 of 1" in found.as_text()
    assert json.loads(found.as_json())["trials"]["serial"]["ok"] == 1


@pytest.mark.parametrize(
    ("task", "says"),
    [
        ("gym:Toy/BrokenStep-v0", "the simulator fell over"),
        ("gym:Toy/NanReward-v0", "reward is nan"),
        ("gym:Toy/TextObservation-v0", "Text"),
    ],
)
def test_a_bad_environment_is_a_finding(task: str, says: str) -> None:
    found = examined(task)
    (bad,) = [finding for finding in found.findings if not finding.good]
    assert says in bad.detail


def test_an_environment_that_is_not_known_is_a_finding() -> None:
    (bad,) = [one for one in examine("gym:CartPole-v77").findings if not one.good]
    assert "did you mean 'CartPole-v1'" in bad.detail


def test_seeds_that_do_not_reproduce_are_found_by_us_and_by_the_checker() -> None:
    found = examined("gym:Toy/Unseeded-v0")
    bad = {finding.what: finding.detail for finding in found.findings if not finding.good}
    assert bad.keys() == {"API", "seeds"}
    assert "differ in observation" in bad["seeds"]
    assert not found.reproducible


def test_what_the_checker_remarks_is_told_without_colors() -> None:
    (api,) = [f for f in examined("gym:CartPole-v1").findings if f.what == "API"]
    assert api.good
    assert "with a warning: A Box observation space minimum value is -infinity" in api.detail
    assert "\x1b" not in api.detail


def test_a_task_that_is_no_gymnasium_environment_is_not_held_to_its_rules() -> None:
    found = examined("probe:chase")
    assert "API" not in {finding.what for finding in found.findings}
    assert all(finding.good for finding in found.findings)


def test_an_environment_that_takes_its_process_along_is_a_finding() -> None:
    config = resolve(ConfigSources(task="gym:tests.app.trial_toys:Trial/Dying-v0"))
    (finding,) = examine_apart(config, 60.0).findings
    assert not finding.good
    assert "died in seeds: its process was killed by SIGKILL" in finding.detail


def test_an_unknown_task_is_a_finding() -> None:
    found = examine("chess")
    assert not found.healthy
    assert "unknown task" in found.as_text()
    assert json.loads(found.as_json())["healthy"] is False


def test_trials_need_a_task() -> None:
    with pytest.raises(ConfigError, match="--trials needs a task"):
        examine("", TrialRequest(trials=1))


def test_one_bad_finding_or_trial_is_enough() -> None:
    good, bad = DoctorFinding("a", good=True, detail=""), DoctorFinding("b", good=False, detail="")
    assert Examination((good,)).healthy
    assert not Examination((good, bad)).healthy
    assert "BAD" in Examination((good, bad)).as_text()
    failed = Trials((TrialRow("serial", 1, "failed", {}, 0.0),), "report")
    assert not Examination((good,), failed).healthy

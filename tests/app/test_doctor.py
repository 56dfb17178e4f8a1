from __future__ import annotations

import json

import pytest

from longhaul.app.doctor import Examination, Finding, examine


def test_a_good_environment_is_healthy() -> None:
    examined = examine("gym:CartPole-v1")
    assert examined.healthy, examined.as_text()
    found = {finding.what: finding.detail for finding in examined.findings}
    assert "tier B" in found["seeds"]
    assert found["torch"]


@pytest.mark.parametrize(
    ("task", "says"),
    [
        ("gym:CartPole-v77", "CartPole"),
        ("chess", "unknown task"),
        ("gym:Toy/Unseeded-v0", "differ in observation"),
        ("gym:Toy/BrokenStep-v0", "the simulator fell over"),
        ("gym:Toy/NanReward-v0", "reward is nan"),
        ("gym:Toy/TextObservation-v0", "Text"),
    ],
)
def test_a_bad_environment_is_a_finding(task: str, says: str) -> None:
    examined = examine(task)
    bad = [finding for finding in examined.findings if not finding.good]
    assert not examined.healthy
    assert len(bad) == 1
    assert says in bad[0].detail
    assert "BAD" in examined.as_text()
    assert json.loads(examined.as_json())["healthy"] is False


def test_one_bad_finding_is_enough() -> None:
    good, bad = Finding("a", good=True, detail=""), Finding("b", good=False, detail="")
    assert Examination((good,)).healthy
    assert not Examination((good, bad)).healthy

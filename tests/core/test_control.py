from __future__ import annotations

from longhaul.core.control import Decision, Progress, View
from longhaul.core.metrics import Metric
from longhaul.core.settings import Settings


def test_a_decision_without_more_changes_nothing() -> None:
    decision = Decision("state")
    assert (decision.assignments, decision.why, decision.metrics) == ((), "", {})


def test_decisions_do_not_share_their_metrics() -> None:
    assert Decision(1).metrics is not Decision(1).metrics


def test_views_of_the_same_things_are_equal() -> None:
    assert View(Progress(1), {"a/b": 1.0}, Settings([])) == View(
        Progress(1), {"a/b": 1.0}, Settings([])
    )


def test_a_metric_belongs_to_the_group_before_the_slash() -> None:
    assert Metric("eval/mean_reward", "Mean return").group == "eval"

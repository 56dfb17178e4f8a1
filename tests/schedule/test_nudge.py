from __future__ import annotations

from typing import Any

import pytest

from longhaul.core.control import Progress, View
from longhaul.core.errors import ConfigError
from longhaul.core.settings import Settings
from longhaul.schedule.adaptive import Nudge, NudgeState
from tests.schedule.examples import WEIGHT

SHARE = "env/forward_share"


def nudge(*, window: int = 50) -> Nudge:
    return Nudge("distance", WEIGHT, SHARE, band=(0.05, 0.30), limits=(0.2, 1.0), window=window)


def view(value: float, *, weight: float = 0.5) -> View:
    return View(Progress(7), {SHARE: value}, Settings([WEIGHT], {WEIGHT.name: weight}))


def test_a_low_metric_pulls_the_weight_up() -> None:
    decision = nudge().decide(NudgeState(), view(0.01))
    assert decision.assignments == (WEIGHT.to(0.525),)
    assert decision.why == "env/forward_share averaged 0.01, below 0.05"


def test_a_high_metric_pulls_the_weight_down() -> None:
    (assignment,) = nudge().decide(NudgeState(), view(0.9)).assignments
    assert assignment.value == pytest.approx(0.485)


def test_a_metric_in_the_band_changes_nothing() -> None:
    decision = nudge().decide(NudgeState(), view(0.2))
    assert decision.assignments == ()
    assert decision.metrics == {"adaptive/distance_mean": 0.2}


def test_only_the_window_counts() -> None:
    controller, state = nudge(window=2), NudgeState()
    for value in (0.9, 0.2, 0.1):
        state = controller.decide(state, view(value)).state
    assert state == NudgeState((0.2, 0.1))


def test_a_weight_at_its_ceiling_stays_there_in_silence() -> None:
    decision = nudge().decide(NudgeState(), view(0.01, weight=1.0))
    assert (decision.assignments, decision.why) == ((), "")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"band": (0.3, 0.1)}, "band"),
        ({"limits": (1.0, 0.2)}, "limits"),
        ({"rate": 0.0}, "rate"),
        ({"window": 0}, "window"),
    ],
)
def test_impossible_values_are_refused_by_name(fields: dict[str, Any], message: str) -> None:
    usual: dict[str, Any] = {"band": (0.1, 0.3), "limits": (0.2, 1.0)}
    with pytest.raises(ConfigError, match=rf"schedule\.distance\.{message}"):
        Nudge("distance", WEIGHT, SHARE, **{**usual, **fields})

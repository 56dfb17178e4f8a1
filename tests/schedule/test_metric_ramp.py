from __future__ import annotations

import pytest

from longhaul.core.control import Progress, View
from longhaul.core.errors import ConfigError
from longhaul.core.settings import Setting, Settings
from longhaul.schedule.metric_ramp import MetricRamp, MetricRampState

RATE = Setting("learn.learning_rate", 0.5, "Step size", low=0.0)
RAMP = MetricRamp("rate", RATE, "eval/score", low=0.2, high=0.6, end=0.1)


def value(
    ramp: MetricRamp, state: MetricRampState, metrics: dict[str, float]
) -> tuple[float, float]:
    found = ramp.decide(state, View(Progress(3), metrics, Settings([RATE], {RATE.name: 9.0})))
    return found.assignments[0].value, found.state.share  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("score", "expected"), [(0.0, 0.5), (0.2, 0.5), (0.4, 0.3), (0.6, 0.1), (0.9, 0.1)]
)
def test_the_setting_is_on_the_line_between_low_and_high(score: float, expected: float) -> None:
    assert value(RAMP, RAMP.initial(), {"eval/score": score})[0] == pytest.approx(expected)


def test_a_metric_that_falls_moves_nothing_back() -> None:
    _, share = value(RAMP, RAMP.initial(), {"eval/score": 0.5})
    assert value(RAMP, MetricRampState(share), {"eval/score": 0.2})[1] == share
    assert value(RAMP, MetricRampState(share), {})[1] == share


def test_a_metric_may_fall_to_its_goal() -> None:
    ramp = MetricRamp("rate", RATE, "path/earliest", low=1.0, high=0.0, end=0.1)
    assert value(ramp, ramp.initial(), {"path/earliest": 0.25})[0] == pytest.approx(0.2)


def test_a_line_needs_two_ends() -> None:
    with pytest.raises(ConfigError, match="low and high are both"):
        MetricRamp("rate", RATE, "eval/score", low=0.5, high=0.5)

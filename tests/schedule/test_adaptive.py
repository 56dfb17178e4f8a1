from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longhaul.core.control import Progress, View
from longhaul.core.errors import ConfigError
from longhaul.core.settings import Settings
from longhaul.schedule.adaptive import Adaptive
from tests.schedule.examples import RATE, WEIGHT

SHARE = "env/forward_share"


def adaptive(**changes: object) -> Adaptive:
    fields: dict[str, object] = {
        "band": (0.05, 0.30),
        "limits": (0.5, 2.0),
        "along": "iterations",
        "finish": 10.0,
        "rate": 0.5,
        "window": 1,
    }
    return Adaptive("a", WEIGHT, SHARE, start=0.4, **{**fields, **changes})  # type: ignore[arg-type]


def values(controller: Adaptive, measured: list[float | None]) -> list[float]:
    """Return the setting after each iteration."""
    state, now, found = controller.initial(), Settings([WEIGHT]), []
    for iteration, value in enumerate(measured, start=1):
        metrics = {} if value is None else {SHARE: value}
        decision = controller.decide(state, View(Progress(iteration), metrics, now))
        state, now = decision.state, now.with_(decision.assignments)
        found.append(now[WEIGHT])
    return found


def test_in_the_band_the_setting_is_on_its_line() -> None:
    assert values(adaptive(end=0.2), [0.1] * 12) == pytest.approx(
        [0.38, 0.36, 0.34, 0.32, 0.3, 0.28, 0.26, 0.24, 0.22, 0.2, 0.2, 0.2]
    )


def test_the_value_is_always_line_times_scale() -> None:
    assert values(adaptive(end=0.2), [0.0, 0.0, 0.1]) == pytest.approx(
        [0.38 * 1.5, 0.36 * 1.75, 0.34 * 1.75]
    )


def test_a_low_metric_scales_up_to_the_limit_and_a_high_one_down() -> None:
    assert values(adaptive(), [0.0] * 60)[-1] == pytest.approx(0.8)
    assert values(adaptive(), [0.9] * 60)[-1] == pytest.approx(0.2)


def test_a_waiting_line_goes_on_where_it_stood() -> None:
    found = values(adaptive(end=0.2, line_waits=True, rate=1.0, limits=(1.0, 1.0)), [0.1, 0.0, 0.1])
    assert found == pytest.approx([0.38, 0.38, 0.36])


def test_both_averages_and_the_scale_are_metrics() -> None:
    controller, state = adaptive(window=2, band=(0.4, 0.6)), adaptive().initial()
    metrics: dict[str, float] = {}
    for iteration, value in enumerate((0.2, 0.5, 0.1), start=1):
        view = View(Progress(iteration), {SHARE: value}, Settings([WEIGHT]))
        decision = controller.decide(state, view)
        state, metrics = decision.state, dict(decision.metrics)
    # Weight 2 / 3 on the newest: 0.2, 0.4, 0.2. Scale: 1 to 1.5, to 1.75 and to 1.875.
    assert metrics == pytest.approx(
        {"adaptive/a_mean": 0.3, "adaptive/a_fading_mean": 0.2, "adaptive/a_scale": 1.875}
    )
    assert set(metrics) == set(controller.emits)


def test_before_the_first_measurement_there_is_a_scale_and_no_average() -> None:
    decision = adaptive().decide(adaptive().initial(), View(Progress(1), {}, Settings([WEIGHT])))
    assert decision.metrics == {"adaptive/a_scale": 1.0}


def test_after_a_change_the_scale_rests() -> None:
    found = values(adaptive(cooldown=2), [0.0] * 5)
    assert found == pytest.approx([0.6, 0.6, 0.6, 0.7, 0.7])


def test_no_news_moves_no_scale() -> None:
    assert values(adaptive(), [0.0, None, None]) == pytest.approx([0.6, 0.6, 0.6])


def test_the_exponential_average_forgets_slowly() -> None:
    quick = values(adaptive(window=3, average="exponential"), [0.9, 0.0, 0.0, 0.0, 0.0])
    assert quick[1] < quick[0], "the first measurement still counts"


@given(st.lists(st.none() | st.floats(0, 1), max_size=60))
def test_the_setting_stays_between_its_extremes(measured: list[float | None]) -> None:
    controller = adaptive(end=0.2, line_waits=True)
    low, *_, high = (float(one.value) for one in controller.extremes)  # type: ignore[arg-type]
    assert all(low <= value <= high for value in values(controller, measured))


@pytest.mark.parametrize(
    "changes", [{"limits": (1.5, 2.0)}, {"band": (0.3, 0.1)}, {"rate": 0.0}, {"window": 0}]
)
def test_what_cannot_work_is_refused(changes: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match=r"schedule\.a"):
        adaptive(**changes)


def test_the_learning_rate_is_schedule_times_scale() -> None:
    controller = Adaptive(
        "rate", RATE, SHARE, (0.1, 0.2), (0.5, 2.0), 1e-3, end=0.0, total=1000, window=1, rate=1.0
    )
    view = View(Progress(1, 500), {SHARE: 0.0}, Settings([RATE]))
    assert controller.decide(controller.initial(), view).assignments == (RATE.to(1e-3),)

"""Pictures of a search."""

from __future__ import annotations

from itertools import pairwise

import pytest

from longhaul.report.search import Axis, SearchData, Tried, search_charts, short_names, trial_table
from longhaul.report.style import draw, laid_out

AXES = (
    Axis("learn.rate", is_log=True, low=1e-5, high=1e-2),
    Axis("learn.n_epochs", low=1, high=9),
    Axis("policy.hidden", options=("[64]", "[64, 64]", "[512, 512, 512]")),
)


def tried(number: int, value: float | None, state: str = "complete") -> Tried:
    params = {
        "learn.rate": 10 ** (-5 + number % 4),
        "learn.n_epochs": 1 + number % 9,
        "policy.hidden": AXES[2].options[number % 3],
    }
    stages = {} if value is None else {1: value / 2, 2: value}
    return Tried(number, state, params, value, stages)  # type: ignore[arg-type] # a test's own words


def search(trials: tuple[Tried, ...], *, best: int | None = 0) -> SearchData:
    shares = {"learn.n_epochs": 0.7, "learn.rate": 0.2, "policy.hidden": 0.1}
    return SearchData(
        title="t",
        metric="eval/x",
        is_maximized=True,
        axes=AXES,
        trials=trials,
        importances=shares,
        best=best,
        stage_count=10,
    )


def test_places_are_between_the_ends() -> None:
    assert AXES[0].place(1e-5) == 0.0
    assert AXES[0].place(10**-3.5) == pytest.approx(0.5)
    assert AXES[1].place(9) == 1.0
    assert AXES[2].place("[64, 64]") == 0.5


def test_names_are_as_short_as_they_may_be() -> None:
    assert short_names(["learn.rate", "policy.rate", "x.y.steps"]) == {
        "learn.rate": "learn.rate",
        "policy.rate": "policy.rate",
        "x.y.steps": "steps",
    }


def test_trials_are_ranked_by_what_they_came_to() -> None:
    data = search(
        (tried(0, 3.0), tried(1, 9.0), tried(2, 8.0, "pruned"), tried(3, None, "failed")), best=1
    )
    assert [row[0] for row in trial_table(data).rows] == ["1 *", "0", "2", "3"]


@pytest.mark.parametrize(
    "trials",
    [
        (tried(0, 3.0), tried(1, 9.0), tried(2, 8.0, "pruned"), tried(3, None, "failed")),
        (tried(0, 3.0), tried(1, 3.0)),
        (tried(0, -5.0),),
        (tried(0, None, "failed"), tried(1, None, "running")),
    ],
)
def test_whatever_there_is_can_be_drawn(trials: tuple[Tried, ...]) -> None:
    for chart in search_charts(search(trials)):
        drawn = draw(chart)
        assert drawn.png.startswith(b"\x89PNG")
        assert "<svg" in drawn.svg


def test_labels_of_choices_do_not_overlap() -> None:
    data = search(tuple(tried(number, float(number)) for number in range(6)))
    (chart,) = (chart for chart in search_charts(data) if chart.name == "search-slices")
    with laid_out(chart) as figure:
        axes = figure.axes[2]
        boxes = [label.get_window_extent() for label in axes.get_xticklabels()]
        angle = axes.get_xticklabels()[0].get_rotation()
    assert angle > 0 or all(a.x1 <= b.x0 for a, b in pairwise(boxes))

"""Panels of episodes, steps and moments, and of boxes, estimates and points."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from longhaul.core.metrics import Panel
from longhaul.report.panel_tracks import moving_mean
from longhaul.report.panels import panel_chart
from longhaul.report.pictures import encode_png
from longhaul.report.run_data import RunData, gather
from longhaul.report.statistics import Row
from longhaul.report.style import draw, laid_out
from tests.report.made import made_run

RECORDS = "evaluations/made.jsonl"


@pytest.fixture
def run(tmp_path: Path) -> RunData:
    return gather(made_run(tmp_path).path)


def with_records(run: RunData, *rows: Mapping[str, Any]) -> RunData:
    return replace(run, records={RECORDS: [dict(row) for row in rows]})


def panel(kind: Any, *fields: str, **more: Any) -> Panel:
    return Panel("Made", fields, kind, records=RECORDS, **more)


def words(run: RunData, shown: Panel) -> str:
    """Return everything that is written in a panel, which must draw without a warning."""
    chart = panel_chart(run, shown)
    assert chart is not None
    return draw(chart).svg


def test_a_moving_mean_is_that_of_the_values_so_far() -> None:
    values = np.random.default_rng(2).normal(size=137)
    slow = [values[max(0, end - 50) : end].mean() for end in range(1, 138)]
    np.testing.assert_allclose(moving_mean(values, 50), slow, atol=1e-12)
    assert moving_mean(np.array([3.0]), 50).tolist() == [3.0]


def test_every_episode_is_drawn_with_the_mean_of_fifty_and_the_borders(run: RunData) -> None:
    rows: list[Row] = [{**row, "phase": float(row["iteration"] > 10)} for row in run.rows]
    episodes: list[Row] = [
        {"iteration": 1 + number // 4, "metrics": {"score": float(number)}} for number in range(100)
    ]
    shown = Panel("Made", ("metrics.score",), "episodes", borders="phase")
    chart = panel_chart(replace(run, rows=rows, episodes=episodes), shown)
    assert chart is not None
    with laid_out(chart) as figure:
        (axes,) = figure.axes
        dots, mean, border = axes.get_lines()
        assert dots.get_ydata().tolist() == [float(number) for number in range(100)]
        assert mean.get_ydata()[-1] == pytest.approx(74.5)
        assert list(border.get_xdata()) == [40.5, 40.5]
    assert panel_chart(replace(run, episodes=[]), shown) is None
    assert panel_chart(run, replace(shown, metrics=("metrics.nothing",))) is None


def test_levels_and_borders_are_drawn_over_lines(run: RunData) -> None:
    rows: list[Row] = [{**row, "phase": float(row["iteration"] > 10)} for row in run.rows]
    shown = Panel("Made", ("env/survival",), levels=(("half", 0.5),), borders="phase")
    chart = panel_chart(replace(run, rows=rows), shown)
    assert chart is not None
    with laid_out(chart) as figure:
        _, level, border = figure.axes[0].get_lines()
        assert set(level.get_ydata()) == {0.5}
        assert set(border.get_xdata()) == {1100}
    assert "half" in draw(chart).svg


def test_boxes_have_names_and_counts(run: RunData) -> None:
    made = with_records(
        run, {"phase": "first", "scores": [1, 2, 3]}, {"phase": "second", "scores": [500.0, 900.0]}
    )
    svg = words(made, panel("boxes", "phase", "scores", label="points"))
    assert all(word in svg for word in ("first", "second", "points"))
    assert panel_chart(run, panel("boxes", "phase", "scores")) is None


def test_bars_have_the_ends_of_their_intervals(run: RunData) -> None:
    shown = panel("estimates", "phase", "value", "low", "high", "figure", each="estimates")
    estimates = [
        {"phase": "a", "figure": "score", "value": 3.0, "low": 2.0, "high": 5.0},
        {"phase": "b", "figure": "score", "value": 4.0, "low": 4.0, "high": 4.0},
        {"phase": "a", "figure": "entropy", "value": 1.0, "low": 0.5, "high": 1.5},
    ]
    chart = panel_chart(with_records(run, {"estimates": estimates}), shown)
    assert chart is not None
    with laid_out(chart) as figure:
        score, entropy = (axes for axes in figure.axes if axes.get_visible())
        assert [bar.get_height() for bar in score.patches] == [3.0, 4.0]
        (whiskers,) = score.collections
        assert [line[:, 1].tolist() for line in whiskers.get_segments()] == [[2.0, 5.0], [4.0, 4.0]]
        assert entropy.get_title(loc="left") == "entropy"
    assert panel_chart(run, shown) is None


def test_points_have_the_color_of_their_group(run: RunData) -> None:
    rows = [{"x": n, "y": -n, "group": f"group {n % 10}"} for n in range(40)]
    chart = panel_chart(with_records(run, *rows), panel("scatter", "x", "y", "group"))
    assert chart is not None
    with laid_out(chart) as figure:
        lines = figure.axes[0].get_lines()
        assert len({(line.get_color(), line.get_marker()) for line in lines}) == 10
        assert sum(len(line.get_xdata()) for line in lines) == 40
    assert panel_chart(run, panel("scatter", "x", "y", "group")) is None


STEPS = [
    {
        "step": step,
        "weights": {"calm": 1 - step / 20, "brave": step / 20},
        "action": "north" if step % 3 else "eat",
        "atoms": ["always", *(["hungry"] if step > 7 else [])],
        "value": math.sin(step),
    }
    for step in range(20)
]


def test_the_steps_of_an_episode_are_drawn_field_under_field(run: RunData) -> None:
    shown = panel("tracks", "step", "weights", "action", "atoms", "value")
    made = with_records(run, *STEPS)
    chart = panel_chart(made, shown)
    assert chart is not None
    with laid_out(chart) as figure:
        weights, action, atoms, value = figure.axes
        np.testing.assert_allclose(weights.images[0].get_array()[1], np.arange(20) / 20)
        names = [tick.get_text() for tick in action.get_yticklabels()]
        assert names == ["eat", "north"]
        assert action.images[0].get_array()[0].tolist() == [float(s % 3 == 0) for s in range(20)]
        # What holds in every step says nothing.
        assert [tick.get_text() for tick in atoms.get_yticklabels()] == ["hungry"]
        assert value.get_lines()[0].get_ydata().tolist() == [math.sin(s) for s in range(20)]
    assert panel_chart(with_records(run, STEPS[0]), shown) is None
    assert panel_chart(made, replace(shown, metrics=("step", "nothing"))) is None


def test_no_step_of_a_long_episode_is_lost_between_pixels(run: RunData) -> None:
    rows = [
        {"step": n, "weights": {"calm": n / 2000}, "action": "eat" if n == 777 else "north"}
        for n in range(2000)
    ]
    chart = panel_chart(with_records(run, *rows), panel("tracks", "step", "weights", "action"))
    assert chart is not None
    with laid_out(chart) as figure:
        weights, actions = (axes.images[0].get_array() for axes in figure.axes)
        assert weights.shape == (1, 800)
        assert weights.mean() == pytest.approx(np.arange(2000).mean() / 2000, abs=1e-3)
        assert actions[0].sum() == 1.0
        assert figure.axes[0].get_xlim() == (-0.5, 1999.5)


MOMENT = {
    "title": "step 4",
    "picture": "evaluations/here.png",
    "links": [
        {"from": "hungry", "to": "eat", "weight": 0.5},
        {"from": "safe", "to": "eat", "weight": 0.1},
    ],
    "groups": ["survival", "combat", "exploration"],
    "ends": [
        {"name": "eat", "group": "survival", "value": 1.5},
        {"name": "explore", "group": "exploration", "value": -0.25},
    ],
}
MOMENTS = panel("moments", "title", "picture", "links", "ends", "groups")


def test_a_moment_shows_its_picture_and_what_led_to_what(run: RunData) -> None:
    folder = run.directory.evaluations
    folder.mkdir(exist_ok=True)
    (folder / "here.png").write_bytes(encode_png(np.full((6, 9, 3), 200, np.uint8)))
    svg = words(with_records(run, MOMENT), MOMENTS)
    for word in ("step 4", "hungry", "safe", "eat  1.50", "explore  -0.25", "survival"):
        assert word in svg
    assert svg.count("<image") == 1


def test_a_picture_that_is_missing_or_elsewhere_is_left_out(run: RunData, tmp_path: Path) -> None:
    (tmp_path / "secret.png").write_bytes(encode_png(np.zeros((2, 2, 3), np.uint8)))
    for path in ("", "evaluations/nowhere.png", str(tmp_path / "secret.png")):
        svg = words(with_records(run, {**MOMENT, "picture": path}), MOMENTS)
        assert "hungry" in svg
        assert "<image" not in svg
    assert panel_chart(with_records(run, {**MOMENT, "links": []}), MOMENTS) is None

"""Plots: every kind of them, from the logs alone."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from longhaul.report.page import run_charts, write_plots
from longhaul.report.panels import stretches
from longhaul.report.run_data import gather
from longhaul.report.statistics import Series, bands, column
from longhaul.report.steering import turns
from longhaul.report.style import GRID, INK, draw, thousands
from longhaul.runs.directory import RunDirectory
from tests.report.made import made_run

GENERAL = {
    "learning",
    "evaluation",
    "distributions",
    "losses",
    "reward-terms",
    "speed",
    "settings",
    "gates",
}
OWN = {
    *("survival", "warning", "deaths", "headings", "places", "kinds"),
    *("stack", "table", "spread", "glance"),
}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    return made_run(tmp_path_factory.mktemp("runs"))


def test_a_run_with_everything_has_every_plot_and_only_those_with_data(run: RunDirectory) -> None:
    assert {chart.name for chart in run_charts(gather(run.path))} == GENERAL | OWN


def test_every_plot_is_a_picture_with_something_on_it(run: RunDirectory) -> None:
    drawn = write_plots(gather(run.path))
    assert {path.stem for path in run.plots.iterdir()} == GENERAL | OWN
    for one in drawn:
        with Image.open(run.plots / f"{one.chart.name}.png") as found:
            pixels = np.asarray(found.convert("RGB"))
        assert pixels.shape[1] == pytest.approx(one.chart.size[0] * 150, abs=2)
        inked = (pixels < 250).any(axis=-1).mean()
        assert inked > 0.02, one.chart.name
        assert one.svg.startswith("<svg")
        assert "var(--ink)" in one.svg
        assert INK not in one.svg
        assert GRID not in one.svg
        assert "<metadata" not in one.svg


def test_the_same_run_gives_the_same_pictures(run: RunDirectory) -> None:
    chart = run_charts(gather(run.path))[0]
    first, second = draw(chart), draw(chart)
    assert first.png == second.png
    assert first.svg == second.svg


def test_plots_need_no_display(run: RunDirectory) -> None:
    code = (
        "from pathlib import Path; from longhaul.report.run_data import gather; "
        "from longhaul.report.page import run_charts; from longhaul.report.style import draw; "
        f"draw(run_charts(gather(Path({str(run.path)!r})))[0]); import sys; "
        "sys.exit('torch' in sys.modules or 'matplotlib.pyplot' in sys.modules)"
    )
    environment = {key: value for key, value in os.environ.items() if key != "DISPLAY"}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)


def test_a_run_that_has_just_begun_has_no_plots(tmp_path: Path) -> None:
    run = made_run(tmp_path)
    for log in (run.metrics, run.timings, run.episodes, run.events):
        log.write_text("")
    assert run_charts(gather(run.path)) == []


def test_damaged_logs_and_panels_of_another_version_are_passed_over(tmp_path: Path) -> None:
    run = made_run(tmp_path)
    run.panels.write_text('{"panels": [{"kind": "hologram"}]}')
    with run.metrics.open("a") as log:
        log.write('{"iteration": 41, "env_st')
    found = gather(run.path)
    assert found.panels == ()
    assert {chart.name for chart in run_charts(found)} == GENERAL


def test_records_outside_the_run_are_not_read(tmp_path: Path) -> None:
    run = made_run(tmp_path)
    outside = tmp_path / "secret.jsonl"
    outside.write_text('{"a": 1}\n')
    run.panels.write_text(
        '{"panels": [{"title": "t", "metrics": ["a"], "kind": "bars", '
        f'"records": "../../../{outside.name}"}}, '
        f'{{"title": "t", "metrics": ["a"], "kind": "bars", "records": "{outside}"}}]}}'
    )
    assert all(rows == [] for rows in gather(run.path).records.values())


def test_reasons_stand_below_the_settings_they_changed(run: RunDirectory) -> None:
    found = gather(run.path)
    chart = next(chart for chart in run_charts(found) if chart.name == "settings")
    assert chart.note == "env.wind: (1) survival was 0.25; (2) survival was 0.5"
    assert [(turn.iteration, turn.old, turn.new) for turn in turns(found.events)] == [
        (10, 0.1, 0.2),
        (20, 0.2, 0.4),
    ]


def test_a_column_leaves_out_what_is_no_number() -> None:
    rows: list[dict[str, Any]] = [
        {"env_steps": 1, "a": 2},
        {"env_steps": 2},
        {"env_steps": 3, "a": None},
    ]
    series = column(rows, "a")
    assert series.steps.tolist() == [1.0]
    assert series.values.tolist() == [2.0]


@settings(max_examples=40)
@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=400), st.integers(1, 50))
def test_thinning_keeps_order_bounds_and_mean(values: list[float], most: int) -> None:
    series = Series(np.arange(len(values), dtype=np.float64), np.array(values))
    thin = series.thinned(most)
    assert len(thin) == min(len(values), most)
    assert (np.diff(thin.steps) > 0).all()
    assert thin.values.min() >= min(values) - 1e-6
    assert thin.values.max() <= max(values) + 1e-6
    if len(values) % most == 0:
        assert thin.values.mean() == pytest.approx(np.mean(values), abs=1e-3)


def test_bands_are_the_quantiles_of_their_stretch() -> None:
    values = np.concatenate([np.arange(101.0), 1000 + np.arange(101.0)])
    found = bands(Series(np.arange(202.0), values), stretches=2)
    assert found is not None
    np.testing.assert_allclose(found.quantiles[:, 0], [10, 25, 50, 75, 90])
    np.testing.assert_allclose(found.quantiles[:, 1], [1010, 1025, 1050, 1075, 1090])
    together = bands(Series(np.repeat([1.0, 2.0, 3.0], 30), np.arange(90.0)), stretches=9)
    assert together is not None
    assert len(np.unique(together.steps)) == len(together.steps)
    assert bands(Series(np.arange(8.0), np.arange(8.0))) is None


@given(st.lists(st.booleans(), min_size=1, max_size=60))
def test_stretches_cover_exactly_the_steps_that_are_on(on: list[bool]) -> None:
    steps = list(range(len(on)))
    found = stretches(steps, on)
    covered = [any(begin <= step < end for begin, end in found) for step in steps]
    assert covered[:-1] == on[:-1]
    assert all(begin <= end for begin, end in found)


@pytest.mark.parametrize(
    ("value", "words"), [(0, "0"), (950, "950"), (20_480, "20.5k"), (6e6, "6M"), (2.5e9, "2.5G")]
)
def test_steps_are_said_as_people_say_them(value: float, words: str) -> None:
    assert thousands(value) == words


def test_a_png_is_large_enough_to_print(run: RunDirectory) -> None:
    chart = next(chart for chart in run_charts(gather(run.path)) if chart.name == "learning")
    with Image.open(io.BytesIO(draw(chart).png)) as found:
        assert found.size == (990, 660)

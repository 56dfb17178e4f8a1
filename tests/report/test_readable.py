"""What keeps pictures readable: short names, legends that fit, few rings, honest scales."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from longhaul.core.metrics import Panel
from longhaul.report.curves import labels_of, legend_below
from longhaul.report.panels import panel_chart, rings, sensible_limits
from longhaul.report.run_data import gather
from longhaul.report.statistics import Series
from longhaul.report.style import Chart, laid_out
from longhaul.report.summary import machine_fact
from tests.report.made import made_run


@given(st.floats(1e-6, 1e9))
def test_there_are_a_few_round_rings_within_reach(top: float) -> None:
    found = rings(top)
    assert 2 <= len(found) <= 5
    assert found[-1] <= top * (1 + 1e-6)
    assert top - found[-1] < found[0] * (1 + 1e-6)


def test_nothing_to_show_has_a_ring_all_the_same() -> None:
    assert rings(0.0) == [1.0]


@pytest.mark.parametrize(
    ("names", "labels"),
    [
        (["policy/expert_share/a", "policy/expert_share/b"], ["a", "b"]),
        (["eval/score", "eval/score_median"], ["score", "score_median"]),
        (["env/a/x", "eval/a/x"], ["env/a/x", "eval/a/x"]),
        (["policy/expert_share/a"], ["expert_share/a"]),
        (["learn.rate", "learn.weight"], ["learn.rate", "learn.weight"]),
    ],
)
def test_names_lose_what_they_all_share(names: list[str], labels: list[str]) -> None:
    assert labels_of(names) == labels


@pytest.mark.parametrize("length", [3, 20, 45])
def test_a_legend_is_never_wider_than_its_picture(length: int) -> None:
    def draw(figure: object) -> None:
        axes = figure.subplots()  # type: ignore[attr-defined]  # matplotlib's figure
        for number in range(4):
            axes.plot([0, 1], [0, number], label="m" * length)
        legend_below(figure)

    with laid_out(Chart("x", "x", draw)) as figure:
        (legend,) = figure.legends
        box = legend.get_window_extent()
        width = figure.get_figwidth() * figure.dpi
    assert box.x0 >= 0
    assert box.x1 <= width


@pytest.mark.parametrize(("count", "scale"), [(24, "linear"), (9000, "symlog")])
def test_a_few_episodes_are_counted_on_an_even_scale(
    tmp_path: Path, count: int, scale: str
) -> None:
    panel = Panel("Ends", ("x",), "histogram", records="events.jsonl", bins=(0.0, 5.0, 10.0))
    found = gather(made_run(tmp_path).path)
    found = replace(found, records={"events.jsonl": [{"iteration": 1, "x": [1.0] * count}]})
    chart = panel_chart(found, panel)
    assert chart is not None
    with laid_out(chart) as figure:
        (axes,) = figure.axes
        assert axes.get_yscale() == scale
        assert all(tick == int(tick) for tick in axes.get_yticks())
        assert figure.get_supxlabel() == "x"


@pytest.mark.parametrize(
    ("values", "limits"),
    [((0.1, 0.9), (0.0, 1.05)), ((0.98, 0.98), (0.959, 1.001)), ((0.4, 0.5), (0.379, 0.521))],
)
def test_curves_that_would_look_flat_get_a_closer_axis(
    values: tuple[float, float], limits: tuple[float, float]
) -> None:
    found = Series(np.array([0.0, 1.0]), np.array(values))
    assert sensible_limits((0.0, 1.05), [found]) == pytest.approx(limits)


def test_memory_is_told_as_people_say_it() -> None:
    assert machine_fact("memory_bytes", str(24 * 2**30)) == ("memory", "24.0 GiB")
    assert machine_fact("machine", "x86_64") == ("machine", "x86_64")

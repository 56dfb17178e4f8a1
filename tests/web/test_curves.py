from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from longhaul.web.curves import RunCurves, Window
from tests.web.made import lines, made_run, metric_row


def whole(curves: RunCurves) -> RunCurves:
    while curves.advance():
        pass
    return curves


def test_a_metric_is_drawn_over_steps_iterations_and_training_time(tmp_path: Path) -> None:
    curves = whole(RunCurves(made_run(tmp_path)))
    name = "rollout/ep_rew_mean"
    assert curves.curve(name, Window()).x.tolist() == [100.0 * n for n in range(1, 21)]
    assert curves.curve(name, Window("iteration")).x.tolist() == list(range(1, 21))
    assert curves.curve(name, Window("seconds")).x.tolist() == [2.0 * n for n in range(1, 21)]
    assert curves.curve(name, Window()).mean.tolist() == list(range(1, 21))


def test_timings_are_drawn_over_the_steps_of_their_iterations(tmp_path: Path) -> None:
    curves = whole(RunCurves(made_run(tmp_path)))
    found = curves.curve("time/fps", Window())
    assert (found.x[0], found.x[-1], found.mean[0]) == (100.0, 2000.0, 500.0)


def test_a_metric_that_is_there_now_and_then_has_those_points_only(tmp_path: Path) -> None:
    curves = whole(RunCurves(made_run(tmp_path)))
    found = curves.curve("eval/mean_reward", Window())
    assert (found.x.tolist(), found.mean.tolist()) == ([500, 1000, 1500, 2000], [10, 20, 30, 40])


def test_a_setting_holds_its_last_value_to_the_end_of_the_run(tmp_path: Path) -> None:
    curves = whole(RunCurves(made_run(tmp_path)))
    curves.add_settings([{"iteration": 0, "env_steps": 0, "env.wind": 0.0}])
    curves.add_settings([{"iteration": 5, "env_steps": 500, "env.wind": 0.25}])
    found = curves.curve("env.wind", Window())
    assert (found.x.tolist(), found.mean.tolist()) == ([0, 500, 2000], [0, 0.25, 0.25])


@pytest.mark.parametrize("over", ["steps", "iteration"])
def test_a_closer_look_at_a_long_run_shows_single_rows(tmp_path: Path, over: str) -> None:
    run = made_run(tmp_path)
    run.metrics.write_bytes(lines(metric_row(number) for number in range(1, 8_001)))
    curves = whole(RunCurves(run))
    assert curves.metrics.buckets.stride == 2
    scale = 100 if over == "steps" else 1
    window = Window("steps" if over == "steps" else "iteration", 7000 * scale, 7040 * scale, 500)
    found = curves.curve("train/loss", window)
    np.testing.assert_array_equal(found.x / scale, np.arange(6999, 7042))
    np.testing.assert_array_equal(found.mean, [1.0 / number for number in range(6999, 7042)])


def test_an_overview_of_a_long_run_keeps_its_extremes(tmp_path: Path) -> None:
    run = made_run(tmp_path)
    rows = [metric_row(number) for number in range(1, 8_001)]
    rows[6_345]["train/loss"] = 99.0
    run.metrics.write_bytes(lines(rows))
    found = whole(RunCurves(run)).curve("train/loss", Window(points=300))
    assert len(found) <= 300
    assert found.high.max() == 99.0


def test_an_unknown_metric_and_an_empty_run_have_no_points(tmp_path: Path) -> None:
    run = made_run(tmp_path)
    assert not len(whole(RunCurves(run)).curve("no/such", Window()))
    run.metrics.unlink()
    assert not len(whole(RunCurves(run)).curve("train/loss", Window("seconds", 1, 2)))

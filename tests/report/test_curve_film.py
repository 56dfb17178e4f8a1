"""Films of curves that grow."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageSequence

from longhaul.report import snapshots as curve_film
from longhaul.report.panels import panel_chart
from longhaul.report.run_data import gather
from longhaul.report.snapshots import Reveal, write_curve_films
from longhaul.runs.directory import RunDirectory
from tests.report.made import ITERATIONS, PANELS, made_run


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    return made_run(tmp_path_factory.mktemp("runs"))


def durations(film: Path) -> list[int]:
    with Image.open(film) as found:
        return [frame.info["duration"] for frame in ImageSequence.Iterator(found)]


def test_a_panel_that_asks_for_it_is_filmed_with_one_frame_of_400_ms_per_iteration(
    run: RunDirectory,
) -> None:
    (film,) = write_curve_films(gather(run.path))
    assert film == run.media / "survival_curve.gif"
    assert durations(film) == [400] * ITERATIONS
    assert film in gather(run.path).films, "the report shows it"


def test_curves_grow_from_nothing_to_the_whole_picture(run: RunDirectory) -> None:
    data = gather(run.path)
    chart = panel_chart(data, PANELS[0])
    assert chart is not None
    reveal = Reveal(chart)
    steps = np.array([row["env_steps"] for row in data.rows], np.float64)
    frames = list(reveal.frames(steps))
    shown = [int((frame != reveal.begun).any(axis=-1).sum()) for frame in frames]
    assert shown == sorted(shown)
    assert 0 < shown[0] < shown[ITERATIONS // 2] < shown[-1]
    np.testing.assert_array_equal(frames[-1], reveal.whole)


def test_the_first_frame_is_no_empty_chart(run: RunDirectory) -> None:
    data = gather(run.path)
    chart = panel_chart(data, PANELS[0])
    assert chart is not None
    reveal = Reveal(chart)
    first = next(reveal.frames(np.array([100.0])))
    darker = np.abs(reveal.whole.astype(int) - reveal.begun.astype(int)).max(axis=-1)
    colors = np.ptp(first[darker > 40].astype(int), axis=-1)
    assert (colors > 8).mean() > 0.3, "the curves to come are seen, in their colors"


def test_a_long_run_is_filmed_in_strides_that_end_with_its_last_iteration(
    run: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(curve_film, "MOST_FRAMES", 15)
    (film,) = write_curve_films(gather(run.path))
    assert len(durations(film)) == -(-ITERATIONS // 3)

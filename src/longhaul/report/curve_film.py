"""Films of curves that grow, iteration by iteration."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from longhaul.report.film import Picture, encode
from longhaul.report.gathered import RunData
from longhaul.report.panels import file_name, panel_chart
from longhaul.report.series import Numbers, column
from longhaul.report.style import Chart, laid_out
from longhaul.runs.durable import storage_errors
from longhaul.runs.films import keep_film_note

SECONDS_PER_FRAME = 0.4
MOST_FRAMES = 200
"""A longer run is shown in strides, so that its film is over in less than a minute and a half."""
DOTS_PER_INCH = 100
"""Fewer than a plot has, which may be printed."""
AHEAD = 3
"""Pixels beyond an iteration's step that are shown with it: half of a marker."""
TO_COME = 0.16
"""How strongly the rest of the curves is seen already: the first frame is what many look at."""


def write_curve_films(run: RunData) -> list[Path]:
    """Film every panel of curves that asks for it and return the films."""
    made = []
    for panel in run.panels:
        chart = panel_chart(run, panel) if panel.is_filmed else None
        if chart is None:
            continue
        steps = column(run.rows, "iteration").steps
        stride = -(-len(steps) // MOST_FRAMES)
        path = run.directory.media / f"{file_name(panel)}_curve.gif"
        reveal = Reveal(chart)
        with storage_errors(path):
            encode(
                reveal.frames(steps[::-1][::stride][::-1]),
                path,
                frames_per_second=1 / SECONDS_PER_FRAME,
                colours=reveal.whole,
            )
            keep_film_note(run.directory, path, f"{panel.title}, over the whole run")
        made.append(path)
    return made


class Reveal:
    """A chart that is painted twice, with its curves and without, and uncovered from the left.

    What is still to come is seen faintly.

    Painting it anew for every frame would cost a hundred times as much.
    """

    def __init__(self, chart: Chart) -> None:
        with laid_out(chart) as figure:
            figure.set_dpi(DOTS_PER_INCH)
            figure.canvas.draw()
            self.whole = _painted(figure)
            self._transform = figure.axes[0].transData.frozen()
            for axes in figure.axes:
                for artist in (*axes.lines, *axes.collections):
                    artist.set_visible(False)
            figure.canvas.draw()
            empty = _painted(figure).astype(np.float32)
        self.begun = (empty + TO_COME * (self.whole - empty)).astype(np.uint8)

    def frames(self, steps: Numbers) -> Iterator[Picture]:
        """Yield a picture for each of these steps, with the curves up to there."""
        for step in steps:
            column = int(self._transform.transform((step, 0.0))[0]) + AHEAD
            frame = self.begun.copy()
            frame[:, :column] = self.whole[:, :column]
            yield frame


def _painted(figure: Any) -> Picture:
    return np.asarray(figure.canvas.buffer_rgba())[..., :3].copy()

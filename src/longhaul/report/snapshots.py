"""Checkpoints side by side: the same step of the same episode, played by each of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from longhaul.report.film import Picture, encode, fit
from longhaul.report.panels import file_name, panel_chart
from longhaul.report.pictures import encode_png, read_png
from longhaul.report.run_data import RunData
from longhaul.report.statistics import Numbers, column
from longhaul.report.style import Chart, laid_out, thousands
from longhaul.runs.directory import RunDirectory
from longhaul.runs.durable import replace_file, storage_errors
from longhaul.runs.films import keep_film_note

SIDE = 240
"""Pixels of the longer side of a snapshot that is kept."""
ACROSS = 5
FOLDER = "snapshots"
INDEX = "index.json"


@dataclass(frozen=True, slots=True)
class EpisodeSnapshot:
    """A picture of an episode of one checkpoint after a number of steps."""

    file: str
    checkpoint: str
    iteration: int
    env_steps: int
    step: int
    seed: int
    caption: str


def keep_snapshots(run: RunDirectory, shots: Sequence[tuple[EpisodeSnapshot, Picture]]) -> Path:
    """Write pictures and what they show into media/snapshots/ and return the folder."""
    folder = run.media / FOLDER
    with storage_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        for shot, picture in shots:
            content = encode_png(fit(picture, columns=SIDE, lines=SIDE // 2))
            replace_file(folder / shot.file, content, durable=False)
        index = msgspec.json.format(msgspec.json.encode([shot for shot, _ in shots]), indent=1)
        replace_file(folder / INDEX, index + b"\n", durable=False)
    return folder


def read_snapshots(run: RunDirectory) -> list[tuple[EpisodeSnapshot, Path]]:
    """Return the snapshots a run directory holds, in the order they were made."""
    folder = run.media / FOLDER
    try:
        shots = msgspec.json.decode((folder / INDEX).read_bytes(), type=list[EpisodeSnapshot])
    except (OSError, msgspec.MsgspecError):
        return []
    found = [(shot, folder / Path(shot.file).name) for shot in shots]
    return [(shot, path) for shot, path in found if path.is_file()]


def snapshot_chart(run: RunData) -> Chart | None:
    """Return the grid of all snapshots, None if there are none."""
    shots = read_snapshots(run.directory)
    if not shots:
        return None
    across = min(ACROSS, len(shots))
    down = -(-len(shots) // across)
    first = shots[0][0]

    def draw(figure: Any) -> None:
        grid = figure.subplots(down, across, squeeze=False)
        every = list(grid.ravel())
        for axes in every:
            axes.set_axis_off()
        for axes, (shot, path) in zip(every, shots, strict=False):
            axes.imshow(read_png(path), interpolation="antialiased")
            title = f"{thousands(shot.env_steps)} steps\n{shot.caption}"
            axes.set_title(title, fontsize=8, fontweight="normal", loc="center")

    title = f"Checkpoints after {first.step} steps of the episode with seed {first.seed}"
    return Chart("checkpoint_grid", title, draw, size=(max(1.52 * across, 4.8), 1.9 * down + 0.5))


SECONDS_PER_FRAME = 0.4
MOST_FRAMES = 200
"""A longer run is shown in strides, so its film takes less than 90 seconds."""
DOTS_PER_INCH = 100
"""Fewer than in a plot, which may be printed."""
AHEAD = 3
"""Pixels beyond an iteration's step that are shown with it: half of a marker."""
TO_COME = 0.16
"""Opacity of the rest of the curves: many viewers show only the first frame."""


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
                colors=reveal.whole,
            )
            keep_film_note(run.directory, path, f"{panel.title}, over the whole run")
        made.append(path)
    return made


class Reveal:
    """A chart that is painted twice, with its curves and without, and revealed from the left.

    The part to come is shown faintly. Painting every frame would take a hundred times as long.
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

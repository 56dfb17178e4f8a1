"""Checkpoints side by side: the same episode at the same step, as each of them plays it."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from longhaul.report.film import Picture
from longhaul.report.gathered import RunData
from longhaul.report.style import MISSING, Chart, PlotError, thousands
from longhaul.report.terminal import fit
from longhaul.runs.directory import RunDirectory
from longhaul.runs.durable import replace_file, storage_errors

SIDE = 240
"""Pixels of the longer side of a snapshot that is kept."""
ACROSS = 5
FOLDER = "snapshots"
INDEX = "index.json"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What one checkpoint made of an episode after a number of steps."""

    file: str
    checkpoint: str
    iteration: int
    env_steps: int
    step: int
    seed: int
    caption: str


def keep_snapshots(run: RunDirectory, shots: Sequence[tuple[Snapshot, Picture]]) -> Path:
    """Write pictures and what they show into media/snapshots/ and return the folder."""
    folder = run.media / FOLDER
    with storage_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        for shot, picture in shots:
            content = _png(fit(picture, columns=SIDE, lines=SIDE // 2))
            replace_file(folder / shot.file, content, durable=False)
        index = msgspec.json.format(msgspec.json.encode([shot for shot, _ in shots]), indent=1)
        replace_file(folder / INDEX, index + b"\n", durable=False)
    return folder


def read_snapshots(run: RunDirectory) -> list[tuple[Snapshot, Path]]:
    """Return the snapshots a run directory holds, in the order they were made."""
    folder = run.media / FOLDER
    try:
        shots = msgspec.json.decode((folder / INDEX).read_bytes(), type=list[Snapshot])
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
            axes.imshow(_read_png(path), interpolation="antialiased")
            title = f"{thousands(shot.env_steps)} steps\n{shot.caption}"
            axes.set_title(title, fontsize=8, fontweight="normal", loc="center")

    title = f"Checkpoints after {first.step} steps of the episode with seed {first.seed}"
    return Chart("checkpoint_grid", title, draw, size=(max(1.52 * across, 4.8), 1.9 * down + 0.5))


def _image() -> Any:
    try:
        from PIL import Image
    except ModuleNotFoundError:
        raise PlotError(MISSING) from None
    return Image


def _png(picture: Picture) -> bytes:
    content = io.BytesIO()
    _image().fromarray(picture).save(content, "PNG")
    return content.getvalue()


def _read_png(path: Path) -> Picture:
    with _image().open(path) as found:
        return np.asarray(found.convert("RGB"))

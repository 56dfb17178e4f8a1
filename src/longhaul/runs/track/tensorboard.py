"""TensorBoard: event files in the run directory that show one curve however often it was cut."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from longhaul.core.progress import Progress
from longhaul.runs.clocks import Clocks
from longhaul.runs.track.tracker import NOTHING, MissingPackageError, Point, Subject

try:
    from tensorboardX.proto.event_pb2 import Event, SessionLog
    from tensorboardX.proto.summary_pb2 import HistogramProto, Summary, SummaryMetadata
    from tensorboardX.summary import text

    from longhaul.runs.track.event_files import cut, event_files, frame, next_file
except ModuleNotFoundError as error:
    raise MissingPackageError("tensorboard", "tb") from error

FLUSH_SECONDS = 5.0
BINS = 30
SCALARS = "scalars"
"""The part of TensorBoard that draws curves; its reader warns of a description without one."""
Gif = Callable[[Path], "Picture | None"]
Picture = tuple[bytes, int, int]
"""The bytes of a GIF, its width and height."""


class TensorBoard:
    """Writes `tensorboard/`; needs no server and no account."""

    def __init__(self, subject: Subject, clocks: Clocks, gif: Gif) -> None:
        self._subject = subject
        self._folder = subject.directory / "tensorboard"
        self._clocks = clocks
        self._gif = gif
        self._described: set[str] = set()
        self._meanings = [
            (re.compile(".+".join(map(re.escape, re.split(r"<[^<>]+>", name)))), meaning)
            for name, meaning in subject.meanings.items()
        ]
        self._file: BinaryIO | None = None
        self._flushed_at = clocks.monotonic()

    def open(self, progress: Progress) -> int:
        """Cut what is younger than the run out of all files and begin the next one.

        A viewer that has read the younger events already is told to forget them.
        """
        self._folder.mkdir(exist_ok=True)
        known = NOTHING
        for path in event_files(self._folder):
            known = max(known, cut(path, progress.env_steps))
        now = self._clocks.wall()
        path = next_file(self._folder, now, socket.gethostname())
        self._file = path.open("xb")
        self._add(Event(wall_time=now, file_version="brain.Event:2"))
        began = SessionLog(status=SessionLog.START)
        self._add(Event(wall_time=now, step=progress.env_steps + 1, session_log=began))
        if known == NOTHING:
            config = json.dumps(self._subject.config, indent=1, default=str)
            indented = "\n".join(f"    {line}" for line in config.splitlines())
            self._add(Event(wall_time=now, step=0, summary=text("config", indented)))
        self.flush()
        return known

    def write(self, point: Point) -> None:
        """Add everything of a moment as one event."""
        values = [self._scalar(name, value) for name, value in point.scalars.items()]
        values += [
            Summary.Value(tag=name, histo=histogram(numbers))
            for name, numbers in point.histograms.items()
            if np.isfinite(numbers).any()
        ]
        values += self._pictures(point.films)
        if not values:
            return
        summary = Summary(value=values)
        self._add(Event(wall_time=point.wall, step=point.env_steps, summary=summary))
        if self._clocks.monotonic() - self._flushed_at >= FLUSH_SECONDS:
            self.flush()

    def flush(self) -> None:
        """Hand the events to the system, where viewers find them."""
        assert self._file is not None, "opened first"
        self._file.flush()
        self._flushed_at = self._clocks.monotonic()

    def close(self) -> None:
        """Flush and close."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def abandon(self) -> None:
        """Nothing: a file keeps nobody waiting."""

    def _add(self, event: Event) -> None:
        assert self._file is not None, "opened first"
        self._file.write(frame(event.SerializeToString()))

    def _scalar(self, name: str, value: float) -> Summary.Value:
        """Return the value, with its meaning the first time it is told."""
        if name in self._described:
            return Summary.Value(tag=name, simple_value=value)
        self._described.add(name)
        meaning = next((text for names, text in self._meanings if names.fullmatch(name)), "")
        plugin = SummaryMetadata.PluginData(plugin_name=SCALARS)
        described = SummaryMetadata(summary_description=meaning, plugin_data=plugin)
        return Summary.Value(tag=name, simple_value=value, metadata=described)

    def _pictures(self, films: Mapping[str, Path]) -> list[Summary.Value]:
        """Return films as moving pictures, which TensorBoard shows among the images."""
        values = []
        for name, path in films.items():
            if (picture := self._gif(path)) is not None:
                content, width, height = picture
                image = Summary.Image(
                    height=height, width=width, colorspace=3, encoded_image_string=content
                )
                values.append(Summary.Value(tag=name, image=image))
        return values


def histogram(numbers: NDArray[np.float32]) -> HistogramProto:
    """Return the numbers in bins of equal width, those that are not finite left out."""
    finite = numbers[np.isfinite(numbers)].astype(np.float64)
    counts, edges = np.histogram(finite, bins=BINS)
    return HistogramProto(
        min=finite.min(),
        max=finite.max(),
        num=finite.size,
        sum=finite.sum(),
        sum_squares=np.square(finite).sum(),
        # The first bucket ends where the numbers begin, and is empty.
        bucket_limit=edges.tolist(),
        bucket=[0.0, *counts.tolist()],
    )

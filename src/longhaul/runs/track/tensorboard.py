"""TensorBoard: event files in the run directory that show one curve across resumes."""

from __future__ import annotations

import json
import os
import re
import socket
import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from longhaul.core.control import Progress
from longhaul.runs.lock import Clocks
from longhaul.runs.track.tracker import NOTHING, MissingPackageError, Point, Subject, Tracker

FLUSH_SECONDS = 5.0
BINS = 30
SCALARS = "scalars"
"""The part of TensorBoard that draws curves; its reader warns of a description without one."""
STARTED, INIT = "meta/started", "meta/init"
"""When the run began, as a text, and a 1 that shows from the beginning that there is a run."""
Gif = Callable[[Path], "Picture | None"]
Picture = tuple[bytes, int, int]
"""The bytes of a GIF, its width and height."""


class TensorBoard(Tracker):
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
        """Cut events younger than `progress` from all files and start the next file.

        A START event makes a viewer that has read the younger events drop them.
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
            stamp = datetime.fromtimestamp(now, UTC).isoformat(timespec="seconds")
            self._add(Event(wall_time=now, step=0, summary=text(STARTED, stamp)))
            self._add(Event(wall_time=now, step=0, summary=Summary(value=[self._scalar(INIT, 1)])))
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

    def _add(self, event: Event) -> None:
        assert self._file is not None, "opened first"
        self._file.write(frame(event.SerializeToString()))

    def _scalar(self, name: str, value: float) -> Summary.Value:
        """Return the value, with its meaning the first time."""
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


try:
    from tensorboardX.crc32c import crc32c
    from tensorboardX.proto.event_pb2 import Event, SessionLog
    from tensorboardX.proto.summary_pb2 import HistogramProto, Summary, SummaryMetadata
    from tensorboardX.summary import text
except ModuleNotFoundError as error:
    raise MissingPackageError("tensorboard", "tb") from error

PATTERN = "events.out.tfevents.*"
_LENGTH = struct.Struct("<Q")
_CHECK = struct.Struct("<I")
_HEAD = _LENGTH.size + _CHECK.size


def masked_check(content: bytes) -> int:
    """Return the checksum that guards a record: a rotated CRC-32C plus a constant."""
    check = int(crc32c(content))
    return (((check >> 15) | (check << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def frame(content: bytes) -> bytes:
    """Return the record of an event."""
    length = _LENGTH.pack(len(content))
    return b"".join(
        (length, _CHECK.pack(masked_check(length)), content, _CHECK.pack(masked_check(content)))
    )


@dataclass(frozen=True, slots=True)
class Placed:
    """An event and where its record ends."""

    event: Event
    end: int


def read_events(path: Path) -> Iterator[Placed]:
    """Yield the whole events of a file, up to the first record that is torn or garbage."""
    with path.open("rb") as file:
        end = 0
        while len(head := file.read(_HEAD)) == _HEAD:
            length_bytes = head[: _LENGTH.size]
            (length,) = _LENGTH.unpack(length_bytes)
            if _CHECK.unpack(head[_LENGTH.size :])[0] != masked_check(length_bytes):
                return
            content = file.read(length)
            check = file.read(_CHECK.size)
            if len(check) < _CHECK.size or _CHECK.unpack(check)[0] != masked_check(content):
                return
            end += _HEAD + length + _CHECK.size
            yield Placed(Event.FromString(content), end)


def cut(path: Path, last_step: int) -> int:
    """Cut the file after the last event of at most this step; return the step of its scalars.

    Events are in the order of their steps, so everything after a younger one is younger.
    """
    keep, known = 0, -1
    for placed in read_events(path):
        if placed.event.step > last_step:
            break
        keep = placed.end
        if any(value.HasField("simple_value") for value in placed.event.summary.value):
            known = max(known, placed.event.step)
    if keep < path.stat().st_size:
        os.truncate(path, keep)
    return known


def next_file(folder: Path, now: float, host: str) -> Path:
    """Return a name that sorts after all earlier files."""
    earlier = [int(path.name.split(".")[3]) for path in event_files(folder)]
    second = max([int(now), *(number + 1 for number in earlier)])
    return folder / f"events.out.tfevents.{second:010d}.{host}.longhaul"


def event_files(folder: Path) -> list[Path]:
    """Return the event files that we wrote, oldest first."""
    return sorted(path for path in folder.glob(PATTERN) if path.name.endswith(".longhaul"))

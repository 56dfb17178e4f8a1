"""TensorBoard's event files: framed records that can be cut where a run goes on."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tensorboardX.crc32c import crc32c
from tensorboardX.proto.event_pb2 import Event

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

    Events stand in the order of their steps, so that what follows a younger one is younger.
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
    """Return a name that readers, who sort by name, take for the newest file."""
    earlier = [int(path.name.split(".")[3]) for path in event_files(folder)]
    second = max([int(now), *(number + 1 for number in earlier)])
    return folder / f"events.out.tfevents.{second:010d}.{host}.longhaul"


def event_files(folder: Path) -> list[Path]:
    """Return the event files that we wrote, oldest first."""
    return sorted(path for path in folder.glob(PATTERN) if path.name.endswith(".longhaul"))

"""Following a growing log piece by piece, sealed segments included, in bounded memory."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO, TypedDict

import msgspec

from longhaul.runs.logs.segments import Segment, list_segments

Row = dict[str, Any]

PIECE_BYTES = 1024 * 1024
LONGEST_LINE = 16 * 1024 * 1024
_TRAIL = 256
Decoder = msgspec.json.Decoder[Row]
EVERYTHING: Decoder = msgspec.json.Decoder(Row)


def is_regular(path: Path) -> bool:
    """Whether this is a regular file: no link, no pipe, no device."""
    return signature(path) is not None


def signature(path: Path) -> tuple[int, int, int] | None:
    """Return what changes when a regular file is written or replaced, None if there is none."""
    try:
        found = path.lstat()
    except (OSError, ValueError):
        return None
    return (found.st_ino, found.st_size, found.st_mtime_ns) if stat.S_ISREG(found.st_mode) else None


def open_regular(path: Path) -> BinaryIO:
    """Open a file to read; a link is refused, and a pipe does not block."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    return os.fdopen(descriptor, "rb")


@dataclass(frozen=True, slots=True)
class LogPiece:
    """Some rows of a log, and where reading stands."""

    rows: list[Row]
    begin: int  # the offset of the first row in the whole log
    restarted: bool = False
    """Whether the log was cut or replaced, which makes all rows read before invalid."""
    is_last: bool = True
    """Whether there is nothing more to read."""
    skipped: int = 0
    """Lines that are not rows."""


class LogFollower:
    """Follows one log; a log that a resumed trainer cut is read again from the start."""

    def __init__(self, path: Path, decoder: Decoder = EVERYTHING) -> None:
        self._path = path
        self._decoder = decoder
        self._trail = b""
        self._segment: tuple[Path, bytes] | None = None
        self._sealed: tuple[tuple[int, int], ...] = ()
        self.offset = 0
        self.size = 0

    def next_piece(self) -> LogPiece:
        """Return the rows that follow those already read, about `PIECE_BYTES` of them."""
        segments = [one for one in list_segments(self._path) if is_regular(one.path)]
        sealed = sum(segment.length for segment in segments)
        try:
            self.size = sealed + _size(self._path)
            restarted = self.offset > 0 and not self._goes_on(segments, sealed)
            if restarted:
                self.offset, self._trail = 0, b""
            begin = self.offset
            content, skipped = self._read(segments, sealed)
        except FileNotFoundError:
            # A file was renamed in the meantime; the next call finds it.
            return LogPiece([], self.offset, is_last=False)
        except OSError:
            return LogPiece([], self.offset)
        rows, bad = decode_lines(content, self._decoder)
        is_last = self.offset >= self.size or self.offset == begin
        return LogPiece(rows, begin, restarted, is_last, skipped + bad)

    def new_rows(self) -> Iterator[Row]:
        """Yield all rows that follow those already read."""
        while True:
            piece = self.next_piece()
            yield from piece.rows
            if piece.is_last:
                return

    def read_from(self, begin: int, end: int) -> list[Row]:
        """Return the rows between two offsets that pieces began at."""
        other = LogFollower(self._path)
        other.offset = begin
        rows: list[Row] = []
        while other.offset < end:
            piece = other.next_piece()
            rows += piece.rows
            if piece.is_last or piece.restarted:
                break
        return rows

    def _goes_on(self, segments: list[Segment], sealed: int) -> bool:
        """Whether the log still holds what was read last, right before the offset."""
        known, self._sealed = self._sealed, tuple((one.number, one.length) for one in segments)
        if self.size < self.offset or self._sealed[: len(known)] != known:
            return False
        if self.offset - len(self._trail) < sealed:
            return True  # a segment keeps its content as long as it keeps its length
        with open_regular(self._path) as file:
            file.seek(self.offset - sealed - len(self._trail))
            return file.read(len(self._trail)) == self._trail

    def _read(self, segments: list[Segment], sealed: int) -> tuple[bytes, int]:
        """Return whole lines from the offset on and move it, with the number of lines skipped."""
        begin = 0
        for segment in segments:
            end = begin + segment.length
            if self.offset < end:
                with self._unpacked(segment) as content:
                    content.seek(self.offset - begin)
                    found = self._whole_lines(content)
                if found == (b"", 0):
                    self.offset = end  # the segment ends in half a line
                return found
            begin = end
        self._segment = None
        if self.size == sealed:
            return b"", 0
        with open_regular(self._path) as file:
            file.seek(self.offset - sealed)
            return self._whole_lines(file)

    def _unpacked(self, segment: Segment) -> BinaryIO:
        """Return a segment's content; that of the last compressed one is kept."""
        if not segment.is_compressed:
            return open_regular(segment.path)
        if self._segment is None or self._segment[0] != segment.path:
            self._segment = (segment.path, segment.read())
        return BytesIO(self._segment[1])

    def _whole_lines(self, file: BinaryIO) -> tuple[bytes, int]:
        content = file.read(PIECE_BYTES)
        while b"\n" not in content and len(content) < LONGEST_LINE:
            more = file.read(PIECE_BYTES)
            if not more:
                return b"", 0  # a line that is still being written
            content += more
        end = content.rfind(b"\n") + 1
        skipped = 0
        if not end:
            end, skipped = len(content), 1
        self.offset += end
        self._trail = content[max(0, end - _TRAIL) : end]
        return (b"" if skipped else content[:end]), skipped


def _size(path: Path) -> int:
    try:
        return path.lstat().st_size if is_regular(path) else 0
    except FileNotFoundError:
        return 0


def only(names: Iterable[str]) -> Decoder:
    """Return a decoder of some fields only, which is several times faster."""
    # The fields of this TypedDict are known at run time only.
    fields = TypedDict("fields", dict.fromkeys(names, Any), total=False)  # type: ignore[misc]
    return msgspec.json.Decoder(fields)


def decode_lines(content: bytes, decoder: Decoder = EVERYTHING) -> tuple[list[Row], int]:
    """Return the objects of whole lines and the number of other lines."""
    if not content:
        return [], 0
    try:
        return decoder.decode_lines(content), 0
    except (msgspec.DecodeError, RecursionError):
        pass
    rows, skipped = [], 0
    for line in content.split(b"\n")[:-1]:
        try:
            rows.append(decoder.decode(line))
        except (msgspec.DecodeError, RecursionError):
            skipped += 1
    return rows, skipped

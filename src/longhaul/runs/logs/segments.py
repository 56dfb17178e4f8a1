"""A log in pieces that are read as one: sealed, compressed segments and the file being written."""

from __future__ import annotations

import contextlib
import gzip
import os
import re
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from longhaul.core.system import sync_file
from longhaul.runs.durable import replace_file, sync_directory

MEMBER = 256 * 1024
"""Bytes that are compressed together; a damaged byte loses at most these."""
LEVEL = 3  # half the time of the usual 6 and a tenth more bytes, on our rows
_NAME = re.compile(r"(?P<number>\d{6})(?:-(?P<length>\d+)\.gz)?")
_MAGIC = b"\x1f\x8b\x08"
_GZIP = 31  # zlib's window bits for a whole gzip member, checksum included


@dataclass(frozen=True, slots=True)
class Segment:
    """A sealed piece of a log."""

    number: int
    path: Path
    length: int  # of what it holds, not of the file
    is_compressed: bool

    def rank(self) -> tuple[bool, int]:
        """Return what orders files of one number, left by an interrupted step; the last counts.

        A compressed file has its name only when it is complete, and the shorter of two was cut.
        """
        return self.is_compressed, -self.length

    def read(self) -> bytes:
        """Return its content; what is damaged becomes one unreadable line of the same length."""
        content = self.path.read_bytes()
        if self.is_compressed:
            content = b"".join(sound_members(content))
        missing = self.length - len(content)
        return content if missing <= 0 else content + b" " * (missing - 1) + b"\n"


def list_segments(path: Path) -> list[Segment]:
    """Return the sealed pieces of a log, oldest first."""
    return [files[-1] for files in _files(path).values()]


def _files(path: Path) -> dict[int, list[Segment]]:
    """Return all files of each piece, oldest piece first; the last file is the one that counts."""
    found: dict[int, list[Segment]] = {}
    for candidate in path.parent.glob(f"{path.name}.*"):
        match = _NAME.fullmatch(candidate.name.removeprefix(f"{path.name}."))
        if match is None:
            continue
        number, is_compressed = int(match["number"]), match["length"] is not None
        try:
            length = int(match["length"]) if is_compressed else candidate.stat().st_size
        except FileNotFoundError:
            continue
        found.setdefault(number, []).append(Segment(number, candidate, length, is_compressed))
    return {number: sorted(found[number], key=Segment.rank) for number in sorted(found)}


def sealed_length(path: Path) -> int:
    """Return how many bytes of a log are before the file that is written."""
    return sum(segment.length for segment in list_segments(path))


def log_size(path: Path) -> int:
    """Return how many bytes a log holds, all pieces together."""
    active = path.stat().st_size if path.exists() else 0
    return sealed_length(path) + active


def compress(content: bytes) -> bytes:
    """Return the content as gzip members of whole lines, which any gzip tool reads as one."""
    members = []
    begin = 0
    while begin < len(content):
        end = content.rfind(b"\n", begin, begin + MEMBER) + 1
        if end <= begin:
            end = content.find(b"\n", begin) + 1 or len(content)
        members.append(gzip.compress(content[begin:end], LEVEL, mtime=0))
        begin = end
    return b"".join(members)


def sound_members(content: bytes) -> Iterator[bytes]:
    """Yield what the undamaged members hold; a damaged one is skipped."""
    at = 0
    while 0 <= at < len(content):
        member = zlib.decompressobj(_GZIP)
        try:
            held = member.decompress(content[at:])
        except zlib.error:
            held = b""
        if member.eof:
            yield held
            at = len(content) - len(member.unused_data)
        else:
            at = content.find(_MAGIC, at + 1)


def read_log(path: Path, offset: int = 0) -> bytes:
    """Return the bytes of a log from `offset` on, from all its pieces."""
    while True:
        segments = list_segments(path)
        if not segments and not path.exists():
            raise FileNotFoundError(path)
        try:
            content = _read_pieces(path, segments, offset)
        except FileNotFoundError:
            continue  # a piece was compressed in the meantime
        if list_segments(path) == segments:
            return content


def _read_pieces(path: Path, segments: list[Segment], offset: int) -> bytes:
    pieces = []
    begin = 0
    for segment in segments:
        if offset < begin + segment.length:
            pieces.append(segment.read()[max(offset - begin, 0) :])
        begin += segment.length
    if path.exists():
        with path.open("rb") as file:
            file.seek(max(offset - begin, 0))
            pieces.append(file.read())
    return b"".join(pieces)


def feed_log(path: Path, take: Callable[[bytes], object], limit: int | None = None) -> int:
    """Hand the log's bytes, at most the first `limit`, to `take`; return how many there were."""
    length = 0
    for piece in _pieces(path):
        if limit is not None:
            piece = piece[: limit - length]
        if not piece:
            continue
        take(piece)
        length += len(piece)
    return length


def _pieces(path: Path) -> Iterator[bytes]:
    for segment in list_segments(path):
        yield segment.read()
    if path.exists():
        with path.open("rb") as file:
            while block := file.read(1 << 20):
                yield block


def seal(path: Path) -> Path:
    """Turn the written file into a segment in one step; a new file takes its place when needed."""
    number = max((segment.number for segment in list_segments(path)), default=0) + 1
    sealed = path.with_name(f"{path.name}.{number:06d}")
    path.rename(sealed)
    sync_directory(path.parent)
    return sealed


def compress_sealed(path: Path) -> None:
    """Compress the segments that are not yet; if the disk is full they stay as they are."""
    for number, files in _files(path).items():
        with contextlib.suppress(OSError):
            if not files[-1].is_compressed:
                _write_compressed(path, number, files[-1].path.read_bytes())
            else:
                files.pop()
            _remove(files)


def _write_compressed(path: Path, number: int, content: bytes) -> None:
    name = f"{path.name}.{number:06d}-{len(content)}.gz"
    replace_file(path.with_name(name), compress(content))


def cut_log(path: Path, offset: int) -> None:
    """Cut a log to its first `offset` bytes; interrupted anywhere, it still holds at least them."""
    pieces = _files(path)
    begin = sum(files[-1].length for files in pieces.values())
    if path.exists():
        _truncate(path, max(offset - begin, 0))
    for number in reversed(pieces):
        files = pieces[number]
        segment = files[-1]
        begin -= segment.length
        if offset <= begin:
            _remove(files)
        elif offset < begin + segment.length:
            # The shorter piece has a different name; while both exist the shorter one counts.
            _write_compressed(path, number, segment.read()[: offset - begin])
            _remove(files)
    sync_directory(path.parent)


def replace_log(path: Path, content: bytes) -> None:
    """Replace all pieces of a log by `content`."""
    replace_file(path, content)
    for files in _files(path).values():
        _remove(files)
    sync_directory(path.parent)


def _remove(files: list[Segment]) -> None:
    """Remove the files of one piece, the one that counts last.

    If this is interrupted, an outranked file would otherwise become part of the log again.
    """
    for file in files[:-1]:
        file.path.unlink(missing_ok=True)
    if len(files) > 1:
        sync_directory(files[0].path.parent)
    for file in files[-1:]:
        file.path.unlink(missing_ok=True)


def _truncate(path: Path, size: int) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_NOFOLLOW)
    try:
        if os.fstat(descriptor).st_size > size:
            os.ftruncate(descriptor, size)
            sync_file(descriptor)
    finally:
        os.close(descriptor)

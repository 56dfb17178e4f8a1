"""Reading a growing log piece by piece, sealed segments too, with a bounded part in memory."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, TypedDict

import msgspec

from longhaul.core.errors import ConfigError
from longhaul.runs.directory import RunDirectory
from longhaul.runs.logs.segments import Segment, list_segments, sound_members

MOST_RUNS = 5000
MOST_FILES = 2000
SMALL_FILE = 4 * 1024 * 1024
"""Larger files that are read as a whole are not what they claim to be."""
_PLAIN_NAME = re.compile(r"[^\x00-\x1f/\\]{1,255}")


@dataclass(frozen=True, slots=True)
class Shelf:
    """The folder of runs; names that come from a browser are only ever looked up, never joined."""

    root: Path

    def runs(self) -> dict[str, RunDirectory]:
        """Return the runs by `task/run`; folders that lead out of the root are left out."""
        found: dict[str, RunDirectory] = {}
        for task in self._folders(self.root):
            for run in self._folders(task):
                if len(found) < MOST_RUNS and is_regular(run / "run.json"):
                    found[f"{task.name}/{run.name}"] = RunDirectory(run)
        return found

    def files(self, folder: Path, suffixes: tuple[str, ...]) -> dict[str, Path]:
        """Return the regular files right inside `folder` by name, in the order of their names."""
        if not self.holds(folder):
            return {}
        try:
            with os.scandir(folder) as entries:
                names = sorted(
                    entry.name
                    for entry in entries
                    if entry.is_file(follow_symlinks=False)
                    and entry.name.lower().endswith(suffixes)
                    and _PLAIN_NAME.fullmatch(entry.name)
                )
        except OSError:
            return {}
        return {name: folder / name for name in names[:MOST_FILES]}

    def holds(self, folder: Path) -> bool:
        """Whether a folder, all links followed, is inside the root."""
        try:
            real = folder.resolve(strict=True)
        except (OSError, RuntimeError):
            return False
        return real.is_dir() and real.is_relative_to(self.root)

    def _folders(self, folder: Path) -> list[Path]:
        try:
            with os.scandir(folder) as entries:
                names = sorted(
                    (entry.name, entry.is_symlink())
                    for entry in entries
                    if not entry.name.startswith(".") and _is_folder(entry)
                )
        except OSError:
            return []
        paths = ((folder / name, is_link) for name, is_link in names)
        return [path for path, is_link in paths if not is_link or self.holds(path)]


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False  # a link that leads to itself


def open_shelf(root: Path) -> Shelf:
    """Return the shelf of a folder, or say why there is none."""
    if not root.is_dir():
        raise ConfigError(
            f"{root} is not a folder; give the one the runs are in, such as `longhaul serve runs`"
        )
    if (root / "run.json").is_file():
        raise ConfigError(
            f"{root} is one run; give the folder of all tasks, {root.parent.parent}, and pick the "
            "run on the page"
        )
    return Shelf(root.resolve())


def is_regular(path: Path) -> bool:
    """Whether this is a file of its own: no link, no pipe, no device."""
    return signature(path) is not None


def signature(path: Path) -> tuple[int, int, int] | None:
    """Return what changes when a regular file is written or replaced, None if there is none."""
    try:
        found = path.lstat()
    except (OSError, ValueError):
        return None
    return (found.st_ino, found.st_size, found.st_mtime_ns) if stat.S_ISREG(found.st_mode) else None


def read_small(path: Path) -> bytes | None:
    """Return the content of a small regular file, None if it is anything else."""
    found = signature(path)
    if found is None or found[1] > SMALL_FILE:
        return None
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    with os.fdopen(descriptor, "rb") as file:
        return file.read(SMALL_FILE)


Row = dict[str, Any]

PIECE_BYTES = 1024 * 1024
LONGEST_LINE = 16 * 1024 * 1024
MOST_SEALED_BYTES = 64 * 1024 * 1024
"""Of the file of a compressed segment; trainers write some six."""
_TRAIL = 256
Decoder = msgspec.json.Decoder[Row]
EVERYTHING: Decoder = msgspec.json.Decoder(Row)


@dataclass(frozen=True, slots=True)
class LogPiece:
    """Some rows of a log, and where reading stands."""

    rows: list[Row]
    begin: int  # the offset of the first row in the whole log
    restarted: bool = False
    """Whether the log was cut or replaced, so that everything read before is void."""
    is_last: bool = True
    """Whether there was nothing more to read."""
    skipped: int = 0
    """Lines that are no rows."""


@dataclass(slots=True)
class _Unpacking:
    """A compressed segment that is being read, member by member."""

    path: Path
    members: Iterator[bytes]
    offset: int  # of the next member, in the whole log


class Tail:
    """Follows one log; a log that a resumed trainer took back is read again from its beginning."""

    def __init__(self, path: Path, decoder: Decoder = EVERYTHING) -> None:
        self._path = path
        self._decoder = decoder
        self._trail = b""
        self._unpacking: _Unpacking | None = None
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
            if begin < sealed:
                content, skipped = self._from_segments(segments)
            else:
                content, skipped = self._from_file(sealed)
        except FileNotFoundError:
            # A piece got another name in the meantime; the next call finds it.
            return LogPiece([], self.offset, is_last=False)
        except OSError:
            return LogPiece([], self.offset)
        rows, bad = decode_lines(content, self._decoder)
        is_last = self.offset >= self.size or self.offset == begin
        return LogPiece(rows, begin, restarted, is_last, skipped + bad)

    def read_from(self, begin: int, end: int) -> list[Row]:
        """Return the rows between two offsets that pieces began at."""
        other = Tail(self._path)
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
        with _open(self._path) as file:
            file.seek(self.offset - sealed - len(self._trail))
            return file.read(len(self._trail)) == self._trail

    def _from_file(self, sealed: int) -> tuple[bytes, int]:
        """Return whole lines from the offset on and move it; a line too long is passed over."""
        if not self.size - sealed:
            return b"", 0
        with _open(self._path) as file:
            file.seek(self.offset - sealed)
            return self._whole_lines(file)

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

    def _from_segments(self, segments: list[Segment]) -> tuple[bytes, int]:
        """Return lines of the segment the offset is in and move it."""
        begin = 0
        for segment in segments:
            if self.offset < begin + segment.length:
                break
            begin += segment.length
        if not segment.is_compressed:
            with _open(segment.path) as file:
                file.seek(self.offset - begin)
                content, skipped = self._whole_lines(file)
            if not content and not skipped:
                self.offset = begin + segment.length  # it ends in half a line
            return content, skipped
        return self._next_member(segment, begin)

    def _next_member(self, segment: Segment, begin: int) -> tuple[bytes, int]:
        unpacking = self._unpacking
        if unpacking is None or (unpacking.path, unpacking.offset) != (segment.path, self.offset):
            members = iter(sound_members(_read_sealed(segment.path)))
            unpacking = _Unpacking(segment.path, members, begin)
        for member in unpacking.members:
            unpacking.offset += len(member)
            if unpacking.offset <= self.offset:
                continue
            # The part before was read when this was not yet sealed.
            content = member[len(member) - (unpacking.offset - self.offset) :]
            self.offset = unpacking.offset
            self._unpacking = unpacking if self.offset < begin + segment.length else None
            self._trail = b""
            return content, 0
        # What is missing to the segment's length is damaged.
        self._unpacking, self._trail = None, b""
        self.offset = begin + segment.length
        return b"", 1


def _read_sealed(path: Path) -> bytes:
    with _open(path) as file:
        return file.read(MOST_SEALED_BYTES)


def _size(path: Path) -> int:
    try:
        return path.lstat().st_size if is_regular(path) else 0
    except FileNotFoundError:
        return 0


def _open(path: Path) -> BinaryIO:
    # A pipe in place of a log must not hold the page up, nor a link lead out of the runs.
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    return os.fdopen(descriptor, "rb")


def only(names: Iterable[str]) -> Decoder:
    """Return what reads some fields of a row and passes over the others, several times faster."""
    # A TypedDict whose fields are known at run time only, which no type checker follows.
    fields = TypedDict("fields", dict.fromkeys(names, Any), total=False)  # type: ignore[misc]
    return msgspec.json.Decoder(fields)


def decode_lines(content: bytes, decoder: Decoder = EVERYTHING) -> tuple[list[Row], int]:
    """Return the objects of whole lines and the number of lines that are none."""
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

"""A cut of a rotated log that is killed at any of its file operations leaves no stale piece."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from longhaul.runs.logs.jsonl import LogMark, LogWriter, Row, encode_row
from longhaul.runs.logs.rewind import rewind_log
from longhaul.runs.logs.segments import list_segments, read_log

OPERATIONS = ("open", "write", "ftruncate", "fsync", "rename", "replace", "unlink", "mkdir")
ROTATE_BYTES = 200
WRITTEN, AGAIN = 27, 12
"""Rows before the first cut, and rows each later life of the run adds."""
CUTS = (5, 14, 20)
"""Rows the first cut leaves."""


class KilledError(BaseException):
    """The process is gone."""


@contextmanager
def killed_before(operation: int) -> Iterator[list[str]]:
    """Let so many file operations happen and none after them; the list names those that did."""
    happened: list[str] = []

    def counted(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            if len(happened) >= operation:
                raise KilledError
            happened.append(name)
            return real(*arguments, **options)

        return call

    with pytest.MonkeyPatch.context() as patch:
        for name in OPERATIONS:
            patch.setattr(os, name, counted(name, getattr(os, name)))
        yield happened


def row(iteration: int, life: int) -> Row:
    return {"iteration": iteration, "life": life}


def write_rows(path: Path, first: int, count: int, *, life: int) -> list[LogMark]:
    log = LogWriter(path, rotate_bytes=ROTATE_BYTES)
    marks = []
    for iteration in range(first, first + count):
        log.append(encode_row(row(iteration, life)))
        marks.append(log.mark())
    log.close()
    return marks


def rows(*lives: tuple[int, int, int]) -> bytes:
    """Return the lines of each life: its number, its first and its last iteration."""
    return b"".join(
        encode_row(row(iteration, life))
        for life, first, last in lives
        for iteration in range(first, last + 1)
    )


def rewind(path: Path, mark: LogMark, last: int) -> None:
    found = rewind_log(path, mark, path.parent / "crash", lambda one: one["iteration"] <= last)
    assert found.problem is None, found.problem


@pytest.fixture
def original(tmp_path: Path) -> Path:
    folder = tmp_path / "original"
    folder.mkdir()
    return folder


def boundaries(path: Path, marks: list[LogMark]) -> list[int]:
    """Return numbers of rows before, at and after the borders between the log's pieces."""
    ends, offset = set(), 0
    for segment in list_segments(path):
        offset += segment.length
        ends |= {number for number, mark in enumerate(marks, start=1) if mark.offset == offset}
    return sorted({near for end in ends for near in (end - 1, end, end + 1)} & {*range(1, 99)})


@pytest.mark.parametrize("kept", CUTS)
def test_no_stale_row_comes_back_after_a_cut_that_was_killed(
    kept: int, original: Path, tmp_path: Path
) -> None:
    marks = write_rows(original / "log.jsonl", 1, WRITTEN, life=1)
    cut = tmp_path / "cut"
    shutil.copytree(original, cut)
    with killed_before(10_000) as happened:
        rewind(cut / "log.jsonl", marks[kept - 1], kept)
    assert {"ftruncate", "unlink"} <= set(happened)
    older = [number for number in boundaries(original / "log.jsonl", marks) if number < kept]
    for operation in range(len(happened)):
        folder = tmp_path / f"killed-{operation}"
        shutil.copytree(original, folder)
        path = folder / "log.jsonl"
        with killed_before(operation), pytest.raises(KilledError):
            rewind(path, marks[kept - 1], kept)
        rewind(path, marks[kept - 1], kept)
        assert read_log(path) == rows((1, 1, kept)), operation
        write_rows(path, kept + 1, AGAIN, life=2)
        assert read_log(path) == rows((1, 1, kept), (2, kept + 1, kept + AGAIN)), operation
        for number in older:
            fallen = tmp_path / "fallen"
            shutil.copytree(folder, fallen)
            fall_back(fallen / "log.jsonl", marks, number)
            shutil.rmtree(fallen)


def fall_back(path: Path, marks: list[LogMark], number: int) -> None:
    """Go on from an older checkpoint; its second life is as if the first had ended there."""
    rewind(path, marks[number - 1], number)
    assert read_log(path) == rows((1, 1, number)), number
    write_rows(path, number + 1, AGAIN, life=3)
    assert read_log(path) == rows((1, 1, number), (3, number + 1, number + AGAIN)), number


@pytest.mark.thorough
@pytest.mark.parametrize("number", [7, 8])
def test_no_stale_row_comes_back_after_two_killed_cuts_in_a_row(
    number: int, original: Path, tmp_path: Path
) -> None:
    kept = CUTS[1]
    marks = write_rows(original / "log.jsonl", 1, WRITTEN, life=1)
    for operation in range(100):
        once = tmp_path / "once"
        shutil.copytree(original, once)
        with killed_before(operation) as happened:
            was_killed = is_killed(once / "log.jsonl", marks, kept)
        for second in range(100):
            twice = tmp_path / "twice"
            shutil.copytree(once, twice)
            with killed_before(second):
                was_killed_again = is_killed(twice / "log.jsonl", marks, number)
            fall_back(twice / "log.jsonl", marks, number)
            shutil.rmtree(twice)
            if not was_killed_again:
                break
        shutil.rmtree(once)
        if not was_killed:
            break
    assert not was_killed
    assert len(happened) > 10


def is_killed(path: Path, marks: list[LogMark], number: int) -> bool:
    """Whether taking the log back to its first rows was ended by the kill."""
    try:
        rewind(path, marks[number - 1], number)
    except KilledError:
        return True
    return False

"""Logs in pieces: read, cut and salvaged as if they were one file, whatever befell them."""

from __future__ import annotations

import gzip
import random
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from longhaul.runs.logs.jsonl import LogMark, LogWriter, Row, encode_row, iterate_rows, read_rows
from longhaul.runs.logs.rewind import rewind_log
from longhaul.runs.logs.segments import (
    MEMBER,
    compress,
    cut_log,
    list_segments,
    log_size,
    read_log,
    seal,
    sound_members,
)


def row(iteration: int) -> Row:
    return {"iteration": iteration, "env_steps": 8 * iteration, "loss": iteration / 7}


def write_rows(path: Path, first: int, last: int, *, rotate_bytes: int = 0) -> list[LogMark]:
    """Write rows and return the mark after each of them."""
    log = LogWriter(path, rotate_bytes=rotate_bytes)
    marks = []
    for iteration in range(first, last + 1):
        log.append(encode_row(row(iteration)))
        marks.append(log.mark())
    log.close()
    return marks


def belongs_to(last: int) -> Any:
    return lambda found: found.get("iteration", last + 1) <= last


def test_a_rotated_log_reads_as_one(tmp_path: Path) -> None:
    whole, pieces = tmp_path / "whole.jsonl", tmp_path / "pieces.jsonl"
    marks = write_rows(whole, 1, 200)
    assert write_rows(pieces, 1, 200, rotate_bytes=1000) == marks
    assert len(list_segments(pieces)) > 5
    assert all(segment.is_compressed for segment in list_segments(pieces))
    assert read_log(pieces) == whole.read_bytes()
    assert log_size(pieces) == whole.stat().st_size
    assert read_rows(pieces) == read_rows(whole)
    assert list(iterate_rows(pieces)) == read_rows(whole).rows


def test_reading_on_from_any_mark_misses_nothing(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    marks = write_rows(path, 1, 60, rotate_bytes=700)
    for number, mark in enumerate(marks, start=1):
        assert [found["iteration"] for found in read_rows(path, mark.offset).rows] == list(
            range(number + 1, 61)
        )


@given(
    rotate=st.integers(400, 3000),
    saved=st.integers(1, 40),
    written=st.integers(0, 40),
    again=st.integers(400, 3000),
)
@settings(max_examples=6)
def test_a_rewound_log_goes_on_as_if_never_cut(
    rotate: int, saved: int, written: int, again: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("rewind")
    path, straight = folder / "log.jsonl", folder / "straight.jsonl"
    marks = write_rows(path, 1, saved + written, rotate_bytes=rotate)
    rewound = rewind_log(path, marks[saved - 1], folder / "crash", belongs_to(saved))
    assert rewound.problem is None
    assert (rewound.set_aside is None) == (written == 0)
    if rewound.set_aside is not None:
        assert [r["iteration"] for r in read_rows(rewound.set_aside).rows] == list(
            range(saved + 1, saved + written + 1)
        )
    last = write_rows(path, saved + 1, saved + 50, rotate_bytes=again)[-1]
    assert write_rows(straight, 1, saved + 50)[-1] == last
    assert read_log(path) == straight.read_bytes()


def test_an_interrupted_rotation_is_finished_and_nothing_is_read_twice(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    write_rows(path, 1, 20)
    content = path.read_bytes()
    seal(path)  # and the process dies before it compresses
    assert read_log(path) == content
    # Or before it removes what it has compressed.
    (sealed,) = list_segments(path)
    packed = path.with_name(f"log.jsonl.000001-{len(content)}.gz")
    packed.write_bytes(compress(content))
    assert sealed.path.exists()
    assert read_log(path) == content
    write_rows(path, 21, 25)
    assert [found["iteration"] for found in read_rows(path).rows] == list(range(1, 26))
    assert not sealed.path.exists()


def test_an_interrupted_cut_still_holds_what_was_to_stay(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    marks = write_rows(path, 1, 30, rotate_bytes=600)
    mark = marks[3]
    first = list_segments(path)[0]
    longer = first.path.read_bytes()
    cut_log(path, mark.offset)
    first.path.write_bytes(longer)  # as if it had not been removed yet
    assert log_size(path) == mark.offset
    assert [found["iteration"] for found in read_rows(path).rows] == [1, 2, 3, 4]


def test_other_tools_read_a_segment(tmp_path: Path) -> None:
    content = b"".join(encode_row(row(n)) for n in range(15_000))
    assert len(content) > 3 * MEMBER
    path = tmp_path / "segment.gz"
    path.write_bytes(compress(content))
    assert gzip.decompress(path.read_bytes()) == content
    if shutil.which("gzip"):
        done = subprocess.run(["gzip", "-dc", path], capture_output=True, check=True)
        assert done.stdout == content


def test_a_damaged_member_costs_itself_alone() -> None:
    content = b"".join(encode_row(row(n)) for n in range(15_000))
    packed = bytearray(compress(content))
    members = list(sound_members(bytes(packed)))
    assert b"".join(members) == content
    packed[len(packed) // 2] ^= 0x55
    kept = list(sound_members(bytes(packed)))
    assert len(kept) == len(members) - 1
    assert set(kept) < set(members)


def corrupt(path: Path, chance: random.Random) -> None:
    """Cut, flip, overwrite or fill in something in one piece of a log."""
    pieces = [path, *(segment.path for segment in list_segments(path))]
    piece = chance.choice([one for one in pieces if one.exists() and one.stat().st_size])
    content = bytearray(piece.read_bytes())
    at = chance.randrange(len(content))
    match chance.randrange(5):
        case 0:
            del content[at:]
        case 1:
            content[at] ^= 1 << chance.randrange(8)
        case 2:
            content[at : at + 40] = chance.randbytes(min(40, len(content) - at))
        case 3:
            content[at:at] = b"\n{garbage \xff\x00\n" * chance.randrange(1, 4)
        case _:
            content += b'{"iteration": 99, "torn'
    piece.write_bytes(content)


def whole_lines(path: Path, written: dict[bytes, Row]) -> set[int]:
    """Return the iterations whose line is still there, byte for byte, in a sound piece."""
    kept = set()
    pieces = [segment.read() for segment in list_segments(path)]
    if path.exists():
        pieces.append(path.read_bytes())
    for piece in pieces:
        # The end of the written file may be torn; a line counts when its end is there.
        kept |= {written[line]["iteration"] for line in piece.split(b"\n")[:-1] if line in written}
    return kept


@pytest.mark.parametrize(
    ("rotate_bytes", "seeds"),
    [(0, 20), (900, 20), *(pytest.param(n, 500, marks=pytest.mark.slow) for n in (0, 900))],
)
def test_a_thousand_corruptions_lose_no_whole_row_and_leave_no_double(
    rotate_bytes: int, seeds: int, tmp_path: Path
) -> None:
    lines = {encode_row(row(n))[:-1]: row(n) for n in range(1, 46)}
    original = tmp_path / "original"
    original.mkdir()
    marks = write_rows(original / "log.jsonl", 1, 40, rotate_bytes=rotate_bytes)
    for seed in range(seeds):
        chance = random.Random(f"{rotate_bytes} {seed}")
        folder = tmp_path / "run"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(original, folder)
        path, saved = folder / "log.jsonl", chance.randrange(1, 41)
        for _ in range(chance.randrange(1, 4)):
            corrupt(path, chance)
        kept = whole_lines(path, lines)
        assert kept <= {found["iteration"] for found in read_rows(path).rows if row_is_ours(found)}
        rewound = rewind_log(path, marks[saved - 1], folder / "crash", belongs_to(saved))
        wanted = {number for number in kept if number <= saved}
        write_rows(path, saved + 1, 45, rotate_bytes=rotate_bytes)
        found = [one["iteration"] for one in read_rows(path).rows if row_is_ours(one)]
        assert len(found) == len(set(found)), seed
        assert set(found) >= wanted | set(range(saved + 1, 46)), seed
        if rewound.problem is None:
            assert found == list(range(1, 46)), seed


def row_is_ours(found: Row) -> bool:
    """Whether it is a row that was written, not one that a flipped bit made of it."""
    return found == row(found["iteration"]) if isinstance(found.get("iteration"), int) else False

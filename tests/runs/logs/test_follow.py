from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from longhaul.runs.logs import follow as module
from longhaul.runs.logs.follow import LogFollower, Row
from longhaul.runs.logs.jsonl import LogWriter, encode_row, read_rows
from longhaul.runs.logs.segments import cut_log


def read_all(tail: LogFollower) -> list[Row]:
    rows: list[Row] = []
    while True:
        piece = tail.next_piece()
        rows = list(piece.rows) if piece.restarted else rows + piece.rows
        if piece.is_last:
            return rows


def write(path: Path, numbers: range, *, rotate_bytes: int = 0) -> None:
    writer = LogWriter(path, rotate_bytes=rotate_bytes)
    for number in numbers:
        writer.append(encode_row({"iteration": number, "text": "x" * (number % 7)}))
        writer.flush()
    writer.close()


def test_reading_on_misses_nothing_and_repeats_nothing(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    tail, seen = LogFollower(path), []
    for begin in range(0, 60, 20):
        write(path, range(begin, begin + 20))
        seen += read_all(tail)
    assert [row["iteration"] for row in seen] == list(range(60))


def test_a_torn_line_is_read_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    tail = LogFollower(path)
    path.write_bytes(b'{"a":1}\n{"a":')
    assert read_all(tail) == [{"a": 1}]
    path.write_bytes(b'{"a":1}\n{"a":2}\n')
    assert read_all(tail) == [{"a": 2}]


def test_lines_that_are_no_rows_are_passed_over_and_counted(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(b'{"a":1}\nrubbish\n[1]\n\xff\xfe\n{"a":NaN}\n{"a":2}\n')
    piece = LogFollower(path).next_piece()
    assert (piece.rows, piece.skipped) == ([{"a": 1}, {"a": 2}], 4)


def test_a_log_that_was_taken_back_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    write(path, range(10))
    tail = LogFollower(path)
    read_all(tail)
    cut_log(path, 60)
    write(path, range(100, 130))
    piece = tail.next_piece()
    assert piece.restarted
    assert piece.rows == read_rows(path).rows


def test_a_log_that_vanished_is_read_from_its_beginning_when_it_is_back(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    write(path, range(3))
    tail = LogFollower(path)
    read_all(tail)
    path.unlink()
    assert tail.next_piece().restarted
    write(path, range(5))
    assert len(read_all(tail)) == 5


@settings(max_examples=10)
@given(st.integers(200, 3000), st.lists(st.integers(1, 60), min_size=1, max_size=6))
def test_sealed_segments_are_read_as_one_log(
    tmp_path_factory: pytest.TempPathFactory, rotate_bytes: int, portions: list[int]
) -> None:
    path = tmp_path_factory.mktemp("log") / "metrics.jsonl"
    tail, seen, begin = LogFollower(path), [], 0
    for portion in portions:
        write(path, range(begin, begin + portion), rotate_bytes=rotate_bytes)
        begin += portion
        seen += read_all(tail)
    assert [row["iteration"] for row in seen] == list(range(begin))
    assert read_all(LogFollower(path)) == read_rows(path).rows


def test_a_part_of_a_log_is_found_again_inside_segments(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    write(path, range(400), rotate_bytes=2000)
    tail, pieces = LogFollower(path), []
    while True:
        piece = tail.next_piece()
        pieces.append(piece)
        if piece.is_last:
            break
    middle = len(pieces) // 2
    assert middle > 1
    found = tail.read_from(pieces[middle].begin, pieces[middle + 1].begin)
    assert found == pieces[middle].rows


def test_a_damaged_segment_costs_itself_alone(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    write(path, range(300), rotate_bytes=2000)
    sealed = sorted(tmp_path.glob("metrics.jsonl.*.gz"))
    sealed[1].write_bytes(b"\x1f\x8b\x08" + b"\0" * 40)
    found = [row["iteration"] for row in read_all(LogFollower(path))]
    assert found == [row["iteration"] for row in read_rows(path).rows]
    assert 0 < len(found) < 300


def test_a_line_too_long_to_be_true_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PIECE_BYTES", 64)
    monkeypatch.setattr(module, "LONGEST_LINE", 256)
    path = tmp_path / "events.jsonl"
    path.write_bytes(b'{"a":1}\n{"b":"' + b"x" * 1000 + b'"}\n{"a":2}\n')
    assert read_all(LogFollower(path)) == [{"a": 1}, {"a": 2}]


@pytest.mark.parametrize("kind", ["link", "pipe", "folder"])
def test_what_is_no_file_of_its_own_holds_nothing(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "metrics.jsonl"
    if kind == "link":
        (tmp_path / "secret").write_text('{"a":1}\n')
        path.symlink_to(tmp_path / "secret")
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.mkdir()
    assert read_all(LogFollower(path)) == []

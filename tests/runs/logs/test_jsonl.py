from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from longhaul.core.errors import NumericalError, ResourceError
from longhaul.runs.logs.jsonl import LOG_START, LogMark, LogWriter, Row, encode_row, read_rows
from longhaul.runs.logs.rewind import rewind_log


def write_rows(path: Path, count: int) -> list[LogMark]:
    """Write rows 1 to `count` and return the mark after each, the start included."""
    log = LogWriter(path)
    marks = [log.mark()]
    for iteration in range(1, count + 1):
        log.append(encode_row({"iteration": iteration, "loss": iteration / 7}))
        marks.append(log.mark())
    log.close()
    return marks


def up_to(iteration: int) -> Any:
    return lambda row: row.get("iteration", iteration + 1) <= iteration


def test_a_row_keeps_its_order_and_exact_floats() -> None:
    assert encode_row({"b": 0.1 + 0.2, "a": 1}) == b'{"b":0.30000000000000004,"a":1}\n'


def test_numpy_scalars_are_written_as_plain_numbers() -> None:
    row = {"a": np.float32(0.5), "b": np.int64(3), "c": np.ones(1, bool)[0], "d": np.float64(2)}
    assert json.loads(encode_row(row)) == {"a": 0.5, "b": 3, "c": True, "d": 2.0}


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"fine": 1.0, "train/loss": float("nan")}, "train/loss = nan"),
        ({"a": {"b": [1.0, float("-inf")]}}, "a.b = -inf"),
        ({"a": np.float32("inf")}, "a = inf"),
        ({"a": [[{"b": float("nan")}]]}, "a.b = nan"),
    ],
)
def test_a_number_that_is_not_finite_is_refused_by_name(row: Row, words: str) -> None:
    with pytest.raises(NumericalError, match=words):
        encode_row(row)


def test_what_json_has_not_is_refused() -> None:
    with pytest.raises(TypeError, match="object"):
        encode_row({"a": object()})


def test_a_mark_is_the_length_and_hash_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    marks = write_rows(path, 3)
    output = subprocess.run(["sha256sum", path], capture_output=True, check=True, text=True).stdout
    assert marks[-1] == LogMark(path.stat().st_size, output.split()[0])
    assert marks[0] == LOG_START


def test_a_log_that_is_opened_again_goes_on_with_the_same_hash(tmp_path: Path) -> None:
    write_rows(tmp_path / "whole.jsonl", 4)
    path = tmp_path / "parts.jsonl"
    write_rows(path, 2)
    log = LogWriter(path)
    for iteration in (3, 4):
        log.append(encode_row({"iteration": iteration, "loss": iteration / 7}))
    log.close()
    assert path.read_bytes() == (tmp_path / "whole.jsonl").read_bytes()


def test_a_torn_line_does_not_spoil_the_next_one(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_bytes(b'{"a":1}\n{"a":2')
    log = LogWriter(path)
    log.append(encode_row({"a": 3}))
    log.close()
    found = read_rows(path)
    assert found.rows == [{"a": 1}, {"a": 3}]
    assert found.skipped == 1


def test_the_reader_skips_and_counts_what_is_no_row(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_bytes(b'{"a":1}\n\xff\xfe\n[1]\n\n{"a":2}\n{"a":')
    found = read_rows(path)
    assert found.rows == [{"a": 1}, {"a": 2}]
    assert found.skipped == 4


def test_reading_on_from_the_offset_misses_nothing(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_bytes(b'{"a":1}\n{"a":')
    first = read_rows(path)
    path.write_bytes(b'{"a":1}\n{"a":2}\n')
    assert read_rows(path, first.offset).rows == [{"a": 2}]


def test_a_log_that_is_not_there_has_no_rows(tmp_path: Path) -> None:
    assert read_rows(tmp_path / "none.jsonl").rows == []


def test_rewinding_moves_younger_lines_aside_and_loses_none(tmp_path: Path) -> None:
    path, aside = tmp_path / "log.jsonl", tmp_path / "crash"
    marks = write_rows(path, 5)
    whole = path.read_bytes()
    rewound = rewind_log(path, marks[3], aside, up_to(3))
    assert rewound.problem is None
    assert rewound.set_aside is not None
    assert path.read_bytes() + rewound.set_aside.read_bytes() == whole
    assert len(read_rows(path).rows) == 3


def test_rewinding_to_the_end_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    marks = write_rows(path, 2)
    rewound = rewind_log(path, marks[2], tmp_path / "crash", up_to(2))
    assert (rewound.set_aside, rewound.problem) == (None, None)
    assert not (tmp_path / "crash").exists()


def test_lines_set_aside_twice_are_kept_in_two_files(tmp_path: Path) -> None:
    path, aside = tmp_path / "log.jsonl", tmp_path / "crash"
    for _ in range(2):
        marks = write_rows(path, 2)
        rewind_log(path, marks[0], aside, up_to(0))
    assert sorted(file.name for file in aside.iterdir()) == ["log-1.jsonl", "log-2.jsonl"]


def test_a_missing_log_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    marks = write_rows(path, 2)
    path.unlink()
    problem = rewind_log(path, marks[2], tmp_path / "crash", up_to(2)).problem
    assert problem is not None
    assert "missing" in problem.reason
    assert problem.copy is None


def test_lines_that_slipped_below_the_mark_are_not_doubled(tmp_path: Path) -> None:
    path, aside = tmp_path / "log.jsonl", tmp_path / "crash"
    marks = write_rows(path, 6)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[1:]))
    problem = rewind_log(path, marks[3], aside, up_to(3)).problem
    assert problem is not None
    assert "changed" in problem.reason
    assert [row["iteration"] for row in read_rows(path).rows] == [2, 3]


@settings(max_examples=60)
@given(rows=st.integers(0, 6), data=st.data())
def test_any_cut_or_flip_leaves_whole_lines_and_a_report(rows: int, data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path, aside = Path(folder) / "log.jsonl", Path(folder) / "crash"
        marks = write_rows(path, rows)
        kept = data.draw(st.integers(0, rows))
        whole = path.read_bytes()
        cut = data.draw(st.integers(0, len(whole)))
        broken = bytearray(whole[:cut])
        flipped = data.draw(st.integers(-1, cut - 1))
        if flipped >= 0:
            broken[flipped] ^= 1 << data.draw(st.integers(0, 7))
        path.write_bytes(broken)
        rewound = rewind_log(path, marks[kept], aside, up_to(kept))
        is_intact = broken[: marks[kept].offset] == whole[: marks[kept].offset]
        assert (rewound.problem is None) == is_intact
        found = read_rows(path)
        assert found.skipped == 0
        if is_intact:
            assert path.read_bytes() == whole[: marks[kept].offset]
            expected = bytes(broken[marks[kept].offset :])
        else:
            expected = bytes(broken)
        copies = list(aside.iterdir()) if aside.exists() else []
        assert b"".join(copy.read_bytes() for copy in copies) == expected


FULL_DISK = """
import resource, sys
from pathlib import Path
from longhaul.core.errors import ResourceError
from longhaul.runs.logs.jsonl import LogWriter, encode_row
resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
log = LogWriter(Path(sys.argv[1]))
try:
    for iteration in range(1000):
        log.append(encode_row({"iteration": iteration}))
        log.flush()
except ResourceError as error:
    sys.exit(0 if "free disk space" in str(error) else 1)
sys.exit(2)
"""


def test_a_full_disk_leaves_no_half_line(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    subprocess.run([sys.executable, "-c", FULL_DISK, path], check=True, env=dict(os.environ))
    found = read_rows(path)
    assert found.skipped == 0
    assert 0 < len(found.rows) < 10
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] != 100


def test_an_unwritable_log_is_a_resource_error(tmp_path: Path) -> None:
    (tmp_path / "log.jsonl").mkdir()
    with pytest.raises(ResourceError, match=r"log\.jsonl"):
        LogWriter(tmp_path / "log.jsonl")

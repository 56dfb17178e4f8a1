"""The table of proofs: complete, young, signed, and what a small run writes into it."""

from __future__ import annotations

import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from docs.tools.proof import ROOT, TABLE, Row, choose, is_signed, read_rows, written
from docs.tools.prove import collected, noted, run

OLDEST = 300
"""Commits that may follow the one a row was proved at."""


@pytest.fixture(scope="module")
def table() -> str:
    return TABLE.read_text("utf-8")


@pytest.fixture(scope="module")
def rows(table: str) -> list[Row]:
    return read_rows(table)


def git(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["git", "-C", ROOT, *arguments], capture_output=True, text=True)


def row(number: int, seconds: float = 10.0) -> Row:
    where = ("abcdef0123", "2026-11-19", "a machine, 2 cores")
    return Row(f"tests/test_{number}.py::test_it", "1 passed", "", seconds, *where)


def test_the_table_is_signed(table: str) -> None:
    assert is_signed(table)


def test_no_proof_failed(rows: list[Row]) -> None:
    assert [row.test for row in rows if row.failed] == []


def test_every_named_proof_exists(rows: list[Row]) -> None:
    missing = []
    for row in rows:
        file, _, name = row.test.partition("::")
        path = ROOT / file
        if not path.is_file() or not re.search(
            rf"^(def|class) {name}\b", path.read_text("utf-8"), re.M
        ):
            missing.append(row.test)
    assert not missing


@pytest.mark.thorough
def test_every_test_that_ordinary_runs_leave_out_is_in_the_table(rows: list[Row]) -> None:
    tests = collected()
    assert tests
    assert tests <= {row.test for row in rows}


def test_no_row_is_older_than_300_commits(rows: list[Row]) -> None:
    shallow = git("rev-parse", "--is-shallow-repository")
    if shallow.returncode or shallow.stdout.strip() == "true":
        pytest.skip("without the history a commit has no age")
    for commit in {row.commit for row in rows}:
        assert git("merge-base", "--is-ancestor", commit, "HEAD").returncode == 0, commit
        since = git("rev-list", "--count", f"{commit}..HEAD")
        assert int(since.stdout) <= OLDEST, f"{commit}: run `make prove` again"


def test_a_table_is_read_as_it_was_written() -> None:
    rows = [replace(row(1), figure="a | b 3"), row(2)]
    assert read_rows(written(rows)) == rows


@pytest.mark.parametrize(
    ("before", "after"), [("1 passed", "2 passed"), ("abcdef0123", "abcdef0124"), ("10.0", "9.0")]
)
def test_a_hand_edit_is_found(before: str, after: str) -> None:
    text = written([row(1), row(2)])
    assert is_signed(text)
    assert not is_signed(text.replace(before, after, 1))


def test_a_row_taken_out_is_found() -> None:
    text = written([row(1), row(2)])
    kept = [line for line in text.splitlines() if "test_2" not in line]
    assert not is_signed("\n".join(kept))


def test_a_slice_keeps_to_its_time_and_the_commit_decides() -> None:
    rows = [row(number, float(number)) for number in range(40)]
    slices = [choose(rows, f"commit {number}", 100.0) for number in range(60)]
    assert all(sum(row.seconds for row in chosen) <= 100.0 for chosen in slices)
    assert choose(rows[::-1], "commit 7", 100.0) == slices[7]
    assert {row.test for chosen in slices for row in chosen} == {row.test for row in rows}


SMALL = """
import pytest

@pytest.mark.slow
@pytest.mark.parametrize("case", ["good", "bad", "left out"])
def test_cases(case, record_property):
    record_property("share", 0.25)
    if case == "left out":
        pytest.skip("there is no lamp")
    assert case == "good"

@pytest.mark.browser
@pytest.mark.measures
def test_a_page():
    pass

class TestContract:
    @pytest.mark.slow
    def test_one(self):
        pass

    @pytest.mark.slow
    def test_another(self):
        pass

def test_of_an_ordinary_run():
    raise AssertionError
"""
MARKED = "[pytest]\nmarkers =\n  slow\n  browser\n  oracle\n  measures\n"


@pytest.fixture
def small(tmp_path: Path) -> Path:
    (tmp_path / "pytest.ini").write_text(MARKED)
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_small.py").write_text(SMALL)
    return tmp_path


def ran(root: Path, *tests: str, last_start: float = 600.0) -> dict[str, Row]:
    rows = noted(run(tests, last_start, root), "abcdef0123")
    return {row.test.partition("::")[2]: row for found in rows for row in found}


def test_a_run_notes_what_passed_what_failed_and_why_something_did_not_run(small: Path) -> None:
    rows = ran(small, "tests/test_small.py")
    assert rows.keys() == {"test_cases", "test_a_page", "TestContract"}
    assert rows["test_a_page"].result == "1 passed"
    assert rows["TestContract"].result == "2 passed"
    cases = rows["test_cases"]
    assert cases.result == "1 failed, 1 passed, 1 not run: there is no lamp"
    assert cases.figure == "share[good] 0.25; share[bad] 0.25; share[left out] 0.25"
    assert cases.failed
    assert cases.commit == "abcdef0123"


def test_only_the_named_proofs_of_a_file_run(small: Path) -> None:
    assert ran(small, "tests/test_small.py::test_a_page").keys() == {"test_a_page"}


def test_a_file_that_ends_the_interpreter_has_failed(small: Path) -> None:
    crash = "import os, pytest\n@pytest.mark.slow\ndef test_it():\n    os._exit(7)\n"
    (small / "tests" / "test_small.py").write_text(crash)
    (row,) = ran(small, "tests/test_small.py").values()
    assert row.result == "1 failed: exit code 7"


def test_a_file_does_not_begin_when_the_time_is_over(small: Path) -> None:
    (row,) = ran(small, "tests/test_small.py::test_cases", last_start=-1.0).values()
    assert row.result == "1 not run: no time was left"

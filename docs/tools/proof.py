"""The table of the proofs, `docs/internal/proof.md`: read, signed and written."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import astuple, dataclass
from pathlib import Path
from random import Random

from docs.tools.wording import table

ROOT = Path(__file__).resolve().parents[2]
TABLE = ROOT / "docs" / "internal" / "proof.md"
COLUMNS = ("test", "result", "figure", "seconds", "commit", "date", "machine")
ROW = re.compile(r"^\| `tests/.*\|$", re.MULTILINE)
SIGNED = re.compile(r"^Digest of the rows: `([0-9a-f]{64})`$", re.MULTILINE)
PASSED, FAILED, NOT_RUN = "passed", "failed", "not run"
HEAD = "<!-- Written by `make prove`. The digest shows a change made here. -->\n\n# What was proved"
INTRODUCTION = """\
What ordinary test runs leave out: the tests that take minutes, the page in a real browser, and the
console beside other people's. `make prove` runs them all, `make prove ARGS="tests/FILE.py"` some,
and `.ci/run` a slice that its commit chooses. A row is one test function or contract, the figures
it measured, and the commit, day and kind of machine of that run. What a row says never ran yet is
not proved."""


@dataclass(frozen=True, slots=True)
class Row:
    """One test function and its last run."""

    test: str
    result: str
    figure: str
    seconds: float
    commit: str
    date: str
    machine: str

    @property
    def failed(self) -> bool:
        """Whether a case failed."""
        return FAILED in self.result


def read_rows(text: str) -> list[Row]:
    """Return the rows of a written table."""
    found = []
    for line in ROW.findall(text):
        cells = [cell.strip().replace("&#124;", "|") for cell in line.strip("|").split(" | ")]
        test, result, figure, seconds, *where = cells
        found.append(Row(test.strip("`"), result, figure, float(seconds), *where))
    return found


def digest(rows: Iterable[Row]) -> str:
    """Return the digest over all rows, commits included."""
    return hashlib.sha256("\n".join(repr(astuple(row)) for row in rows).encode()).hexdigest()


def is_signed(text: str) -> bool:
    """Whether the digest under a table is that of its rows."""
    return SIGNED.findall(text) == [digest(read_rows(text))]


def written(rows: Iterable[Row]) -> str:
    """Return the page that holds these rows."""
    ordered = sorted(rows, key=lambda row: row.test)
    cells = [(f"`{row.test}`", *map(str, astuple(row)[1:])) for row in ordered]
    blocks = (HEAD, INTRODUCTION, table(COLUMNS, cells), f"Digest of the rows: `{digest(ordered)}`")
    return "\n\n".join(blocks) + "\n"


def choose(rows: Iterable[Row], commit: str, seconds: float) -> list[Row]:
    """Return rows that together take at most `seconds`; the commit decides which."""
    order = sorted(rows, key=lambda row: row.test)
    Random(commit).shuffle(order)
    chosen = []
    for row in order:
        if row.seconds <= seconds:
            chosen.append(row)
            seconds -= row.seconds
    return chosen

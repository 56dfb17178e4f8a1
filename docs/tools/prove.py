"""Run the tests that ordinary runs leave out, and write what came out into the table of proofs.

`python -m docs.tools.prove [TEST ...]` runs all of them, or those given, and writes each row when
its test ends. With `--slice` it runs some that the commit chooses, within ten minutes, and writes
nothing.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import pytest
from docs.tools.proof import NOT_RUN, TABLE, Row, choose, read_rows, written
from docs.tools.zoo import head

from longhaul.core.errors import LonghaulError
from longhaul.core.system import cores, processor

PROOFS = "slow or browser or oracle"
"""The marks of the tests that ordinary runs leave out."""
SECURITY = "tests/web/test_injection.py"
"""Part of every slice."""
SLICE_SECONDS = 400
"""What a slice may take by the table; a slower machine has half as much again."""
LAST_START = 570
"""After so many seconds no further test of a slice begins."""
SOURCES = ("src", "tests", "benchmarks", "docs/tools", "pyproject.toml", "constraints.txt")


@dataclass(slots=True)
class Outcome:
    """What pytest reported of one test function."""

    cases: dict[str, str] = field(default_factory=dict)
    reasons: set[str] = field(default_factory=set)
    figures: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0

    def add(self, report: pytest.TestReport) -> None:
        """Take in one phase of one case; a phase that passed changes no earlier result."""
        self.seconds += report.duration
        case = "".join(report.nodeid.partition("[")[1:])
        self.figures |= {f"{name}{case}": str(value) for name, value in report.user_properties}
        if report.outcome != "passed" or report.nodeid not in self.cases:
            self.cases[report.nodeid] = NOT_RUN if report.skipped else report.outcome
        if report.skipped and isinstance(report.longrepr, tuple):
            self.reasons.add(report.longrepr[2].removeprefix("Skipped: "))

    @property
    def result(self) -> str:
        """How many cases passed, failed or did not run, and why not."""
        counts = Counter(self.cases.values())
        known = [f"{counts[one]} {one}" for one in ("failed", "passed", NOT_RUN) if counts[one]]
        return ", ".join(known) + (f": {'; '.join(sorted(self.reasons))}" if self.reasons else "")

    @property
    def figure(self) -> str:
        """The figures that the cases recorded."""
        return "; ".join(f"{name} {value}" for name, value in self.figures.items())


def proof_of(case: str) -> str:
    """Return the test function of a case, or the class that runs a contract."""
    return "::".join(case.partition("[")[0].split("::")[:2])


class Proofs:
    """A plugin of pytest: collects the outcomes, and writes the table after each test."""

    def __init__(self, table: Path | None, commit: str, last_start: float = float("inf")) -> None:
        self.table = table
        self.commit = commit
        self.last_start = time.monotonic() + last_start
        self.rows: dict[str, Row] = {}
        self._outcomes: dict[str, Outcome] = {}
        self._machine = f"{processor()}, {cores()} cores"

    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Skip what would begin too late."""
        if time.monotonic() > self.last_start:
            pytest.skip("the time of the slice is over")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take in a phase; at the end of a case, write the row of its function."""
        name = proof_of(report.nodeid)
        outcome = self._outcomes.setdefault(name, Outcome())
        outcome.add(report)
        if report.when != "teardown":
            return
        day = datetime.now(UTC).date().isoformat()
        measured = (outcome.result, outcome.figure, round(outcome.seconds, 1))
        self.rows[name] = Row(name, *measured, self.commit, day, self._machine)
        if self.table is not None:
            before = read_rows(self.table.read_text("utf-8")) if self.table.exists() else []
            rows = {row.test: row for row in before} | self.rows
            self.table.write_text(written(rows.values()), encoding="utf-8")


def run(tests: Iterable[str], proofs: Proofs, *options: str) -> int:
    """Run these tests one after the other; return pytest's exit code."""
    sys.stdout.flush()
    return int(pytest.main(["-n", "0", "-m", PROOFS, *options, *tests], plugins=[proofs]))


def prove(tests: Sequence[str]) -> int:
    """Run the given proofs, or all; of all, rows of tests that are gone are dropped."""
    proofs = Proofs(TABLE, head(*SOURCES))
    code = run(tests or ["tests"], proofs)
    if not tests:
        TABLE.write_text(written(proofs.rows.values()), encoding="utf-8")
    return code


def prove_slice() -> int:
    """Run the security tests and the proofs that the commit chooses, and print both."""
    commit = head()
    known = read_rows(TABLE.read_text("utf-8"))
    always = [row for row in known if row.test.startswith(SECURITY)]
    left = SLICE_SECONDS - sum(row.seconds for row in always)
    chosen = choose([row for row in known if row not in always], commit, left)
    expected = sum(row.seconds for row in always + chosen)
    count = f"{len(always) + len(chosen)} of {len(known)} proofs"
    sys.stdout.write(f"The slice of commit {commit}: {count}, {expected:.0f} s by the table\n")
    for row in always + chosen:
        sys.stdout.write(f"{row.seconds:7.1f} s  {row.test}\n")
    tests = [SECURITY, *(row.test for row in chosen)]
    return run(tests, Proofs(None, commit, LAST_START), "--durations=5")


def main() -> None:
    """Read the arguments, run the proofs and print how long they took."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tests", nargs="*", help="files or tests; default: all")
    parser.add_argument("--slice", action="store_true", help="some, in at most ten minutes")
    asked = parser.parse_args()
    begun = time.monotonic()
    try:
        code = prove_slice() if asked.slice else prove(asked.tests)
    except LonghaulError as error:
        sys.exit(str(error))
    sys.stdout.write(f"Proofs took {time.monotonic() - begun:.0f} s\n")
    sys.exit(code)


if __name__ == "__main__":
    main()

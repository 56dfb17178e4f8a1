"""Run the tests that ordinary runs leave out, and write what came out into the table of proofs.

`python -m docs.tools.prove [TEST ...]` runs all of them, or those given, and writes the rows of
each file when it ends. With `--slice` it runs some that the commit chooses, within ten minutes, and
writes nothing. With `--list` it runs none, and gives each test without a row one that says it was
never run. Each file has a separate process. As many files run at once as there are cores, and
after them, alone, the tests that measure time or memory.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from docs.tools.proof import FAILED, NOT_RUN, PASSED, ROOT, TABLE, Row, choose, read_rows, written
from docs.tools.zoo import head

from longhaul.core.errors import LonghaulError
from longhaul.core.system import cores, processor

MARKS = ("slow", "browser", "oracle")
PROOFS = " or ".join(MARKS)
"""The tests that ordinary runs leave out, or skip for want of what only `make prove` installs."""
MEASURES = "measures"
"""The mark of tests that need the machine alone."""
SECURITY = "tests/web/test_injection.py"
"""Part of every slice."""
SLICE_SECONDS = 360
"""What a slice may take by the table, one test after the other."""
LAST_START = 420
"""After so many seconds no further file of a slice begins."""
FILE_SECONDS = 3600
"""A file that takes longer is ended, and has failed."""
SOURCES = ("src", "tests", "benchmarks", "docs/tools", "pyproject.toml", "constraints.txt")
SEEN = {"failure": FAILED, "error": FAILED, "skipped": NOT_RUN}
"""What a part of a case in pytest's report means."""
NEVER = f"1 {NOT_RUN}: never yet"
"""The result of a test that has a row and no run."""
NO_TESTS = 5
"""Pytest's exit code when nothing is selected."""


@dataclass(slots=True)
class Outcome:
    """What became of one test function, or of one contract."""

    cases: Counter[str] = field(default_factory=Counter)
    reasons: set[str] = field(default_factory=set)
    figures: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def add(self, case: ET.Element) -> None:
        """Take in one case as pytest reports it."""
        self.seconds += float(case.get("time", "0"))
        result = next((SEEN[part.tag] for part in case if part.tag in SEEN), PASSED)
        self.cases[result] += 1
        self.reasons |= {part.get("message", "") for part in case.iter("skipped")}
        variant = "".join(case.get("name", "").partition("[")[1:])
        for one in case.iter("property"):
            self.figures.append(f"{one.get('name')}{variant} {one.get('value')}")

    @property
    def result(self) -> str:
        """How many cases passed, failed or did not run, and why not."""
        known = (one for one in (FAILED, PASSED, NOT_RUN) if one in self.cases)
        counts = ", ".join(f"{self.cases[one]} {one}" for one in known)
        return counts + (f": {'; '.join(sorted(self.reasons))}" if self.reasons else "")


def outcomes(report: ET.Element, file: str) -> dict[str, Outcome]:
    """Return what a report of pytest says of each test function, or contract, of a file."""
    found: dict[str, Outcome] = {}
    module = file.removesuffix(".py").replace("/", ".")
    for case in report.iter("testcase"):
        contract = case.get("classname", "").removeprefix(module).strip(".")
        name = contract or case.get("name", "").partition("[")[0]
        found.setdefault(f"{file}::{name}", Outcome()).add(case)
    return found


def run_file(tests: Sequence[str], marks: str, root: Path = ROOT) -> dict[str, Outcome]:
    """Run tests of one file in a process; a process without a report is a failure of the file."""
    file = tests[0].partition("::")[0]
    # The newer family of reports has no place for what a test measured.
    family = ("-o", "junit_family=xunit1")
    command = [sys.executable, "-m", "pytest", "-n", "0", *family, "-m", marks, *tests]
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        done = subprocess.run(
            ["timeout", str(FILE_SECONDS), *command, f"--junitxml={report}"],
            cwd=root, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, errors="replace",
        )  # fmt: skip
        found = outcomes(ET.parse(report).getroot(), file) if report.exists() else {}
    if done.returncode not in (0, NO_TESTS):
        sys.stdout.write(done.stdout)
        if not any(FAILED in one.cases for one in found.values()):
            found[file] = Outcome(Counter({FAILED: 1}), {f"exit code {done.returncode}"})
    return found


def run(
    tests: Iterable[str], last_start: float = float("inf"), root: Path = ROOT
) -> Iterator[dict[str, Outcome]]:
    """Run proofs, the measuring ones alone at the end; yield the outcomes of each file."""
    files: dict[str, list[str]] = {}
    for test in tests:
        files.setdefault(test.partition("::")[0], []).append(test)
    last = time.monotonic() + last_start

    def start(chosen: Sequence[str], marks: str) -> dict[str, Outcome]:
        if time.monotonic() > last:
            return {test: Outcome(Counter({NOT_RUN: 1}), {"no time was left"}) for test in chosen}
        return run_file(chosen, f"({PROOFS}) and {marks}", root)

    with ThreadPoolExecutor(cores()) as pool:
        yield from pool.map(lambda chosen: start(chosen, f"not {MEASURES}"), files.values())
    for file, chosen in files.items():
        if f"mark.{MEASURES}" in (root / file).read_text("utf-8"):
            yield start(chosen, MEASURES)


def noted(outcomes: Iterable[dict[str, Outcome]], commit: str) -> Iterator[list[Row]]:
    """Yield the rows of each file, and print them."""
    machine = f"{processor()}, {cores()} cores"
    for found in outcomes:
        day = datetime.now(UTC).date().isoformat()
        rows = [
            Row(
                name,
                one.result,
                "; ".join(one.figures),
                round(one.seconds, 1),
                commit,
                day,
                machine,
            )
            for name, one in found.items()
        ]
        for row in rows:
            line = f"{row.seconds:7.1f} s  {row.test}: {row.result}"
            sys.stdout.write(f"{line}; {row.figure}\n" if row.figure else f"{line}\n")
        sys.stdout.flush()
        yield rows


def known_rows(table: Path = TABLE) -> list[Row]:
    """Return the rows of the table as it is."""
    return read_rows(table.read_text("utf-8")) if table.exists() else []


def proof_files() -> list[str]:
    """Return the files with tests that ordinary runs leave out, the longest first."""
    seconds: Counter[str] = Counter()
    for row in known_rows():
        # What never ran may take long.
        took = FILE_SECONDS if row.result == NEVER else round(row.seconds)
        seconds[row.test.partition("::")[0]] += took
    marked = tuple(f"mark.{mark}" for mark in MARKS)
    found = (
        path.relative_to(ROOT).as_posix()
        for path in sorted((ROOT / "tests").rglob("test_*.py"))
        if any(mark in path.read_text("utf-8") for mark in marked)
    )
    return sorted(found, key=lambda file: -seconds[file])


def collected() -> set[str]:
    """Return every test function, or contract, that ordinary runs leave out."""
    command = [sys.executable, "-m", "pytest", "-o", "addopts=", "--collect-only", "-q"]
    found = subprocess.run(
        [*command, "-m", PROOFS], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return {
        "::".join(line.partition("[")[0].split("::")[:2])
        for line in found.stdout.splitlines()
        if line.startswith("tests/")
    }


def list_proofs() -> int:
    """Give each test without a row one that says it was never run; return how many there were."""
    known, tests = known_rows(), collected()
    kept = [row for row in known if row.test in tests]
    day, machine = datetime.now(UTC).date().isoformat(), f"{processor()}, {cores()} cores"
    missing = sorted(tests - {row.test for row in kept})
    added = [Row(test, NEVER, "", 0.0, head(*SOURCES), day, machine) for test in missing]
    TABLE.write_text(written([*kept, *added]), encoding="utf-8")
    return len(added)


def prove(tests: Sequence[str]) -> bool:
    """Run the given proofs, or all, and return whether none failed; all replace the table."""
    proved: list[Row] = []
    kept = {row.test: row for row in known_rows()}
    for rows in noted(run(tests or proof_files()), head(*SOURCES)):
        proved += rows
        # A file whose process broke off has a separate row until its tests run.
        for row in rows:
            kept.pop(row.test.partition("::")[0], None)
        kept |= {row.test: row for row in rows}
        TABLE.write_text(written(kept.values()), encoding="utf-8")
    if not tests:
        TABLE.write_text(written(proved), encoding="utf-8")
    return not any(row.failed for row in proved)


def prove_slice() -> bool:
    """Run the security tests and the proofs that the commit chooses; return whether none failed."""
    # The time of a proof that never ran is not known.
    commit, known = head(), [row for row in known_rows() if row.result != NEVER]
    always = [row for row in known if row.test.startswith(SECURITY)]
    left = SLICE_SECONDS - sum(row.seconds for row in always)
    chosen = [*always, *choose([row for row in known if row not in always], commit, left)]
    seconds = sum(row.seconds for row in chosen)
    sys.stdout.write(
        f"The slice of commit {commit}: {len(chosen)} of {len(known)} proofs, {seconds:.0f} s by "
        f"the table; {sum(row.seconds > left for row in known)} are too long for any slice\n"
    )
    ran = noted(run([row.test for row in chosen], LAST_START), commit)
    return not [row.test for rows in ran for row in rows if row.failed]


def main() -> None:
    """Read the arguments, run the proofs and print how long they took."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tests", nargs="*", help="files or tests; default: all")
    parser.add_argument("--slice", action="store_true", help="some, in at most ten minutes")
    parser.add_argument(
        "--list", action="store_true", help="none; add rows of tests that never ran"
    )
    asked = parser.parse_args()
    begun = time.monotonic()
    if asked.list:
        sys.stdout.write(f"{list_proofs()} tests were never run\n")
        return
    try:
        good = prove_slice() if asked.slice else prove(asked.tests)
    except LonghaulError as error:
        sys.exit(str(error))
    end = "No proof failed" if good else "Proofs failed"
    sys.stdout.write(f"{end}; they took {time.monotonic() - begun:.0f} s\n")
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()

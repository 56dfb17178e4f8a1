"""`python -m tests.durability.simulation --seeds 10000`: live through many histories and report.

`--seed N` lives through one history, the same every time, and prints what happened in it.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

from longhaul.app.build.text import columns
from tests.durability.power import scratch
from tests.durability.simulation.history import History, simulate, undisturbed
from tests.durability.simulation.planted import BUGS


def table(histories: list[History]) -> str:
    """Return what was injected and what came of it."""
    faults = sum((history.faults for history in histories), Counter())
    rows = [(fault, f"{count:,}") for fault, count in faults.most_common()]
    exact = sum(history.is_exact for history in histories)
    said = Counter(history.said.partition(":")[0] for history in histories if history.said)
    return (
        f"{columns(rows, header=('fault', 'times'))}\n\n"
        f"{len(histories):,} histories, {exact:,} of them to be exact; {faults.total():,} faults, "
        f"{sum(history.sessions for history in histories):,} sessions, "
        f"{sum(history.steps for history in histories):,} steps, "
        f"{sum(history.lost for history in histories):,} of them reported as lost; "
        f"{said.total()} ended in words"
    )


def until_found(histories: Iterator[History], bug: str | None) -> Iterator[History]:
    """Yield histories, and none after the first in which a planted bug is found."""
    for history in histories:
        yield history
        if bug and history.violation:
            return


def main() -> None:
    """Simulate and print; the exit code is 1 if anything happened that must not."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10_000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int, help="only this history, in detail")
    parser.add_argument("--bug", choices=sorted(BUGS), help="plant it, and stop when it is found")
    given = parser.parse_args()
    seeds = range(given.first, given.first + given.seeds)
    if given.seed is not None:
        seeds = range(given.seed, given.seed + 1)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="longhaul-simulation-", dir=scratch()) as name:
        expected = undisturbed(Path(name))
        with BUGS[given.bug]() if given.bug else nullcontext():
            histories = list(until_found(simulate(seeds, Path(name), expected), given.bug))
    sys.stdout.write(f"{table(histories)} in {time.monotonic() - began:.0f} s\n")
    bad = [history for history in histories if history.violation]
    for history in bad:
        sys.stdout.write(
            f"seed {history.seed}: {history.violation}\n"
            f"    again: python -m tests.durability.simulation --seed {history.seed}\n"
        )
    sys.exit(bool(bad))


if __name__ == "__main__":
    main()

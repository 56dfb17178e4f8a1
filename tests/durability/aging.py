"""What a trainer gathers as it ages: memory over thousands of quick iterations, and where it is.

`python -m tests.durability.aging --iterations 6000` trains the soak's run at full speed, in this
process, and prints resident memory and what Python holds after every tenth of it, then the lines
of code whose allocations grew most in the second half.
"""

from __future__ import annotations

import argparse
import gc
import sys
import tempfile
import tracemalloc
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from longhaul.app.build.config import SessionOptions
from longhaul.app.build.sources import ConfigSources, resolve
from longhaul.app.build.text import columns
from longhaul.app.session.run import run_session
from longhaul.app.session.start import begin_run
from longhaul.runs.recorder import Recorder
from tests.durability.doing import instead
from tests.durability.paced_cartpole import ID
from tests.durability.power import scratch
from tests.durability.soak import CONFIG

LOOKS = 10


@dataclass(frozen=True)
class Look:
    """What was held after so many iterations."""

    iteration: int
    resident: int
    traced: int
    """Bytes that Python objects hold; 0 if that was not asked for."""


class Aging:
    """Looks at the memory of this process now and then."""

    def __init__(self, iterations: int) -> None:
        self.looks: list[Look] = []
        self.halfway: tracemalloc.Snapshot | None = None
        self._every = max(1, iterations // LOOKS)
        self._half = iterations // 2
        self._process = psutil.Process()

    def look(self, iteration: int) -> None:
        """Note what is held, if it is time to."""
        if iteration % self._every:
            return
        gc.collect()
        traced = tracemalloc.get_traced_memory()[0] if tracemalloc.is_tracing() else 0
        self.looks.append(Look(iteration, self._process.memory_info().rss, traced))
        if tracemalloc.is_tracing() and iteration >= self._half and self.halfway is None:
            self.halfway = tracemalloc.take_snapshot()

    def growth(self) -> list[str]:
        """Return the lines of code that hold most since halfway."""
        if self.halfway is None:
            return []
        return [
            f"{found.size_diff / 1024:+,.0f} KB in {found.count_diff:+,}: {found.traceback}"
            for found in tracemalloc.take_snapshot().compare_to(self.halfway, "lineno")[:12]
        ]


def age(iterations: int, overrides: Sequence[str] = (), *, traced: bool = False) -> Aging:
    """Train for so many iterations and return what was seen."""
    aging = Aging(iterations)
    record = Recorder.record

    def record_and_look(recorder: Recorder, view: Any, *given: Any) -> Any:
        found = record(recorder, view, *given)
        aging.look(view.progress.iteration)
        return found

    given = (f"total_iterations={iterations}", "report.at_end=false", *overrides)
    config = resolve(ConfigSources(f"gym:{ID}", file=CONFIG, overrides=given))
    if traced:
        tracemalloc.start()
    with (
        tempfile.TemporaryDirectory(dir=scratch()) as folder,
        instead((Recorder, "record", record_and_look)),
    ):
        run = begin_run(config, Path(folder)).directory
        run_session(run, config, SessionOptions(quiet=True))
        return aging


def main() -> None:
    """Train and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--iterations", type=int, default=6000)
    parser.add_argument("--trace", action="store_true", help="also say where; several times slower")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    given = parser.parse_args()
    aging = age(given.iterations, given.set, traced=given.trace)
    rows = [
        (str(look.iteration), f"{look.resident / 2**20:.1f}", f"{look.traced / 2**20:.2f}")
        for look in aging.looks
    ]
    table = columns(rows, header=("iteration", "resident MB", "traced MB"))
    sys.stdout.write("\n".join([table, "", *aging.growth(), ""]))


if __name__ == "__main__":
    main()

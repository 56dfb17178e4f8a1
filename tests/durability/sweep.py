"""Kills a command at every point where it changes a file, once and twice in a row.

`python -m tests.durability.sweep` finds the points by watching one undisturbed run: each is a
stage, a function of longhaul, an operation and a file. A kill is a SIGKILL right before or right
after the operation. The second kill hits a change that the recovery makes. Every run must then end
as the undisturbed one. `--workload` chooses what is killed: trainings of several kinds, `explore`,
or `search`, of which the points are those of its own files.
"""

from __future__ import annotations

import argparse
import itertools
import random
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from longhaul.app.build.text import columns
from tests.durability.child import AFTER, BEFORE, Children, Order, children
from tests.durability.digests import differing
from tests.durability.power import scratch
from tests.durability.workload import WORKLOADS

KILLED = -9
RECOVERY_CHANGES = 90
"""Changes of a recovery among which the second kills are spread."""


@dataclass(frozen=True)
class Kill:
    """One killed run: the points it was killed at, and what differed in the end."""

    workload: str
    points: tuple[str, ...]
    moment: int
    problem: str


@dataclass(frozen=True)
class Sweeper:
    """Kills runs of one workload and compares them with the undisturbed one."""

    crew: Children
    folder: Path
    workload: str
    expected: dict[str, str]
    points: Counter[str]
    """Occurrences of each point in the undisturbed run."""

    @classmethod
    def of(cls, crew: Children, folder: Path, workload: str) -> Sweeper:
        """Watch an undisturbed run."""
        world = folder / f"undisturbed-{workload}"
        world.mkdir()
        passed = folder / f"points-{workload}"
        if code := crew.work(Order(str(world), workload, points=str(passed))):
            raise RuntimeError(f"the undisturbed run ended with {code}: {crew.last_error()}")
        points = Counter(passed.read_text().splitlines())
        if WORKLOADS[workload].command == "search":
            # What its trials write is killed in the trainings.
            points = Counter({one: points[one] for one in points if one.startswith("search")})
        return cls(crew, folder, workload, WORKLOADS[workload].outcome(world), points)

    def kill(self, point: str, occurrence: int, moment: int, second: int = 0) -> Kill:
        """Kill at a point, perhaps again after so many changes of the recovery, and go on."""
        world = self.folder / "killed"
        world.mkdir()
        try:
            kills = [(point, occurrence, moment), *([("", second, moment)] if second else [])]
            hit: list[str] = []
            for kill in kills:
                passed = self.folder / "passed"
                passed.unlink(missing_ok=True)
                code = self.crew.work(Order(str(world), self.workload, kill, points=str(passed)))
                if code != KILLED:
                    missed = "" if hit and not code else point
                    return Kill(self.workload, (*hit, "not reached"), moment, missed)
                hit.append(passed.read_text().splitlines()[-1])
            return Kill(self.workload, tuple(hit), moment, self.go_on(world))
        finally:
            shutil.rmtree(world)

    def go_on(self, world: Path) -> str:
        """Start the same command again; return what differs in the end."""
        if code := self.crew.work(Order(str(world), self.workload)):
            return f"exit {code}: {self.crew.last_error()}"
        return ", ".join(differing(self.expected, WORKLOADS[self.workload].outcome(world)))

    def plan(self, seed: int) -> Iterator[tuple[str, int]]:
        """Yield every point with one of its occurrences."""
        chance = random.Random(seed)
        for point, count in self.points.items():
            is_timed = point.startswith("beside")
            yield point, 1 if is_timed else chance.randint(1, count)


def sweep(sweeper: Sweeper, points: Sequence[tuple[str, int]]) -> Iterator[Kill]:
    """Kill at all of these points, before and after, once and twice."""
    seconds = itertools.cycle(range(1, RECOVERY_CHANGES))
    for point, occurrence in points:
        for moment in (BEFORE, AFTER):
            yield sweeper.kill(point, occurrence, moment)
            yield sweeper.kill(point, occurrence, moment, second=next(seconds))


def table(kills: Sequence[Kill]) -> str:
    """Return points and runs by workload and stage, of first and of second kills."""
    rows = []
    for workload in dict.fromkeys(kill.workload for kill in kills):
        for title, number in (("first kill", 0), ("second kill", 1)):
            hit = [k.points[number] for k in kills if k.workload == workload and k.points[number:]]
            hit = [point for point in hit if point != "not reached"]
            runs = Counter(point.split(":")[0] for point in hit)
            points = Counter(point.split(":")[0] for point in set(hit))
            rows += [
                (workload, title, stage, str(points[stage]), str(runs[stage]))
                for stage in sorted(runs)
            ]
            rows.append((workload, title, "all", str(points.total()), str(runs.total())))
    return columns(rows, header=("workload", "", "stage", "points", "runs"))


def main() -> None:
    """Sweep and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--points", type=int, default=0, help="only so many of each, at random")
    parser.add_argument("--workload", action="append", choices=WORKLOADS, help="default: all")
    given = parser.parse_args()
    kills: list[Kill] = []
    with tempfile.TemporaryDirectory(prefix="longhaul-sweep-", dir=scratch()) as name:
        folder = Path(name)
        # Ctrl-C ends a sweep with the table of what was done.
        with suppress(KeyboardInterrupt), children(folder) as crew:
            for workload in given.workload or WORKLOADS:
                sweeper = Sweeper.of(crew, folder, workload)
                points = list(sweeper.plan(given.seed))
                if given.points:
                    points = random.Random(given.seed).sample(points, given.points)
                kills.extend(sweep(sweeper, points))
    wrong = [kill for kill in kills if kill.problem]
    covered = {(kill.workload, kill.points[0]) for kill in kills if kill.points[0] != "not reached"}
    sys.stdout.write(
        f"{table(kills)}\n\n{len(covered)} points covered, {len(kills)} runs compared, "
        f"{len(wrong)} not as undisturbed\n"
    )
    for kill in wrong:
        when = "after" if kill.moment else "before"
        at = ", then ".join(kill.points)
        sys.stdout.write(f"{kill.workload}, {when} {at}: {kill.problem}\n")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()

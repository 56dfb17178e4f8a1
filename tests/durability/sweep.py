"""Kills a training at every point where it changes a file, once and twice in a row.

`python -m tests.durability.sweep` finds the points by watching one undisturbed run: each is a
stage, a function of longhaul, an operation and a file. A kill is a SIGKILL right before or right
after the operation. The second kill hits a change that the recovery makes. Every run must then end
as the undisturbed one.
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
from dataclasses import dataclass
from pathlib import Path

from longhaul.app.build.text import columns
from tests.durability.child import AFTER, BEFORE, Children, Order, children
from tests.durability.digests import differing
from tests.durability.power import scratch
from tests.durability.workload import SHORT, TASK, outcome, runs_in

KILLED = -9
RECOVERY_CHANGES = 90
"""Changes of a recovery among which the second kills are spread."""


@dataclass(frozen=True)
class Kill:
    """One killed run: the points it was killed at, and what differed in the end."""

    points: tuple[str, ...]
    moment: int
    problem: str


@dataclass(frozen=True)
class Sweeper:
    """Kills runs of one workload and compares them with the undisturbed one."""

    crew: Children
    folder: Path
    expected: dict[str, str]
    points: Counter[str]
    """Occurrences of each point in the undisturbed run."""

    @classmethod
    def of(cls, crew: Children, folder: Path) -> Sweeper:
        """Watch an undisturbed run."""
        world = folder / "undisturbed"
        world.mkdir()
        passed = folder / "points"
        if code := crew.train(Order(str(world), TASK, SHORT, points=str(passed))):
            raise RuntimeError(f"the undisturbed run ended with {code}: {crew.last_error()}")
        points = Counter(passed.read_text().splitlines())
        return cls(crew, folder, outcome(runs_in(world)[-1]), points)

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
                code = self.crew.train(Order(str(world), TASK, SHORT, kill, points=str(passed)))
                if code != KILLED:
                    return Kill((*hit, "not reached"), moment, "" if hit and not code else point)
                hit.append(passed.read_text().splitlines()[-1])
            return Kill(tuple(hit), moment, self.go_on(world))
        finally:
            shutil.rmtree(world)

    def go_on(self, world: Path) -> str:
        """Start the same command again; return what differs in the end."""
        if code := self.crew.train(Order(str(world), TASK, SHORT)):
            return f"exit {code}: {self.crew.last_error()}"
        return ", ".join(differing(self.expected, outcome(runs_in(world)[-1])))

    def plan(self, seed: int) -> Iterator[tuple[str, int]]:
        """Yield every point with one of its occurrences."""
        chance = random.Random(seed)
        for point, count in self.points.items():
            is_timed = point.startswith("beside")
            yield point, 1 if is_timed else chance.randint(1, count)


def sweep(sweeper: Sweeper, points: Sequence[tuple[str, int]]) -> list[Kill]:
    """Kill at all of these points, before and after, once and twice."""
    seconds = itertools.cycle(range(1, RECOVERY_CHANGES))
    kills = []
    for point, occurrence in points:
        for moment in (BEFORE, AFTER):
            kills.append(sweeper.kill(point, occurrence, moment))
            kills.append(sweeper.kill(point, occurrence, moment, second=next(seconds)))
    return kills


def table(kills: Sequence[Kill]) -> str:
    """Return points and runs by stage, of first and of second kills."""
    rows = []
    for title, number in (("first kill", 0), ("second kill", 1)):
        hit = [kill.points[number] for kill in kills if len(kill.points) > number]
        hit = [point for point in hit if point != "not reached"]
        runs = Counter(point.split(":")[0] for point in hit)
        points = Counter(point.split(":")[0] for point in set(hit))
        rows += [(title, stage, str(points[stage]), str(runs[stage])) for stage in sorted(runs)]
        rows.append((title, "all", str(points.total()), str(runs.total())))
    return columns(rows, header=("", "stage", "points", "runs"))


def main() -> None:
    """Sweep and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--points", type=int, default=0, help="only so many, at random")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="longhaul-sweep-", dir=scratch()) as name:
        folder = Path(name)
        with children(folder) as crew:
            sweeper = Sweeper.of(crew, folder)
            points = list(sweeper.plan(given.seed))
            if given.points:
                points = random.Random(given.seed).sample(points, given.points)
            kills = sweep(sweeper, points)
    wrong = [kill for kill in kills if kill.problem]
    sys.stdout.write(f"{table(kills)}\n\n{len(kills)} runs, {len(wrong)} not as undisturbed\n")
    for kill in wrong:
        when = "after" if kill.moment else "before"
        sys.stdout.write(f"{when} {', then '.join(kill.points)}: {kill.problem}\n")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()

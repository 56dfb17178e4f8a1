"""Cuts the power of a recorded command at many moments and lets each remainder go on.

`python -m tests.durability.lost_writes --cuts 300` prints what became of every kind of cut. A run
must go on from the last checkpoint it had reported as saved, or a newer one, and end as the
undisturbed run, or say what was lost. `--workload` chooses the command; the cuts are shared out
among all by default.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from longhaul.app.build.text import columns
from tests.durability.child import Children, Order, children, read_journal
from tests.durability.digests import differing
from tests.durability.power import (
    Change,
    Disk,
    Loss,
    disk_after,
    read_tree,
    scratch,
    write_tree,
)
from tests.durability.workload import WORKLOADS

LOSSES: tuple[Loss, ...] = ("everything", "some", "nothing")
SAID = (2, 5)
"""Exit codes that name what is damaged."""
EQUAL = "as the undisturbed run"


@dataclass(frozen=True)
class Cut:
    """One power cut and what became of the run; `verdict` begins with WRONG if it is silent."""

    workload: str
    after: int
    op: str
    loss: Loss
    verdict: str

    @property
    def is_wrong(self) -> bool:
        """Whether something was lost without a word."""
        return self.verdict.startswith("WRONG")


@dataclass(frozen=True)
class Recording:
    """The journal of an undisturbed run and its outcome."""

    workload: str
    changes: list[Change]
    top: str
    outcome: dict[str, str]


def record(
    crew: Children, folder: Path, workload: str = "simple", *, bug: bool = False
) -> Recording:
    """Work once, undisturbed, and return the journal of every change."""
    top, journal = folder / f"recorded-{workload}", folder / f"journal-{workload}"
    top.mkdir()
    code = crew.work(Order(str(top), workload, journal=str(journal), bug=bug))
    if code:
        raise RuntimeError(f"the recorded {workload} ended with {code}: {crew.last_error()}")
    changes = list(read_journal(journal))
    if disk_after(changes, str(top)).after_power_cut("nothing", random.Random(0)) != read_tree(top):
        raise RuntimeError("the journal does not give the files that are there")
    return Recording(workload, changes, str(top), WORKLOADS[workload].outcome(top))


def cut_power(
    crew: Children, folder: Path, recording: Recording, moments: Sequence[int], seed: int
) -> list[Cut]:
    """Cut the power after each of these numbers of changes, in every way."""
    disk, done, cuts = Disk(recording.top), 0, []
    for moment in moments:
        for change in recording.changes[done:moment]:
            disk.take(change)
        done = moment
        for loss in LOSSES:
            world = folder / "left"
            tree = disk.after_power_cut(loss, random.Random(f"{seed} {moment}"))
            write_tree(tree, world)
            verdict = go_on(crew, world, recording, recording.changes[:moment])
            op = recording.changes[moment - 1].op
            cuts.append(Cut(recording.workload, moment, op, loss, verdict))
            shutil.rmtree(world)
    return cuts


def go_on(crew: Children, world: Path, recording: Recording, past: Sequence[Change]) -> str:
    """Start the same command on what is left and return what became of it."""
    notes = world.with_name("notes")
    notes.unlink(missing_ok=True)
    code = crew.work(Order(str(world), recording.workload, notes=str(notes)))
    if code:
        said = crew.last_error()
        return f"said, exit {code}" if code in SAID and said else f"WRONG: exit {code}: {said}"
    if different := differing(recording.outcome, WORKLOADS[recording.workload].outcome(world)):
        return f"WRONG: {', '.join(different)} differ"
    began, saved_again = None, False
    for word, done in (line.split() for line in notes.read_text().splitlines()):
        began = int(done) if word == "began" and began is None else began
        saved_again |= word == "saved"
    if saved_again and any(change.op == "finished" for change in past):
        return "WRONG: what was finished was done again"
    saved = [int(change.path) for change in past if change.op == "saved"]
    if saved and began is not None and saved[-1] > began:
        return f"WRONG: {saved[-1]} was saved, and it went on from {began}"
    return EQUAL


def table(cuts: Sequence[Cut]) -> str:
    """Return the number of cuts by what was lost and what became of them."""
    found = Counter((cut.workload, cut.loss, cut.verdict) for cut in cuts)
    rows = [(*names, str(count)) for names, count in sorted(found.items())]
    return columns(rows, header=("workload", "lost of what was not synced", "the run", "cuts"))


def main() -> None:
    """Record, cut, go on, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cuts", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workload", action="append", choices=WORKLOADS, help="default: all")
    given = parser.parse_args()
    workloads = given.workload or list(WORKLOADS)
    cuts: list[Cut] = []
    with tempfile.TemporaryDirectory(prefix="longhaul-power-", dir=scratch()) as name:
        folder = Path(name)
        with children(folder) as crew:
            for workload in workloads:
                recording = record(crew, folder, workload)
                chosen = moments(recording, given.cuts // len(workloads), given.seed)
                cuts += cut_power(crew, folder, recording, chosen, given.seed)
    sys.stdout.write(f"{table(cuts)}\n{len(cuts)} cuts, {sum(c.is_wrong for c in cuts)} wrong\n")
    for cut in cuts:
        if cut.is_wrong:
            sys.stdout.write(
                f"{cut.workload}, after {cut.after} ({cut.op}), lost {cut.loss}: {cut.verdict}\n"
            )
    sys.exit(any(cut.is_wrong for cut in cuts))


def moments(recording: Recording, cuts: int, seed: int) -> list[int]:
    """Return random moments for so many cuts, the end among them."""
    last = len(recording.changes)
    count = min(last, max(1, cuts // len(LOSSES)))
    return sorted({last, *random.Random(seed).sample(range(1, last), count - 1)})


if __name__ == "__main__":
    main()

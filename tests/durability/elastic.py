"""Trains one run in many surroundings and compares bits.

`python -m tests.durability.elastic` prints a table; `--ray` adds a collector on a Ray cluster of
this machine, which takes most of a minute to start. A cell is `equal` if logs and weights are byte
for byte those of the first run, `refused` if longhaul says in words that it would be another run,
and `different` otherwise.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from longhaul.app.build.config import SessionOptions
from longhaul.app.build.sources import ConfigSources, resolve
from longhaul.app.build.text import columns
from longhaul.app.session.run import run_session
from longhaul.app.session.start import begin_run, find_run
from longhaul.core.errors import LonghaulError
from longhaul.engine.stop import after_iterations
from longhaul.runs.checkpoints.inspect import list_checkpoints
from longhaul.runs.directory import RunDirectory
from tests.durability.digests import run_digest
from tests.durability.power import scratch

ROOT = Path(__file__).resolve().parents[2]
QUIET = SessionOptions(quiet=True)
ITERATIONS = 4
SMALL = (
    "num_envs=5",
    "collect.num_steps=16",
    "learn.n_epochs=1",
    "policy.hidden=[64, 64]",
    f"total_iterations={ITERATIONS}",
    "evaluate.every_iterations=2",
    "evaluate.episodes=2",
    "evaluate.final_episodes=0",
    "env.check_seeds=false",
    "report.at_end=false",
    "checkpoint.every_iterations=1",
    "checkpoint.keep_last=10",
)
"""Five rows: sums over so few depend on the number of threads."""
WORKERS = ("gym:CartPole-v1", "env.runtime=processes", "collect.overlap=true")
BATCH = ("probe:chase",)
CLUSTER = ("gym:CartPole-v1", "collect.overlap=true")
ON_RAY = (
    "cluster.address=local",
    "cluster.collectors=1",
    "cluster.quorum=1",
    "cluster.start_seconds=600",
)
"""One collector; on a busy machine Ray needs minutes to start it."""
COMPARED = ("metrics.jsonl", "episodes.jsonl", "events.jsonl", "learner.safetensors")
"""The state of the environments is written differently by each runtime."""


@dataclass(frozen=True)
class Cell:
    """One way to train or to go on, and what came of it."""

    base: str
    change: str
    found: str
    words: str = ""


Digest = dict[str, str]


def digest(run: RunDirectory) -> Digest:
    """Return what is compared of a run."""
    found = run_digest(run)
    return {name: found[name] for name in COMPARED}


def train(folder: Path, task: str, *overrides: str) -> RunDirectory:
    """Train a run in a fresh folder."""
    config = resolve(ConfigSources(task=task, overrides=(*SMALL, *overrides)))
    run = begin_run(config, Path(tempfile.mkdtemp(dir=folder))).directory
    run_session(run, config, QUIET)
    return run


def whole(folder: Path, base: tuple[str, ...], change: str, expected: Digest) -> Cell:
    """Train with a change from the beginning."""
    try:
        found = digest(train(folder, *base, change))
    except LonghaulError as error:
        return Cell(base[0], change, "refused", str(error).splitlines()[0])
    return Cell(base[0], change, "equal" if found == expected else "different")


def apart(folder: Path, given: tuple[str, ...], variables: dict[str, str]) -> Digest:
    """Train in a process with these environment variables."""
    place = Path(tempfile.mkdtemp(dir=folder))
    command = [sys.executable, "-m", "tests.durability.elastic", "--train", str(place), *given]
    subprocess.run(command, check=True, cwd=ROOT, env=variables)
    (run,) = (RunDirectory(path.parent) for path in place.glob("*/*/*/run.json"))
    return digest(run)


def surrounded(folder: Path, base: tuple[str, ...], variable: str, expected: Digest) -> Cell:
    """Train in a process with another `OMP_NUM_THREADS`."""
    name = "OMP_NUM_THREADS"
    variables = {key: value for key, value in os.environ.items() if key != name}
    if variable:
        variables[name] = variable
    found = apart(folder, (*base, "env.processes.workers=1"), variables)
    change = f"{name} {variable or 'unset'}"
    return Cell(base[0], change, "equal" if found == expected else "different")


def on_ray(folder: Path) -> Cell:
    """Train with the only collector on a Ray cluster that begins and ends with the run."""
    expected = digest(train(folder, *CLUSTER))
    found = apart(folder, (*CLUSTER, *ON_RAY), dict(os.environ))
    return Cell(CLUSTER[0], "one collector on Ray", "equal" if found == expected else "different")


def stopped(folder: Path, base: tuple[str, ...]) -> RunDirectory:
    """Return a run that was stopped an iteration before its end."""
    config = resolve(ConfigSources(task=base[0], overrides=(*SMALL, *base[1:])))
    run = begin_run(config, Path(tempfile.mkdtemp(dir=folder))).directory
    run_session(run, config, QUIET, also_until=after_iterations(ITERATIONS - 1))
    return run


def resumed(
    folder: Path,
    base: tuple[str, ...],
    from_run: RunDirectory,
    expected: Digest,
    *,
    change: str = "",
    checkpoint: int = 0,
) -> Cell:
    """Go on with a moved copy of a run, from its n-th newest checkpoint."""
    moved = Path(tempfile.mkdtemp(dir=folder)) / "elsewhere" / from_run.path.name
    shutil.copytree(from_run.path, moved)
    paths = list_checkpoints(RunDirectory(moved).checkpoints)
    for path in paths[:checkpoint]:
        shutil.rmtree(path)
    title = f"resumed, moved, from {paths[checkpoint].name}"
    title = f"resumed with {change}" if change else title
    try:
        start = find_run(moved, total_timesteps=None, overrides=(change,) if change else ())
        run_session(start.directory, start.config, QUIET)
        found = digest(start.directory)
    except LonghaulError as error:
        return Cell(base[0], title, "refused", str(error).splitlines()[0])
    return Cell(base[0], title, "equal" if found == expected else "different")


def cells(folder: Path) -> Iterator[Cell]:
    """Yield the table, row by row."""
    expected = digest(train(folder, *WORKERS, "env.processes.workers=1"))
    for change in ("env.processes.workers=2", "env.processes.workers=4", "env.runtime=serial"):
        yield whole(folder, WORKERS, change, expected)
    for variable in ("", "1", "2", "4"):
        yield surrounded(folder, WORKERS, variable, expected)
    cut = stopped(folder, (*WORKERS, "env.processes.workers=1"))
    for number in range(ITERATIONS - 1):
        yield resumed(folder, WORKERS, cut, expected, checkpoint=number)
    for change in (
        "env.processes.workers=2",
        "env.processes.workers=4",
        "env.runtime=serial",
        "threads=2",
        "deterministic=false",
        "collect.overlap=false",
    ):
        yield resumed(folder, WORKERS, cut, expected, change=change)
    batch = digest(train(folder, *BATCH, "env.threads=1"))
    for change in ("env.threads=2", "env.threads=3", "env.runtime=serial"):
        yield whole(folder, BATCH, change, batch)
    cut = stopped(folder, (*BATCH, "env.threads=1"))
    for change in ("", "env.threads=2"):
        yield resumed(folder, BATCH, cut, batch, change=change)


def table(found: list[Cell]) -> str:
    """Return the cells as text."""
    rows = [
        (
            cell.base,
            cell.change,
            cell.found,
            cell.words.partition(" was started with ")[2][:60] or cell.words[:60],
        )
        for cell in found
    ]
    return columns(rows, header=("task", "change", "run", "in words"))


def main() -> None:
    """Train and print, or train one run for a parent."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--train", nargs="+", metavar=("FOLDER", "TASK"))
    parser.add_argument("--ray", action="store_true", help="also on a Ray cluster")
    given = parser.parse_args()
    if given.train:
        folder, task, *overrides = given.train
        train(Path(folder), task, *overrides)
        return
    with tempfile.TemporaryDirectory(prefix="longhaul-elastic-", dir=scratch()) as name:
        found = list(cells(Path(name)))
        if given.ray:
            found.append(on_ray(Path(name)))
    sys.stdout.write(f"{table(found)}\n")
    sys.exit(any(cell.found == "different" for cell in found))


if __name__ == "__main__":
    main()

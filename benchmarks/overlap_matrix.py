"""Overlap on and off over numbers of environments and lengths of rollouts, as CSV."""

from __future__ import annotations

import csv
import itertools
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TextIO

from benchmarks import command
from longhaul.app.bench.training import IterationTimer, measure_run, only_training
from longhaul.app.build.config import RunConfig
from longhaul.app.build.sources import resolve
from longhaul.core.errors import LonghaulError

ENVS, STEPS = (4, 8), (32, 64)
ITERATIONS = 40
WARM_UP_SHARE = 0.3
"""Of the iterations; they are not counted."""
REPLAY_FILL = "replay/fill"
GPU_USE = "gpu/0_percent_mean"
COLUMNS = (
    "mode",
    "num_envs",
    "rollout",
    "repeat",
    "steps_per_sec_mean",
    "updates_per_sec_mean",
    "replay_fill_final",
    "gpu_util_mean_window",
    "duration_sec",
    "error",
)

Row = dict[str, str | int | float]


@dataclass(frozen=True, slots=True)
class Cell:
    """One way to train."""

    overlap: bool
    num_envs: int
    num_steps: int

    def of(self, config: RunConfig, iterations: int) -> RunConfig:
        """Return the run with this size, so long."""
        collect = replace(config.collect, num_steps=self.num_steps, overlap=self.overlap)
        sized = replace(config, num_envs=self.num_envs, collect=collect)
        return replace(only_training(sized, 1), total_timesteps=1, total_iterations=iterations)


def measure(cell: Cell, config: RunConfig, *, iterations: int, repeat: int) -> Row:
    """Train and return one line; a run that cannot be trained is a line with its error."""
    row: Row = {
        "mode": "overlap" if cell.overlap else "sync",
        "num_envs": cell.num_envs,
        "rollout": cell.num_steps,
        "repeat": repeat,
    }
    watch, began = IterationTimer(), time.perf_counter()
    try:
        metrics = measure_run(cell.of(config, iterations), watch)
    except LonghaulError as error:
        return {**row, "error": str(error)}
    marks = watch.marks[int(WARM_UP_SHARE * len(watch.marks)) :]
    seconds = marks[-1][0] - marks[0][0]
    row |= {
        "steps_per_sec_mean": round((marks[-1][1] - marks[0][1]) / seconds, 1),
        "updates_per_sec_mean": round((len(marks) - 1) / seconds, 2),
        "duration_sec": round(time.perf_counter() - began, 2),
    }
    if REPLAY_FILL in metrics[-1]:
        row["replay_fill_final"] = round(metrics[-1][REPLAY_FILL], 4)
    if used := [one[GPU_USE] for one in metrics if GPU_USE in one]:
        row["gpu_util_mean_window"] = round(sum(used) / len(used), 1)
    return row


def rows(
    config: RunConfig, cells: Sequence[Cell], *, iterations: int, repeats: int
) -> Iterator[Row]:
    """Yield every line as soon as it is measured; the cells take turns."""
    for repeat, cell in itertools.product(range(1, repeats + 1), cells):
        yield measure(cell, config, iterations=iterations, repeat=repeat)


def write(found: Iterator[Row], file: TextIO) -> None:
    """Write lines as they come."""
    table = csv.DictWriter(file, COLUMNS, restval="")
    table.writeheader()
    for row in found:
        table.writerow(row)
        file.flush()


def main(words: Sequence[str]) -> None:
    """Measure and write."""
    parser = command.parser("overlap_matrix", __doc__, task="mario:standin")
    parser.add_argument("--preset", default="", help="a preset of the task")
    parser.add_argument("--num-envs", type=int, nargs="+", default=ENVS)
    parser.add_argument("--num-steps", type=int, nargs="+", default=STEPS)
    parser.add_argument("--iterations", type=int, default=ITERATIONS)
    parser.add_argument("--out", type=Path, help="the CSV file; by default standard output")
    asked = parser.parse_args(words)
    config = resolve(command.sources(asked))
    cells = [
        Cell(overlap, envs, steps)
        for envs, steps, overlap in itertools.product(
            asked.num_envs, asked.num_steps, (False, True)
        )
    ]
    found = rows(config, cells, iterations=asked.iterations, repeats=asked.repeats)
    if asked.out is None:
        write(found, sys.stdout)
        return
    with asked.out.open("w", newline="", encoding="utf-8") as file:
        write(found, file)


if __name__ == "__main__":
    command.run(main)

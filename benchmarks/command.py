"""The command line that the benchmarks share."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Sequence

from longhaul.app.bench.table import SpeedTable
from longhaul.app.bench.training import BenchRequest, bench_preset
from longhaul.app.build.sources import ConfigSources
from longhaul.core.errors import LonghaulError


def parser(name: str, about: str | None, *, task: str = "", repeats: int = 3) -> ArgumentParser:
    """Return a parser with what every benchmark takes; without a default the task must be named."""
    made = ArgumentParser(prog=f"python -m benchmarks.{name}", description=about)
    made.add_argument("task", nargs="?" if task else None, default=task, help="what to measure on")
    made.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", dest="overrides")
    if repeats:
        made.add_argument("--repeats", type=int, default=repeats, help="of each, taken in turn")
    made.add_argument("--json", action="store_true", help="write JSON for programs")
    return made


def add_training(made: ArgumentParser, *, total_timesteps: int = 0) -> None:
    """Add what benchmarks of training take."""
    made.add_argument("--preset", default="", help="a preset of the task")
    made.add_argument(
        "--total-timesteps",
        type=int,
        default=total_timesteps,
        help="steps of each measurement; 0: as many as are enough",
    )


def sources(asked: Namespace) -> ConfigSources:
    """Return where the configuration of a training comes from; `bench` is the default preset."""
    preset = asked.preset or bench_preset(asked.task)
    return ConfigSources(asked.task, preset, overrides=asked.overrides)


def request(asked: Namespace) -> BenchRequest:
    """Return how long and how often to measure."""
    return BenchRequest(asked.total_timesteps, asked.repeats)


def notify(line: str) -> None:
    """Write a line of progress beside the result."""
    sys.stderr.write(f"{line}\n")


def show(found: SpeedTable, *, as_json: bool) -> None:
    """Write what was measured."""
    sys.stdout.write(f"{found.as_json() if as_json else found.as_text()}\n")


def run(main: Callable[[Sequence[str]], int | None]) -> None:
    """Run a benchmark; a user's mistake ends in one line and longhaul's exit code."""
    try:
        sys.exit(main(sys.argv[1:]))
    except LonghaulError as error:
        notify(f"benchmark: {error}")
        sys.exit(error.exit_code)

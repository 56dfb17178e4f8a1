"""Measures what a training loses while its page is open: turns with the page and turns without.

Run it by hand from the repository's folder: `python -m benchmarks.page_cost`. One training runs all
the time. In every other turn `longhaul serve` runs and Chromium shows the run; the turns before and
after it have neither. Neighbors are compared, so whatever else the machine does cancels out.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil
from benchmarks.page import serving
from tests.web.browser import Browser, opened

from longhaul.app.build.text import columns
from longhaul.runs.logs.jsonl import read_rows


@dataclass(frozen=True, slots=True)
class Turn:
    """What one stretch of the training did."""

    has_page: bool
    steps_per_second: float
    microseconds_per_step: float  # of the trainer's own processor time
    server_share: float  # of one processor


def start_training(root: Path, task: str) -> subprocess.Popen[bytes]:
    """Start a training that does not end by itself."""
    command = [
        sys.executable, "-m", "longhaul", "train", task, "--total-timesteps", "1000000000",
        "--runs-root", str(root), "--quiet", "--no-report", "--name", "cost",
    ]  # fmt: skip
    return subprocess.Popen(command, env={**os.environ, "OMP_NUM_THREADS": "1"})


def steps_so_far(log: Path) -> int:
    """Return how far the training is."""
    rows = read_rows(log, max(0, log.stat().st_size - 8192)).rows if log.exists() else []
    return int(rows[-1]["env_steps"]) if rows else 0


def take_turn(root: Path, trainer: psutil.Process, page: Browser | None, seconds: float) -> Turn:
    """Let the training go on for a while and see how far it came."""
    (log,) = root.glob("*/*/metrics.jsonl")
    with ExitStack() as stack:
        server = None
        if page is not None:
            url, server = stack.enter_context(serving(root))
            page.open(f"{url}/run?run={log.parent.parent.name}/{log.parent.name}")
            page.until(lambda: page.texts(".chart canvas"))
        before = server_seconds(server)
        began, spent, steps = time.monotonic(), sum(trainer.cpu_times()[:2]), steps_so_far(log)
        time.sleep(seconds)
        done = steps_so_far(log) - steps
        spent = sum(trainer.cpu_times()[:2]) - spent
        took = time.monotonic() - began
        share = (server_seconds(server) - before) / took
        if page is not None:
            page.open("about:blank")
    return Turn(page is not None, done / took, 1e6 * spent / max(done, 1), share)


def server_seconds(server: psutil.Process | None) -> float:
    """Return the processor time of a server, 0 if there is none."""
    return sum(server.cpu_times()[:2]) if server is not None else 0.0


def losses(turns: Sequence[Turn]) -> list[float]:
    """Return what each turn with the page lost against the mean of its neighbors, in percent."""
    found = []
    for before, turn, after in zip(turns, turns[1:], turns[2:], strict=False):
        if turn.has_page:
            usual = (before.steps_per_second + after.steps_per_second) / 2
            found.append(100 * (1 - turn.steps_per_second / usual))
    return found


def sham_losses(turns: Sequence[Turn]) -> list[float]:
    """Return what turns without the page lost against neighbors without it: the noise."""
    bare = [turn.steps_per_second for turn in turns if not turn.has_page]
    triples = zip(bare, bare[1:], bare[2:], strict=False)
    return [100 * (1 - middle / ((one + other) / 2)) for one, middle, other in triples]


def measure(task: str, turns: int, seconds: float) -> list[Turn]:
    """Train, and open the page in every other turn."""
    with TemporaryDirectory() as folder, opened(Path(folder) / "profile") as browser:
        root = Path(folder) / "runs"
        with start_training(root, task) as process:
            try:
                while not any(map(steps_so_far, root.glob("*/*/metrics.jsonl"))):
                    assert process.poll() is None
                    time.sleep(0.5)
                trainer = psutil.Process(process.pid)
                return [
                    take_turn(root, trainer, browser if number % 2 else None, seconds)
                    for number in range(2 * turns + 1)
                ]
            finally:
                process.kill()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--task", default="gym:CartPole-v1")
    parser.add_argument("--turns", type=int, default=8, help="with the page; one more without")
    parser.add_argument("--seconds", type=float, default=10.0)
    arguments = parser.parse_args()
    turns = measure(arguments.task, arguments.turns, arguments.seconds)
    found, noise = losses(turns), sham_losses(turns)
    shown = [turn for turn in turns if turn.has_page]
    bare = [turn for turn in turns if not turn.has_page]

    def middle(chosen: Sequence[Turn], name: str) -> float:
        return statistics.median(
            {"steps": turn.steps_per_second, "cost": turn.microseconds_per_step}[name]
            for turn in chosen
        )

    rows = [
        ("steps per second without the page", f"{middle(bare, 'steps'):,.0f}"),
        ("steps per second with the page", f"{middle(shown, 'steps'):,.0f}"),
        ("lost with the page", f"{statistics.median(found):.1f} % ({_spread(found)})"),
        ("lost without it: the noise", f"{statistics.median(noise):.1f} % ({_spread(noise)})"),
        ("trainer's time a step without", f"{middle(bare, 'cost'):.1f} microseconds"),
        ("trainer's time a step with", f"{middle(shown, 'cost'):.1f} microseconds"),
        (
            "server's share of a processor",
            f"{100 * statistics.median(turn.server_share for turn in shown):.2f} %",
        ),
    ]
    sys.stdout.write(columns(rows, header=("what", "figure")) + "\n")


def _spread(values: Sequence[float]) -> str:
    return f"{min(values):.1f} to {max(values):.1f}"


if __name__ == "__main__":
    main()

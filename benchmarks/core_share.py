"""How much of what one core can compute learning uses, with torch and with native code."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch

from benchmarks import command
from longhaul.app.bench.table import Section, SpeedTable
from longhaul.app.bench.training import conditions, measure_run, only_training
from longhaul.app.build.components import build_task
from longhaul.app.build.config import RunConfig
from longhaul.app.build.network import network_size
from longhaul.app.build.sources import resolve
from longhaul.core.control import Progress
from longhaul.learn.config import Backend

WAYS: tuple[Backend, ...] = ("torch", "native")
PASSES = 3
"""Forward, and backward to the weights and to the inputs, which is about as much work each."""
SIZES = (128, 256, 512)
"""Of the products the peak is taken from: larger ones wait for memory."""
TRIES = 20


@dataclass(frozen=True, slots=True)
class Use:
    """What learning computed, and what the core could have computed."""

    samples_per_second: float
    flop: float
    peak: float

    @property
    def rate(self) -> float:
        """Floating-point operations a second."""
        return self.samples_per_second * self.flop

    @property
    def share(self) -> float:
        """The part of the peak that was used."""
        return self.rate / self.peak


def peak_of_a_core() -> float:
    """Return the most operations a second of float32 products with one thread."""
    torch.set_num_threads(1)
    best = 0.0
    for size in SIZES:
        left, right = torch.rand(size, size), torch.rand(size, size)
        for _ in range(TRIES):
            began = time.perf_counter()
            torch.mm(left, right)
            best = max(best, 2.0 * size**3 / (time.perf_counter() - began))
    return best


def measure(config: RunConfig) -> Use:
    """Train, and return what the updates after the first one computed."""
    flop = PASSES * network_size(config, build_task(config)).flop
    peak = peak_of_a_core()
    rows = measure_run(config, _never)[1:]
    first, last = rows[0]["env_steps"], rows[-1]["env_steps"]
    samples = config.learn.n_epochs * (last - first) * len(rows) / (len(rows) - 1)
    learning = sum(row["time/learn_seconds"] for row in rows)
    return Use(samples / learning, flop, max(peak, peak_of_a_core()))


def _never(progress: Progress) -> None:
    """Stop condition of a run that goes on to its end."""


def as_table(config: RunConfig, found: dict[str, list[Use]]) -> SpeedTable:
    """Return a row for each backend, with every repeat."""

    def each(uses: list[Use], shown: Callable[[Use], str]) -> str:
        return " ".join(shown(use) for use in uses)

    rows = [
        (
            way,
            each(uses, lambda use: f"{use.samples_per_second:,.0f}"),
            each(uses, lambda use: f"{use.rate / 1e9:.1f}"),
            each(uses, lambda use: f"{use.peak / 1e9:.0f}"),
            each(uses, lambda use: f"{100 * use.share:.1f} %"),
        )
        for way, uses in found.items()
    ]
    header = ("backend", "samples/s while learning", "GFLOP/s", "peak GFLOP/s", "share of the peak")
    values = {way: [use.share for use in uses] for way, uses in found.items()}
    title = f"{config.task}: {conditions(config, f'{PASSES} passes over the network a sample')}"
    return SpeedTable(config.task, title, sections=(Section(header, rows),), values=values)


def main(words: Sequence[str]) -> None:
    """Measure and print."""
    parser = command.parser("core_share", __doc__, task="gym:CartPole-v1")
    command.add_training(parser)
    asked = parser.parse_args(words)
    # With overlap the time of learning would hold what the collecting thread takes from it.
    config = resolve(command.sources(asked))
    config = replace(config, threads=1, collect=replace(config.collect, overlap=False))
    config = only_training(config, asked.total_timesteps)
    found: dict[str, list[Use]] = {way: [] for way in WAYS}
    for _ in range(command.request(asked).repeats):
        for way in WAYS:
            found[way].append(measure(replace(config, learn=replace(config.learn, backend=way))))
    command.show(as_table(config, found), as_json=asked.json)


if __name__ == "__main__":
    command.run(main)

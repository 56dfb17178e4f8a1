"""How much of what one core can compute learning uses, with torch and with native code."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

from benchmarks import command
from longhaul.app.bench.table import Section, SpeedTable
from longhaul.app.bench.training import conditions, measure_run, only_training
from longhaul.app.build.components import build_settings, build_task
from longhaul.app.build.config import RunConfig
from longhaul.app.build.sources import resolve
from longhaul.core.control import Progress
from longhaul.core.env import Array, StepBuffers
from longhaul.core.errors import ConfigError
from longhaul.core.native import entry, integer
from longhaul.learn.config import Backend
from longhaul.learn.native.tile import multiply

WAYS: tuple[Backend, ...] = ("torch", "native")
SIZES = (64, 128, 256, 512)
"""Of the products the peak is taken from: larger ones wait for memory."""
TRIES = 20
REPEATS = 8
ROWS = 64


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


@entry
def _product(c: Array, a: Array, b: Array) -> None:
    place = integer(c.ctypes.data), c.shape[1]
    left = integer(a.ctypes.data), a.shape[1], 1
    right = integer(b.ctypes.data), b.shape[1]
    multiply(place, left, right, place, (c.shape[0], c.shape[1], b.shape[0]))


def peak_of_a_core() -> float:
    """Return the most operations a second of float32 products with one thread.

    Torch's products do not use registers of 512 bits on every processor that has them; ours do.
    """
    torch.set_num_threads(1)
    best = 0.0
    for size in SIZES:
        a, b, c = torch.rand(size, size), torch.rand(size, size), torch.zeros(size, size)
        ways = (
            partial(torch.mm, a, b, out=c),
            partial(_product, c.numpy(), a.numpy(), b.numpy()),
        )
        least = min(_seconds(way) for way in ways)
        best = max(best, 2.0 * size**3 / least)
    return best


def _seconds(call: Callable[[], Any]) -> float:
    """Return the least time of a call; the first ones, which compile, are not the least."""
    found = []
    for _ in range(TRIES):
        began = time.perf_counter()
        for _ in range(REPEATS):
            call()
        found.append((time.perf_counter() - began) / REPEATS)
    return min(found)


def flop_to_learn(config: RunConfig) -> float:
    """Return the operations of products and convolutions that learning from a sample takes.

    They are counted while torch goes forward and back once; no gradient of the input is taken.
    """
    task = build_task(config)
    policy, shown = task.make_policy(), StepBuffers.allocate(task.envs.spec, ROWS)
    obs = {name: torch.from_numpy(part) for name, part in shown.obs.items()}
    with FlopCounterMode(display=False) as counter:
        act = policy.act(obs, policy.initial_state(ROWS), build_settings(config, task))
        if act.logits is None:
            raise ConfigError(f"{config.task} is not measured: its actions are not choices")
        (act.logits.sum() + act.value.sum()).backward()
    return float(counter.get_total_flops()) / ROWS


def measure(config: RunConfig) -> Use:
    """Train, and return what the updates after the first one computed."""
    flop = flop_to_learn(config)
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
    title = f"{config.task}: {conditions(config, 'the same network')}"
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

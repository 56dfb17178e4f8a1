"""Training with less memory: when it runs out, the run begins again with half of its size."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import torch

from longhaul.app.build.config import RunConfig
from longhaul.app.session.start import changed_keys
from longhaul.core.errors import ConfigError, MemoryShortageError
from longhaul.runs.checkpoints.inspect import has_saved
from longhaul.runs.directory import find_unfinished

T = TypeVar("T")

MOST_TIERS = 4
LEAST_STEPS = 16
LEAST_ENVS = 2


def tiers(config: RunConfig) -> list[RunConfig]:
    """Return ever smaller runs: rollout length and number of environments are halved in turn."""
    return list(_tiers(config))[:MOST_TIERS]


def _tiers(config: RunConfig) -> Iterator[RunConfig]:
    while True:
        before = config
        for halved in (_shorter, _narrower):
            if (smaller := halved(config)) is not None:
                yield (config := smaller)
        if config is before:
            return


def _shorter(config: RunConfig) -> RunConfig | None:
    """Return the run with half the rollout, None at the floor or if sequences do not fit."""
    collect, replay = config.collect, config.learn.replay
    steps = collect.num_steps // 2
    length = replay.length if replay.enabled and replay.length else 1
    if steps < LEAST_STEPS or steps % (collect.chunk or 1) or steps % length:
        return None
    return replace(config, collect=replace(collect, num_steps=steps))


def _narrower(config: RunConfig) -> RunConfig | None:
    envs = config.num_envs // 2
    return None if envs < LEAST_ENVS else replace(config, num_envs=envs)


def begun_tier(config: RunConfig, root: Path) -> int:
    """Return which of the tiers, counted from 1, an unfinished run of this name has; 0: none."""
    run = find_unfinished(root, config.task, config.name, config.seed)
    if run is None or not has_saved(run):
        return 0
    for number, tier in enumerate(tiers(config), start=1):
        if not changed_keys(run, tier):
            return number
    return 0


def train_smaller(
    config: RunConfig,
    root: Path,
    *,
    choice: str,
    notify: Callable[[str], None],
    train: Callable[[RunConfig, str], T],
) -> T:
    """Train a run, and each time memory runs out a smaller one instead; raise after the last.

    An interrupted smaller run is continued. A run that ran out of memory stays as it is.
    """
    sizes = [config, *tiers(config)]
    first = 0 if choice == "never" else begun_tier(config, root)
    for number in range(first, len(sizes)):
        try:
            return train(sizes[number], choice if number == first else "never")
        except MemoryShortageError as error:
            if number + 1 == len(sizes):
                raise
            reason = str(error)
        # Outside of the handler: what the failed run held is free by now.
        gc.collect()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        after = sizes[number + 1]
        notify(
            f"--on-memory shrink: {reason}; beginning again with num_envs = {after.num_envs} and "
            f"collect.num_steps = {after.collect.num_steps}, which is another run"
        )
    raise AssertionError("the last size returns or raises")


CHOICES = ("stop", "shrink")


def check_choice(on_memory: str, *, continues: bool, processes: int) -> None:
    """Raise if there is no such choice, or the run's size cannot change."""
    if on_memory not in CHOICES:
        raise ConfigError(f"unknown --on-memory {on_memory!r}; use one of {', '.join(CHOICES)}")
    if on_memory == "shrink" and continues:
        raise ConfigError("--on-memory shrink changes the run's size, --continue-from keeps it")
    if on_memory == "shrink" and processes > 1:
        raise ConfigError("--on-memory shrink works in one process, not under torchrun")

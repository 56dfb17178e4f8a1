"""Memory, disk and device: what a run needs, checked before it starts."""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import torch
import torch.utils.deterministic

from longhaul.app.build.config import RunConfig
from longhaul.app.build.text import columns
from longhaul.core.env import empty_actions
from longhaul.core.errors import ConfigError, MemoryShortageError, ResourceError
from longhaul.core.system import keep_freed_memory, processor
from longhaul.core.task import Task
from longhaul.learn.replay.plan import ReplayLayout, ReplayPlan, item
from longhaul.learn.replay.ring import sequence_length

MEGABYTE = 1 << 20


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """Bytes by purpose, and notices about them."""

    sizes: dict[str, int]
    notices: tuple[str, ...] = ()

    @property
    def total(self) -> int:
        """All bytes together."""
        return sum(self.sizes.values())

    def shortage(self) -> str:
        """Return a message if the machine has too little memory, else an empty text."""
        there = psutil.virtual_memory().total
        if self.total <= there:
            return ""
        return (
            f"this run needs {self.total / MEGABYTE:,.0f} MiB and the machine has "
            f"{there / MEGABYTE:,.0f} MiB of memory; lower num_envs, collect.num_steps or "
            "the size of the network"
        )

    def demand_room(self) -> None:
        """Raise if the machine has too little memory."""
        if shortage := self.shortage():
            raise MemoryShortageError(shortage)

    def as_text(self) -> str:
        """Return a table in megabytes."""
        rows = [(name, f"{size / MEGABYTE:,.1f} MiB") for name, size in self.sizes.items()]
        rows.append(("total", f"{self.total / MEGABYTE:,.1f} MiB"))
        return columns(rows, header=("memory", "size"))


def memory_plan(config: RunConfig, task: Task) -> MemoryPlan:
    """Return the memory of the rollouts, the network, its optimizer and the replay."""
    spec = task.envs.spec
    rows = config.num_envs * spec.rows
    policy = task.make_policy()
    weights = sum(p.numel() * p.element_size() for p in policy.parameters())
    step = sum(
        math.prod(part.shape) * np.dtype(part.dtype).itemsize for part in spec.observation.values()
    )
    step += empty_actions(spec, 1).nbytes + 3 * 4 + 5 + 4 * len(spec.measures)
    step += spec.choices if spec.has_masks else 0
    rollouts = 2 if config.collect.overlap else 1
    memory = sum(part.numel() * part.element_size() for part in policy.initial_state(1).values())
    sizes = {
        "rollouts": rollouts * step * rows * config.collect.num_steps,
        "policy memory": memory * rows,
        "weights": weights * (2 if config.collect.overlap else 1),
        "gradients and optimizer": 3 * weights,
    }
    if not config.learn.replay.enabled:
        return MemoryPlan(sizes)
    plan = replay_plan(config, task)
    kept = f"replay of {plan.sequences * plan.length:,} transitions"
    return MemoryPlan({**sizes, kept: plan.nbytes}, (plan.notice,) if plan.notice else ())


def replay_plan(config: RunConfig, task: Task) -> ReplayPlan:
    """Return the size of the replay; raise if it cannot hold one rollout."""
    spec, collect = task.envs.spec, config.collect
    policy = task.make_policy()
    length = sequence_length(
        config.learn.replay.length,
        steps=collect.num_steps,
        chunk=collect.chunk or collect.num_steps,
        recurrent=policy.recurrent,
    )
    action = empty_actions(spec, 1)
    layout = ReplayLayout(
        length=length,
        obs={name: item(part.dtype, part.shape) for name, part in spec.observation.items()},
        action=item(action.dtype, action.shape[1:]),
        choices=spec.choices if spec.has_masks else 0,
        memory={
            name: item(part.numpy().dtype, part.shape[1:])
            for name, part in policy.initial_state(1).items()
        },
    )
    plan = ReplayPlan.of(layout, config.learn.replay)
    plan.demand(config.num_envs * spec.rows * collect.num_steps // length)
    return plan


def is_out_of_memory(error: Exception) -> bool:
    """Whether Python or torch, on any device, got no memory."""
    # On the CPU torch raises a plain RuntimeError.
    on_cpu = isinstance(error, RuntimeError) and "can't allocate memory" in str(error)
    return on_cpu or isinstance(error, (MemoryError, torch.OutOfMemoryError))


LOG_MEGABYTES = 16
"""Room for the logs of a run's first hours."""


def free_bytes(folder: Path) -> int:
    """Return the free space on the disk of a folder."""
    return shutil.disk_usage(folder).free


def checkpoint_bytes(config: RunConfig, task: Task) -> int:
    """Return the approximate size of a checkpoint: the run's memory without its rollouts.

    This counts gradients, which are not saved, and leaves out the states of the environments.
    """
    sizes = memory_plan(config, task).sizes
    is_saved = config.learn.replay.saved
    return sum(
        size
        for name, size in sizes.items()
        if name != "rollouts" and (is_saved or not name.startswith("replay"))
    )


def check_disk_room(folder: Path, config: RunConfig, task: Task) -> None:
    """Raise unless two checkpoints, logs and the reserve fit on the disk."""
    size = checkpoint_bytes(config, task)
    reserve = config.checkpoint.reserve_megabytes
    needed = 2 * size + (reserve + LOG_MEGABYTES) * MEGABYTE
    free = free_bytes(folder)
    if free < needed:
        raise ResourceError(
            f"{free / MEGABYTE:,.1f} MB are free for {folder}, and this run needs "
            f"{needed / MEGABYTE:,.1f} MB: two checkpoints of about {size / MEGABYTE:,.1f} MB, "
            f"{LOG_MEGABYTES} MB of logs and a reserve of {reserve} MB; free disk space or lower "
            "checkpoint.reserve_megabytes, then start the same command again"
        )


def choose_device(
    asked: str, *, require_gpu: bool, notify: Callable[[str], None] = lambda text: None
) -> torch.device:
    """Return the requested device; a fallback to the CPU is reported, or is an error."""
    try:
        device = torch.device("cuda" if asked == "auto" else asked)
    except RuntimeError:
        raise ConfigError(
            f"device = {asked!r} is not known; use auto, cpu, cuda or cuda:N"
        ) from None
    if device.type == "cuda" and not torch.cuda.is_available():
        if require_gpu:
            raise ConfigError(
                f"--require-gpu, device = {asked!r}: torch finds no CUDA device on this machine"
            )
        notify(f"device = {asked!r}: no CUDA device found; training on the CPU")
        return torch.device("cpu")
    if device.type not in ("cpu", "cuda"):
        raise ConfigError(f"device = {asked!r} is not supported; use auto, cpu, cuda or cuda:N")
    if require_gpu and device.type == "cpu":
        raise ConfigError("--require-gpu conflicts with device = 'cpu'")
    return device


def fix_torch(*, threads: int, deterministic: bool) -> None:
    """Make torch deterministic, with a fixed number of threads, and keep the memory it frees."""
    torch.set_num_threads(threads)
    keep_freed_memory()
    # As `use_deterministic_algorithms`, which would import the compiler and take seconds.
    torch.set_deterministic_debug_mode("error" if deterministic else "default")
    # Filling new tensors with NaN finds reads of uninitialized memory. It costs 5 % on images and
    # is not needed for determinism. The module gets this property at run time only.
    options: Any = torch.utils.deterministic
    options.fill_uninitialized_memory = False


def machine_kind() -> str:
    """Return what results are exact for: the processor, its vector units, and torch."""
    version = torch.__version__.partition("+")[0]
    return f"{processor()}, {torch.backends.cpu.get_cpu_capability()}, torch {version}"

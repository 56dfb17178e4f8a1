"""How much memory a run will take, before it takes it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import psutil

from longhaul.app.config import RunConfig
from longhaul.app.text import columns
from longhaul.core.env import empty_actions
from longhaul.core.errors import ResourceError
from longhaul.core.task import Task
from longhaul.learn.pieces import sequence_length
from longhaul.learn.replay_plan import Layout, Piece, ReplayPlan

MEGABYTE = 1 << 20


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """Bytes by what they are for, and what is worth a notice."""

    sizes: dict[str, int]
    notices: tuple[str, ...] = ()

    @property
    def total(self) -> int:
        """All bytes together."""
        return sum(self.sizes.values())

    def shortage(self) -> str:
        """Return that the machine has less memory than is planned, or nothing."""
        there = psutil.virtual_memory().total
        if self.total <= there:
            return ""
        return (
            f"this run needs {self.total / MEGABYTE:,.0f} MiB and the machine has "
            f"{there / MEGABYTE:,.0f} MiB of memory; lower num_envs, collect.steps or the size of "
            "the network"
        )

    def demand_room(self) -> None:
        """Raise if the machine has less memory than is planned."""
        if shortage := self.shortage():
            raise ResourceError(shortage)

    def as_text(self) -> str:
        """Return a table in megabytes."""
        rows = [(name, f"{size / MEGABYTE:,.1f} MiB") for name, size in self.sizes.items()]
        rows.append(("together", f"{self.total / MEGABYTE:,.1f} MiB"))
        return columns(rows, header=("memory", "size"))


def memory_plan(config: RunConfig, task: Task) -> MemoryPlan:
    """Return what the rollouts, the network and its optimizer will take."""
    spec = task.envs.spec
    rows = config.num_envs * spec.rows
    policy = task.make_policy()
    weights = sum(p.numel() * p.element_size() for p in policy.parameters())
    step = sum(
        math.prod(part.shape) * np.dtype(part.dtype).itemsize for part in spec.observation.values()
    )
    step += empty_actions(spec, 1).nbytes + 3 * 4 + 5
    step += spec.choices if spec.has_masks else 0
    rollouts = 2 if config.collect.overlap else 1
    memory = sum(part.numel() * part.element_size() for part in policy.initial(1).values())
    sizes = {
        "rollouts": rollouts * step * rows * config.collect.steps,
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
    """Return how much of the past fits; a replay that cannot hold a rollout is an error."""
    spec, collect = task.envs.spec, config.collect
    policy = task.make_policy()
    length = sequence_length(
        config.learn.replay.length,
        steps=collect.steps,
        chunk=collect.chunk or collect.steps,
        recurrent=policy.recurrent,
    )
    action = empty_actions(spec, 1)
    layout = Layout(
        length=length,
        obs={
            name: Piece(part.shape, np.dtype(part.dtype)) for name, part in spec.observation.items()
        },
        action=Piece(action.shape[1:], action.dtype),
        choices=spec.choices if spec.has_masks else 0,
        memory={
            name: Piece(tuple(part.shape[1:]), part.numpy().dtype)
            for name, part in policy.initial(1).items()
        },
    )
    plan = ReplayPlan.of(layout, config.learn.replay)
    plan.demand(config.num_envs * spec.rows * collect.steps // length)
    return plan

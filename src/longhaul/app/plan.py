"""How much memory a run will take, before it takes it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from longhaul.app.config import RunConfig
from longhaul.app.text import columns
from longhaul.core.env import empty_actions
from longhaul.core.task import Task

MEGABYTE = 1 << 20


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """Bytes by what they are for."""

    sizes: dict[str, int]

    def as_text(self) -> str:
        """Return a table in megabytes."""
        rows = [(name, f"{size / MEGABYTE:,.1f} MiB") for name, size in self.sizes.items()]
        rows.append(("together", f"{sum(self.sizes.values()) / MEGABYTE:,.1f} MiB"))
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
    memory = sum(part.numel() * part.element_size() for part in policy.initial(rows).values())
    return MemoryPlan(
        {
            "rollouts": rollouts * step * rows * config.collect.steps,
            "policy memory": memory,
            "weights": weights * (2 if config.collect.overlap else 1),
            "gradients and optimizer": 3 * weights,
        }
    )

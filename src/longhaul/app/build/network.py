"""The size of a run's network: its parameters and what one decision costs."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from longhaul.app.build.components import build_settings
from longhaul.app.build.config import RunConfig
from longhaul.core.env import StepBuffers
from longhaul.core.task import Task


@dataclass(frozen=True, slots=True)
class NetworkSize:
    """How large a network is."""

    parameters: int
    flop: int
    """Floating-point operations of one decision of one row, value included: the multiplications and
    additions of matrix products and convolutions."""

    def as_text(self) -> str:
        """Return one line."""
        return f"network: {self.parameters:,} parameters, {self.flop:,} FLOP a decision"


def network_size(config: RunConfig, task: Task) -> NetworkSize:
    """Return the size of the task's network; operations are counted while it acts once."""
    from torch.utils.flop_counter import FlopCounterMode

    policy, shown = task.make_policy(), StepBuffers.allocate(task.envs.spec, 1)
    obs = {name: torch.from_numpy(part) for name, part in shown.obs.items()}
    mask = None if shown.mask is None else torch.from_numpy(shown.mask)
    settings = build_settings(config, task)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        policy.act(obs, policy.initial_state(1), settings, mask=mask)
    parameters = sum(part.numel() for part in policy.parameters())
    return NetworkSize(parameters, counter.get_total_flops())

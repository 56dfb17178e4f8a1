"""Random numbers for the rows of a policy, from one generator or one for each share of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from longhaul.core.policy import Chance


def uniform_like(outputs: Tensor, chance: Chance) -> Tensor:
    """Return numbers from [0, 1) of the same shape, on the outputs' device."""
    return _drawn(torch.rand, outputs, chance)


def normal_like(outputs: Tensor, chance: Chance) -> Tensor:
    """Return numbers of the standard normal distribution, of the same shape and device."""
    return _drawn(torch.randn, outputs, chance)


def _drawn(draw: Callable[..., Any], outputs: Tensor, chance: Chance) -> Tensor:
    """Return what is drawn for all rows, each share of them from its own generator."""
    generators = (chance,) if isinstance(chance, torch.Generator) else tuple(chance)
    shape = (outputs.shape[0] // len(generators), *outputs.shape[1:])
    drawn = [draw(shape, generator=one, device=one.device) for one in generators]
    return torch.cat(drawn).to(outputs.device) if len(drawn) > 1 else drawn[0].to(outputs.device)

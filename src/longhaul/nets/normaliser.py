"""Running mean and deviation of observations."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

SMALLEST_VARIANCE = 1e-8


class RunningNormaliser(nn.Module):
    """Shifts and scales one part of an observation by what was observed so far.

    The statistics are float64 and part of the state; they change only in `observe`.
    """

    mean: Tensor
    variance: Tensor
    count: Tensor
    shift: Tensor
    scale: Tensor

    def __init__(self, shape: tuple[int, ...], *, clip: float = 10.0) -> None:
        super().__init__()
        self.clip = clip
        self.register_buffer("mean", torch.zeros(shape, dtype=torch.float64))
        self.register_buffer("variance", torch.ones(shape, dtype=torch.float64))
        self.register_buffer("count", torch.zeros((), dtype=torch.float64))
        # What acting needs of them, in the dtype it needs.
        self.register_buffer("shift", torch.zeros(shape), persistent=False)
        self.register_buffer("scale", torch.ones(shape), persistent=False)
        register: Callable[..., object] = self.register_load_state_dict_post_hook
        register(_after_loading)

    def forward(self, x: Tensor) -> Tensor:
        """Return [N, ...] normalised and clipped."""
        return x.sub(self.shift).mul_(self.scale).clamp_(-self.clip, self.clip)

    @torch.no_grad()
    def observe(self, x: Tensor) -> None:
        """Take observations [K, ...] into account; those that are not finite are left out."""
        x = x[torch.isfinite(x.flatten(1)).all(1)].double()
        rows = x.shape[0]
        if rows == 0:
            return
        total = self.count + rows
        variance, mean = torch.var_mean(x, 0, correction=0)
        offset = mean - self.mean
        # Chan's parallel update: exact for any split of the observations into batches.
        weight = rows / total
        self.variance.lerp_(variance, weight).add_(offset.square() * (weight * (1.0 - weight)))
        self.mean.add_(offset * weight)
        self.count.copy_(total)
        self.refresh()

    @torch.no_grad()
    def refresh(self) -> None:
        """Recompute shift and scale from the statistics."""
        self.shift.copy_(self.mean)
        self.scale.copy_((self.variance + SMALLEST_VARIANCE).rsqrt())


def _after_loading(module: nn.Module, _keys: object) -> None:
    """Bring a normaliser's derived buffers up to date with its loaded statistics."""
    assert isinstance(module, RunningNormaliser)
    module.refresh()

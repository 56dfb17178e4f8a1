"""The convolution that reads bytes: nothing larger than them is kept for the way back."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from longhaul.nets.dense import refuse_second_derivative

PIXEL_SCALE = 1.0 / 255.0
convolution_backward = torch.ops.aten.convolution_backward.default


def image_floats(images: Tensor) -> Tensor:
    """Return uint8 images as unscaled floats of the present precision with channels last."""
    # Reordering bytes and then converting beats one call for both: 7.4 ms against 12.2 ms for
    # 256 images of 4x84x84; channels last makes the first convolution twice as fast.
    return images.contiguous(memory_format=torch.channels_last).to(_float_type(images))


def _float_type(images: Tensor) -> torch.dtype:
    """Return what convolutions compute with; all bytes are whole numbers in bfloat16 too."""
    device = images.device.type
    return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else torch.float32


def scaled_weight(layer: nn.Conv2d) -> Tensor:
    """Return the weight with the pixels' 1/255 folded in, channels last."""
    return _scaled(layer.weight)


def _scaled(weight: Tensor) -> Tensor:
    return (weight * PIXEL_SCALE).contiguous(memory_format=torch.channels_last)


def first_convolution(layer: nn.Conv2d, images: Tensor, *, centre: float = 0.0) -> Tensor:
    """Return what a layer makes of uint8 images scaled by 1/255, less `centre`.

    What a layer with padding reads beyond the edge is black.
    """
    stride, padding, bias = _pair(layer.stride), _padding(layer), layer.bias
    if centre:
        assert bias is not None, "there is nothing to take the centre from"
        # Every window holds it once for each weight, so that no pixel has to be touched.
        bias = bias - centre * layer.weight.sum((1, 2, 3))
    if torch.is_grad_enabled() and images.is_cpu:
        kept = images.contiguous(memory_format=torch.channels_last)
        return _first_convolution(kept, layer.weight, bias, stride, padding)
    return F.conv2d(image_floats(images), scaled_weight(layer), bias, stride, padding)


def rows_per_piece(shape: tuple[int, ...], *, most: int, values: int) -> int:
    """Return how many images go through a network at once, so that their floats stay at hand."""
    return max(1, min(most, values // math.prod(shape)))


def _pair(values: tuple[int, ...]) -> tuple[int, int]:
    down, across = values
    return down, across


def _padding(layer: nn.Conv2d) -> tuple[int, int]:
    assert not isinstance(layer.padding, str), "padding is told in pixels here"
    return _pair(layer.padding)


class _FirstConvolution(torch.autograd.Function):
    """Keeps the bytes and makes floats of them a second time.

    Four bytes a pixel kept for every piece of a minibatch are more than the allocator gives out
    again: each would be fresh memory, page by page, which took as long as the convolution.
    """

    @staticmethod
    def forward(
        ctx: Any,
        images: Tensor,
        weight: Tensor,
        bias: Tensor,
        stride: tuple[int, int],
        padding: tuple[int, int],
    ) -> Tensor:
        """Return the convolution and keep what its gradient needs."""
        float_type = _float_type(images)
        scaled = _scaled(weight).to(float_type)
        ctx.save_for_backward(images, scaled)
        ctx.stride, ctx.padding = stride, padding
        return F.conv2d(images.to(float_type), scaled, bias.to(float_type), stride, padding)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[None, Tensor, Tensor, None, None]:
        """Return the gradients of weight and bias; pixels have none."""
        refuse_second_derivative()
        images, scaled = ctx.saved_tensors
        _, of_weight, of_bias = convolution_backward(
            grad,
            images.to(scaled.dtype),
            scaled,
            [scaled.shape[0]],
            ctx.stride,
            ctx.padding,
            [1, 1],
            False,  # noqa: FBT003 - an operator of torch: not transposed
            [0, 0],
            1,
            [False, True, True],
        )
        return None, of_weight.float().mul_(PIXEL_SCALE), of_bias.float(), None, None


_first_convolution: Callable[..., Tensor] = _FirstConvolution.apply

"""Stacks of fully connected layers, quick on a CPU and equal to plain torch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from longhaul.nets.config import Activation

SLOW_TANH = 4096
"""From this many elements on, tanh by way of the logistic function pays for its extra passes."""

Affine = tuple[Tensor, Tensor]
"""The weight [outputs, inputs] and bias [outputs] of one layer."""


def orthogonal_linear(inputs: int, outputs: int, *, gain: float) -> nn.Linear:
    """Return a layer with orthogonal weights and zero bias."""
    layer = nn.Linear(inputs, outputs)
    nn.init.orthogonal_(layer.weight, gain)
    nn.init.zeros_(layer.bias)
    return layer


def tanh_layer(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Return tanh of one layer's output [N, outputs]."""
    if x.shape[0] * bias.shape[0] < SLOW_TANH:
        return F.linear(x, weight, bias).tanh_()
    # tanh(z) = 2 logistic(2z) - 1, the first 2 within the matrix product. Measured on AVX2 for
    # 32,768 elements: 40 us against 110 us for torch.tanh, equal to 1e-7.
    z = torch.addmm(bias, x, weight.t(), beta=2, alpha=2).sigmoid_()
    return torch.add(bias.new_tensor(-1.0), z, alpha=2, out=z)


def activate(x: Tensor, activation: Activation) -> Tensor:
    """Return the activation of `x`, which may be overwritten."""
    if activation == "tanh":
        return x.tanh_()
    if activation == "relu":
        return x.relu_()
    return F.silu(x) if activation == "silu" else F.gelu(x)


def feed_forward(x: Tensor, layers: Sequence[Affine], activation: Activation) -> Tensor:
    """Return [N, outputs] of layers that are each followed by the activation."""
    if not layers:
        return x
    if activation in ("tanh", "relu") and x.is_cpu and not torch.is_autocast_enabled("cpu"):
        if torch.is_grad_enabled():
            flat = [tensor for layer in layers for tensor in layer]
            return _feed_forward(x, activation == "tanh", *flat)
        if activation == "tanh":
            for weight, bias in layers:
                x = tanh_layer(x, weight, bias)
            return x
    for weight, bias in layers:
        x = activate(F.linear(x, weight, bias), activation)
    return x


def weight_gradient(x: Tensor, grad: Tensor) -> Tensor:
    """Return the gradient [outputs, inputs] of a weight between `x` and `grad`."""
    # The thinner matrix goes first: 9 us against 46 us for 4 inputs and 64 outputs.
    if x.shape[1] < grad.shape[1]:
        return torch.mm(x.t(), grad).t()
    return torch.mm(grad.t(), x)


class _FeedForward(torch.autograd.Function):
    """`feed_forward` with tanh or relu as one node: no graph per layer, gradients in place."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, is_tanh: bool, *flat: Tensor) -> Tensor:  # noqa: FBT001
        """Return the last layer's activations and keep all of them."""
        kept = [x]
        for weight, bias in zip(flat[::2], flat[1::2], strict=True):
            x = tanh_layer(x, weight, bias) if is_tanh else F.linear(x, weight, bias).relu_()
            kept.append(x)
        ctx.save_for_backward(*kept, *flat[::2])
        ctx.is_tanh = is_tanh
        return x

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradients of `x` and of every weight and bias."""
        layers = len(ctx.saved_tensors) // 2
        kept, weights = ctx.saved_tensors[: layers + 1], ctx.saved_tensors[layers + 1 :]
        found: list[Tensor | None] = []
        for layer in range(layers - 1, -1, -1):
            if ctx.is_tanh:
                grad = torch.ops.aten.tanh_backward(grad, kept[layer + 1])
            else:
                grad = torch.ops.aten.threshold_backward(grad, kept[layer + 1], 0)
            found += [grad.sum(0), weight_gradient(kept[layer], grad)]
            if layer or ctx.needs_input_grad[0]:
                grad = torch.mm(grad, weights[layer])
        return grad if ctx.needs_input_grad[0] else None, None, *reversed(found)


_feed_forward: Callable[..., Tensor] = _FeedForward.apply

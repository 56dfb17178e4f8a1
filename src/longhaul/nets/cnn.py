"""Convolutional encoders of images: Nature, IMPALA and a lean one."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from longhaul.nets.dense import linear_layer, refuse_second_derivative

PIXEL_SCALE = 1.0 / 255.0
convolution_backward = torch.ops.aten.convolution_backward.default


def channels_last(images: Tensor) -> Tensor:
    """Return images with the channels of each pixel side by side in memory.

    That is what shuffling channels does to images of a single pixel, by blocks and not value by
    value: 0.1 ms against 1.3 ms for 128 images of 4x84x84 bytes.
    """
    count, channels, height, width = images.shape
    is_simple = images.is_cpu and images.is_contiguous() and not torch.compiler.is_compiling()
    if channels == 1 or not is_simple:
        return images.contiguous(memory_format=torch.channels_last)
    size = channels * height * width
    pixels = images.as_strided((count, size, 1, 1), (size, 1, size, size))
    shuffled = torch.native_channel_shuffle(pixels, channels)
    return shuffled.as_strided(images.shape, (size, 1, width * channels, channels))


def image_floats(images: Tensor) -> Tensor:
    """Return uint8 images as unscaled floats of the present precision with channels last."""
    # Channels last makes the first convolution twice as fast.
    return channels_last(images).to(_float_type(images))


def flat(images: Tensor) -> Tensor:
    """Return [N, values] of activations with channels last."""
    if images.requires_grad and images.is_cpu and not torch.compiler.is_compiling():
        # A gradient in another order than the activation takes relu's 20 times as long.
        images.register_hook(lambda grad: grad.contiguous(memory_format=torch.channels_last))
    return images.flatten(1)


def _float_type(images: Tensor) -> torch.dtype:
    """Return what convolutions compute with; all bytes are whole numbers in bfloat16 too."""
    device = images.device.type
    return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else torch.float32


def scaled_weight(weight: Tensor) -> Tensor:
    """Return a convolution's weight with the pixels' 1/255 folded in, channels last."""
    return (weight * PIXEL_SCALE).contiguous(memory_format=torch.channels_last)


def first_convolution(layer: nn.Conv2d, images: Tensor, *, center: float = 0.0) -> Tensor:
    """Return what a layer makes of uint8 images scaled by 1/255, less `center`.

    What a layer with padding reads beyond the edge is black.
    """
    stride, padding, bias = layer.stride, layer.padding, layer.bias
    assert not isinstance(padding, str), "padding is a number of pixels"
    if center:
        assert bias is not None, "there is nothing to take the center from"
        # Every window holds it once for each weight: no pixel has to be changed.
        bias = bias - center * layer.weight.sum((1, 2, 3))
    # What torch.compile makes keeps bytes as well, and it cannot trace a gradient by hand.
    if torch.is_grad_enabled() and images.is_cpu and not torch.compiler.is_compiling():
        return _first_convolution(channels_last(images), layer.weight, bias, stride, padding)
    return F.conv2d(image_floats(images), scaled_weight(layer.weight), bias, stride, padding)


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
        stride: tuple[int, ...],
        padding: tuple[int, ...],
    ) -> Tensor:
        """Return the convolution and keep what its gradient needs."""
        float_type = _float_type(images)
        scaled = scaled_weight(weight).to(float_type)
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


class ImageNetwork(nn.Module, ABC):
    """A network over uint8 images, scaled by 1/255, in pieces of at most `rows_at_once` rows."""

    rows_at_once: int

    def forward(self, images: Tensor) -> Tensor:
        """Return [N, outputs] of images [N, channels, height, width]."""
        if images.shape[0] <= self.rows_at_once:
            return self._piece(images)
        return torch.cat([self._piece(piece) for piece in images.split(self.rows_at_once)])

    @abstractmethod
    def _piece(self, images: Tensor) -> Tensor: ...


NATURE_MINIMUM = 36
"""The smallest height and width the three convolutions leave anything of."""
NATURE_BATCH = 256
"""Larger batches go through in pieces: their buffers would not be reused by the allocator, which
cost 15 % at 512 rows of 4x84x84."""


class NatureCnn(ImageNetwork):
    """Three convolutions and a linear layer (Mnih et al. 2015)."""

    rows_at_once = NATURE_BATCH

    def __init__(
        self, shape: tuple[int, int, int], *, outputs: int = 512, noise_scale: float = 0.0
    ) -> None:
        super().__init__()
        channels, height, width = shape
        self.outputs = outputs
        self.first = nn.Conv2d(channels, 32, 8, 4)
        self.second = nn.Conv2d(32, 64, 4, 2)
        self.third = nn.Conv2d(64, 64, 3, 1)
        for layer in (self.first, self.second, self.third):
            initialize_convolution(layer)
        left = 64 * math.prod(_left(_left(_left(s, 8, 4), 4, 2), 3, 1) for s in (height, width))
        self.last = linear_layer(left, outputs, gain=math.sqrt(2.0), noise_scale=noise_scale)

    def _piece(self, images: Tensor) -> Tensor:
        x = first_convolution(self.first, images).relu_()
        x = self.second(x).relu_()
        x = self.third(x).relu_()
        result: Tensor = self.last(flat(x)).relu_()
        return result


def initialize_convolution(layer: nn.Conv2d, gain: float = math.sqrt(2.0)) -> None:
    """Give a convolution orthogonal weights and a zero bias."""
    nn.init.orthogonal_(layer.weight, gain)
    assert layer.bias is not None
    nn.init.zeros_(layer.bias)


IMPALA_CHANNELS = (16, 32, 32)
IMPALA_BATCH = 64
"""Rows per piece: the first stage's buffers then stay in the cache's reach."""


class _Residual(nn.Module):
    """Two convolutions beside the identity."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, channels, 3, padding=1)
        self.second = nn.Conv2d(channels, channels, 3, padding=1)
        initialize_convolution(self.first)
        # A small second convolution starts the block near the identity.
        initialize_convolution(self.second, gain=0.1)

    def forward(self, x: Tensor) -> Tensor:
        """Return the same shape as `x`."""
        result: Tensor = x + self.second(self.first(x.relu()).relu_())
        return result


class _Stage(nn.Module):
    """A convolution, a pooling that halves the image, and two residual blocks."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.entry = nn.Conv2d(inputs, outputs, 3, padding=1)
        self.blocks = nn.ModuleList((_Residual(outputs), _Residual(outputs)))
        initialize_convolution(self.entry, gain=1.0)

    def forward(self, x: Tensor, weight: Tensor) -> Tensor:
        """Return the stage's output; `weight` stands for the entry's own."""
        x = F.conv2d(x, weight, self.entry.bias, padding=1)
        x = F.max_pool2d(x, 3, 2, padding=1)
        for block in self.blocks:
            x = block(x)
        return x


class ImpalaCnn(ImageNetwork):
    """Three residual stages and a linear layer (Espeholt et al. 2018)."""

    rows_at_once = IMPALA_BATCH

    def __init__(
        self,
        shape: tuple[int, int, int],
        *,
        outputs: int = 256,
        width: int = 1,
        noise_scale: float = 0.0,
    ) -> None:
        super().__init__()
        channels = [shape[0], *(width * count for count in IMPALA_CHANNELS)]
        self.outputs = outputs
        self.stages = nn.ModuleList(
            _Stage(channels[index], channels[index + 1]) for index in range(len(IMPALA_CHANNELS))
        )
        left = channels[-1] * math.prod(-(-size // 8) for size in shape[1:])
        self.last = linear_layer(left, outputs, gain=math.sqrt(2.0), noise_scale=noise_scale)

    def _piece(self, images: Tensor) -> Tensor:
        x = image_floats(images)
        for index, stage in enumerate(self.stages):
            assert isinstance(stage, _Stage)
            x = stage(x, stage.entry.weight if index else scaled_weight(stage.entry.weight))
        result: Tensor = self.last(flat(x.relu_())).relu_()
        return result


LARGE = 36
"""From this height and width on, an image has pixels to be gathered, not tiles to be read."""
CENTER = 0.5
"""Taken from scaled pixels. Most of a picture is bright in every state: features then have most of
their size in common, and what the value learns by them drowns what the policy does. On 84x84
pixels of a console game gradients were about four times as long without it, and runs explained
0.23 to 0.33 of the returns after 100,000 steps, not 0.45. Planes of tiles are mostly
zeros and stay as they are."""
LEAN_BATCH = 512
LEAN_VALUES = 128 * 4 * 84 * 84
"""Larger batches, in rows and in pixels, go through in pieces, whose buffers the allocator uses
again: 512 rows of 4x84x84 are 58 MB of floats, which would be fresh memory each time."""


class LeanCnn(ImageNetwork):
    """Two convolutions and a linear layer.

    Images of pixels are centered and read with the 8x8 and 4x4 windows of the first paper on DQN,
    smaller ones, whose cells are things, with 3x3 windows. Where those do not come out even they
    reach one cell beyond the edge: every cell is read, also the lowest rows, often the ground.
    """

    def __init__(
        self, shape: tuple[int, int, int], *, outputs: int = 256, noise_scale: float = 0.0
    ) -> None:
        super().__init__()
        channels, height, width = shape
        self.shape = shape
        self.outputs = outputs
        self.rows_at_once = max(1, min(LEAN_BATCH, LEAN_VALUES // math.prod(shape)))
        has_pixels = min(height, width) >= LARGE
        self.center = CENTER if has_pixels else 0.0
        if has_pixels:
            self.first = nn.Conv2d(channels, 16, 8, 4)
            self.second = nn.Conv2d(16, 32, 4, 2)
            left = math.prod(_left(_left(s, 8, 4), 4, 2) for s in (height, width))
        else:
            self.first = nn.Conv2d(channels, 16, 3, 2, (_edge(height), _edge(width)))
            height, width = _halved(height), _halved(width)
            self.second = nn.Conv2d(16, 32, 3, 2, (_edge(height), _edge(width)))
            left = _halved(height) * _halved(width)
        for layer in (self.first, self.second):
            initialize_convolution(layer)
        self.last = linear_layer(32 * left, outputs, gain=math.sqrt(2.0), noise_scale=noise_scale)

    def _piece(self, images: Tensor) -> Tensor:
        x = first_convolution(self.first, images, center=self.center).relu_()
        x = self.second(x).relu_()
        result: Tensor = self.last(flat(x)).relu_()
        return result


def _left(size: int, window: int, stride: int) -> int:
    """Return what a convolution leaves of a height or width."""
    return (size - window) // stride + 1


def _edge(size: int) -> int:
    """Return how far windows of three with a stride of two reach beyond the edge to read all."""
    return 0 if size % 2 and size >= 3 else 1


def _halved(size: int) -> int:
    return _left(size + 2 * _edge(size), 3, 2)

"""Image trunks equal their textbook form."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from longhaul.nets.cnn import (
    CENTER,
    LARGE,
    ImpalaCnn,
    LeanCnn,
    NatureCnn,
    _Residual,
    _Stage,
    channels_last,
    flat,
)


def textbook_nature(cnn: NatureCnn, images: Tensor) -> Tensor:
    x = images.float() / 255.0
    for layer in (cnn.first, cnn.second, cnn.third):
        x = F.relu(layer(x))
    return F.relu(cnn.last(x.flatten(1)))


def textbook_lean(cnn: LeanCnn, images: Tensor) -> Tensor:
    x = images.float() / 255.0
    if min(x.shape[2:]) >= LARGE:
        x = x - CENTER
    for layer in (cnn.first, cnn.second):
        x = F.relu(layer(x))
    return F.relu(cnn.last(x.flatten(1)))


def textbook_impala(cnn: ImpalaCnn, images: Tensor) -> Tensor:
    x = images.float() / 255.0
    for stage in cnn.stages:
        assert isinstance(stage, _Stage)
        x = F.max_pool2d(stage.entry(x), 3, 2, padding=1)
        for block in stage.blocks:
            assert isinstance(block, _Residual)
            inner = F.relu(block.first(F.relu(x)))
            x = x + block.second(inner)
    return F.relu(cnn.last(F.relu(x).flatten(1)))


def textbook(cnn: NatureCnn | ImpalaCnn | LeanCnn, images: Tensor) -> Tensor:
    if isinstance(cnn, NatureCnn):
        return textbook_nature(cnn, images)
    return textbook_lean(cnn, images) if isinstance(cnn, LeanCnn) else textbook_impala(cnn, images)


def assert_same(cnn: NatureCnn | ImpalaCnn | LeanCnn, images: Tensor) -> None:
    expected_value = textbook(cnn, images)
    found_value = cnn(images)
    torch.testing.assert_close(found_value, expected_value, atol=1e-5, rtol=1e-5)
    weight = torch.randn_like(expected_value)
    expected = torch.autograd.grad((expected_value * weight).sum(), list(cnn.parameters()))
    found = torch.autograd.grad((found_value * weight).sum(), list(cnn.parameters()))
    for ours, theirs in zip(found, expected, strict=True):
        scale = float(theirs.abs().max())
        torch.testing.assert_close(ours / scale, theirs / scale, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("shape", [(4, 84, 84), (3, 40, 37), (1, 36, 36)])
def test_nature_equals_plain_convolutions(shape: tuple[int, int, int]) -> None:
    torch.manual_seed(1)
    cnn = NatureCnn(shape, outputs=20)
    assert_same(cnn, torch.randint(0, 256, (3, *shape), dtype=torch.uint8))


@pytest.mark.parametrize("shape", [(4, 84, 84), (10, 13, 16), (2, 7, 7), (1, 1, 2)])
def test_lean_equals_plain_convolutions(shape: tuple[int, int, int]) -> None:
    torch.manual_seed(4)
    cnn = LeanCnn(shape, outputs=20)
    assert_same(cnn, torch.randint(0, 256, (3, *shape), dtype=torch.uint8))


@pytest.mark.parametrize("shape", [(4, 84, 84), (10, 13, 16), (3, 8, 35)])
def test_lean_reads_every_cell(shape: tuple[int, int, int]) -> None:
    torch.manual_seed(7)
    cnn = LeanCnn(shape, outputs=64)
    image = torch.randint(0, 256, (1, *shape), dtype=torch.uint8)
    _, height, width = shape
    changed = image.repeat(height + width, 1, 1, 1)
    for row in range(height):
        changed[row, :, row] = 255 - changed[row, :, row]
    for column in range(width):
        changed[height + column, ..., column] = 255 - changed[height + column, ..., column]
    with torch.no_grad():
        differs = (cnn(changed) - cnn(image)).abs().amax(1) > 1e-6
    assert differs.all(), "a row or column is never looked at"


@pytest.mark.parametrize("shape", [(3, 24, 17), (1, 8, 8)])
def test_impala_equals_plain_convolutions(shape: tuple[int, int, int]) -> None:
    torch.manual_seed(2)
    cnn = ImpalaCnn(shape, outputs=20, width=2)
    assert_same(cnn, torch.randint(0, 256, (3, *shape), dtype=torch.uint8))


def test_pieces_of_a_large_batch_add_up_to_its_gradient() -> None:
    torch.manual_seed(5)
    cnn = LeanCnn((4, 84, 84), outputs=4)
    images = torch.randint(0, 256, (cnn.rows_at_once + 7, 4, 84, 84), dtype=torch.uint8)
    assert_same(cnn, images)


def test_bytes_are_all_that_the_first_convolution_keeps() -> None:
    torch.manual_seed(6)
    cnn = LeanCnn((4, 84, 84), outputs=4)
    images = torch.randint(0, 256, (8, 4, 84, 84), dtype=torch.uint8)
    kept: list[Tensor] = []

    def keep(tensor: Tensor) -> Tensor:
        kept.append(tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        cnn(images)
    large = [tensor for tensor in kept if tensor.numel() >= images.numel()]
    assert [tensor.dtype for tensor in large] == [torch.uint8]


def test_a_second_derivative_is_refused() -> None:
    cnn = LeanCnn((1, 40, 40), outputs=4)
    value = cnn(torch.zeros(2, 1, 40, 40, dtype=torch.uint8)).sum()
    with pytest.raises(NotImplementedError, match="no second derivatives"):
        torch.autograd.grad(value, list(cnn.parameters()), create_graph=True)


def test_a_large_batch_goes_through_in_pieces_unchanged() -> None:
    torch.manual_seed(3)
    for cnn, side in (
        (NatureCnn((1, 36, 36), outputs=8), 36),
        (ImpalaCnn((1, 12, 12), outputs=8), 12),
        (LeanCnn((1, 12, 12), outputs=8), 12),
    ):
        images = torch.randint(0, 256, (600, 1, side, side), dtype=torch.uint8)
        with torch.inference_mode():
            whole = cnn(images)
            torch.testing.assert_close(whole[590:], cnn(images[590:]), atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("shape", [(4, 84, 84), (3, 7, 9), (1, 5, 6), (21, 13, 16), (2, 1, 3)])
@pytest.mark.parametrize("count", [0, 1, 5])
def test_channels_move_last_and_no_pixel_changes(shape: tuple[int, int, int], count: int) -> None:
    images = torch.randint(0, 256, (count, *shape), dtype=torch.uint8)
    moved = channels_last(images)
    assert torch.equal(moved, images)
    assert moved.is_contiguous(memory_format=torch.channels_last)


def test_images_in_any_order_of_memory_get_their_channels_last() -> None:
    images = torch.randint(0, 256, (6, 4, 10, 8), dtype=torch.uint8)
    for view in (images[::2], images.transpose(2, 3), images[:, 1:], images[..., 2:]):
        moved = channels_last(view)
        assert torch.equal(moved, view)
        assert moved.is_contiguous(memory_format=torch.channels_last)


def test_the_gradient_of_flat_activations_has_their_order_of_memory() -> None:
    leaf = torch.randn(3, 4, 5, 6).contiguous(memory_format=torch.channels_last).requires_grad_()
    orders: list[bool] = []
    weight = torch.randn(3, 120)
    images = leaf * 1.0
    flattened = flat(images)
    images.register_hook(
        lambda grad: orders.append(grad.is_contiguous(memory_format=torch.channels_last))
    )
    (flattened * weight).sum().backward()
    assert orders == [True]
    assert leaf.grad is not None
    assert torch.equal(leaf.grad, weight.view(3, 4, 5, 6))

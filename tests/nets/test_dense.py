"""Quick layers equal plain ones."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from longhaul.nets.config import Activation
from longhaul.nets.dense import Mlp, feed_forward

PLAIN = {"tanh": torch.tanh, "relu": torch.relu, "silu": F.silu, "gelu": F.gelu}


def plain(mlp: Mlp, x: Tensor) -> Tensor:
    for layer in mlp.layers:
        x = PLAIN[mlp.activation](layer(x))
    return x


@pytest.mark.parametrize("activation", ["tanh", "relu", "silu", "gelu"])
@pytest.mark.parametrize(("rows", "inputs"), [(3, 4), (300, 4), (300, 80)])
def test_a_stack_of_layers_equals_torch_in_value_and_gradient(
    activation: Activation, rows: int, inputs: int
) -> None:
    torch.manual_seed(rows)
    mlp = Mlp(inputs, (32, 48), activation=activation)
    x = torch.randn(rows, inputs, requires_grad=True)
    weight = torch.randn(rows, 48)
    wanted = [x, *mlp.parameters()]
    expected = torch.autograd.grad((plain(mlp, x) * weight).sum(), wanted)
    found = torch.autograd.grad((mlp(x) * weight).sum(), wanted)
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-4)
    with torch.inference_mode():
        torch.testing.assert_close(mlp(x), plain(mlp, x), atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("activation", ["tanh", "relu"])
def test_the_written_out_gradient_passes_a_numerical_check(activation: Activation) -> None:
    torch.manual_seed(0)
    x, first, second = (
        torch.randn(*shape, dtype=torch.float64, requires_grad=True)
        for shape in ((5, 3), (4, 3), (6, 4))
    )
    biases = [torch.randn(size, dtype=torch.float64, requires_grad=True) for size in (4, 6)]

    def run(x: Tensor, first: Tensor, second: Tensor, *biases: Tensor) -> Tensor:
        return feed_forward(x, [(first, biases[0]), (second, biases[1])], activation)

    assert torch.autograd.gradcheck(run, (x, first, second, *biases))


def test_a_stack_without_layers_is_the_identity() -> None:
    x = torch.randn(3, 4)
    assert Mlp(4, ())(x) is x


def test_layers_start_orthogonal() -> None:
    torch.manual_seed(0)
    weight = Mlp(8, (8,)).layers[0].weight
    assert isinstance(weight, Tensor)
    torch.testing.assert_close(weight @ weight.t(), 2.0 * torch.eye(8), atol=1e-5, rtol=0.0)


def test_a_second_derivative_is_refused_rather_than_wrong() -> None:
    x = torch.randn(3, 4, requires_grad=True)
    with pytest.raises(NotImplementedError, match="no second derivatives"):
        torch.autograd.grad(Mlp(4, (8,))(x).sum(), x, create_graph=True)

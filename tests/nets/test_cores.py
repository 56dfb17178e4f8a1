"""Memories against torch's own cells and a literal transformer."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from longhaul.core.rollout import Memory, clear_started
from longhaul.nets.recurrent import Gru, Lstm, SequenceCore, Transformer, _Layer

STEPS, ROWS, INPUTS, SIZE = 7, 5, 3, 8


def make(kind: str) -> SequenceCore:
    torch.manual_seed(4)
    core: SequenceCore
    if kind == "gru":
        core = Gru(INPUTS, SIZE)
    elif kind == "lstm":
        core = Lstm(INPUTS, SIZE)
    else:
        core = Transformer(INPUTS, SIZE, layers=2, heads=2, memory_length=3)
    with torch.no_grad():
        for parameter in core.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.3)
    return core


def episodes() -> tuple[Tensor, Tensor]:
    source = torch.Generator().manual_seed(2)
    features = torch.randn(STEPS, ROWS, INPUTS, generator=source)
    started = torch.rand(STEPS, ROWS, generator=source) < 0.25
    started[:, 0] = False
    started[0, 1] = True
    return features, started


def stepped(core: SequenceCore, memory: Memory) -> tuple[Tensor, Memory]:
    features, started = episodes()
    outputs = []
    for t in range(STEPS):
        output, memory = core.step(features[t], clear_started(memory, started[t]))
        outputs.append(output)
    return torch.stack(outputs), memory


def warm(core: SequenceCore) -> Memory:
    """Return a memory in mid-episode."""
    with torch.no_grad():
        return stepped(core, core.initial_state(ROWS))[1]


@pytest.mark.parametrize("kind", ["gru", "lstm", "transformer"])
def test_a_sequence_equals_its_steps_in_value_gradient_and_memory(kind: str) -> None:
    core = make(kind)
    features, started = episodes()
    expected, expected_memory = stepped(core, warm(core))
    found, found_memory = core.sequence(features, warm(core), started)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)
    if kind == "transformer":
        assert torch.equal(found_memory["valid"], expected_memory["valid"])
        for row, valid in enumerate(found_memory["valid"].tolist()):
            ours, theirs = (
                memory["tokens"][row, :, 3 - valid :] for memory in (found_memory, expected_memory)
            )
            torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-5)
        return  # stepping cuts the gradient at the memory, on purpose
    for name, part in found_memory.items():
        torch.testing.assert_close(part, expected_memory[name], atol=1e-5, rtol=1e-5)
    weight = torch.randn_like(expected)
    wanted = list(core.parameters())
    of_found = torch.autograd.grad((found * weight).sum(), wanted)
    of_expected = torch.autograd.grad((expected * weight).sum(), wanted)
    for one, other in zip(of_found, of_expected, strict=True):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("kind", ["gru", "lstm"])
def test_recurrent_cores_equal_torch(kind: str) -> None:
    core = make(kind)
    theirs = nn.GRU(INPUTS, SIZE) if kind == "gru" else nn.LSTM(INPUTS, SIZE)
    theirs.load_state_dict({f"{name}_l0": part for name, part in core.state_dict().items()})
    features, started = episodes()
    memory = warm(core)
    states = tuple(part.unsqueeze(0) for part in memory.values())
    expected, after = theirs(features, states[0] if kind == "gru" else states)
    found, found_memory = core.sequence(features, memory, torch.zeros_like(started))
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)
    last = (after,) if kind == "gru" else after
    for ours, other in zip(found_memory.values(), last, strict=True):
        torch.testing.assert_close(ours, other[0], atol=1e-5, rtol=1e-5)
    weight = torch.randn_like(expected)
    one = torch.autograd.grad((found * weight).sum(), list(core.parameters()))
    two = torch.autograd.grad((expected * weight).sum(), list(theirs.parameters()))
    for ours, other in zip(one, two, strict=True):
        torch.testing.assert_close(ours, other, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("kind", ["gru", "lstm"])
def test_gradients_reach_the_first_memory_and_the_last_cell(kind: str) -> None:
    core = make(kind)
    features, started = episodes()

    def run(keep: Tensor, memory: Memory, stepping: bool) -> tuple[Tensor, ...]:  # noqa: FBT001
        leaves = {name: part.clone().requires_grad_() for name, part in memory.items()}
        if stepping:
            outputs, after = stepped(core, leaves)
        else:
            outputs, after = core.sequence(features, leaves, started)
        total = (outputs * keep).sum() + sum(part.square().sum() for part in after.values())
        return torch.autograd.grad(total, list(leaves.values()))

    keep = torch.randn(STEPS, ROWS, SIZE)
    memory = warm(core)
    for one, other in zip(
        run(keep, memory, False),  # noqa: FBT003
        run(keep, memory, True),  # noqa: FBT003
        strict=True,
    ):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-4)


def literal_layer(layer: _Layer, tokens: list[Tensor]) -> Tensor:
    """Return the output for the last token [size], which may look at all of them."""
    size = tokens[-1].shape[0]
    width = size // layer.heads
    normed = [layer.attention_norm(token) for token in tokens]
    query = layer.query(normed[-1])
    seen = torch.zeros(size)
    for head in range(layer.heads):
        own = slice(head * width, (head + 1) * width)
        scores = []
        values = []
        for index, token in enumerate(normed):
            key, value = layer.key_value(token).chunk(2)
            distance = len(tokens) - 1 - index
            bias = layer.distance_bias[head, distance]
            scores.append(query[own] @ key[own] / math.sqrt(width) + bias)
            values.append(value[own])
        weights = torch.softmax(torch.stack(scores), 0)
        seen[own] = sum(
            (weight * value for weight, value in zip(weights, values, strict=True)),
            torch.zeros(width),
        )
    x = tokens[-1] + layer.attention_scale * layer.attended(seen)
    inner = F.gelu(layer.widen(layer.forward_norm(x)))
    result: Tensor = x + layer.forward_scale * layer.narrow(inner)
    return result


def test_the_transformer_equals_a_literal_one() -> None:
    core = make("transformer")
    assert isinstance(core, Transformer)
    features, started = episodes()
    with torch.no_grad():
        found, _ = core.sequence(features, core.initial_state(ROWS), started)
        for row in range(ROWS):
            inputs: list[list[Tensor]] = [[] for _ in core.layers]
            for t in range(STEPS):
                if started[t, row]:
                    inputs = [[] for _ in core.layers]
                x = core.entry(features[t, row])
                for earlier, layer in zip(inputs, core.layers, strict=True):
                    assert isinstance(layer, _Layer)
                    earlier.append(x)
                    x = literal_layer(layer, earlier[-core.memory_length - 1 :])
                torch.testing.assert_close(found[t, row], core.exit_norm(x), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("kind", ["gru", "lstm", "transformer"])
def test_nothing_of_an_earlier_episode_is_remembered(kind: str) -> None:
    core = make(kind)
    features, started = episodes()
    started[3] = True
    changed = features.clone()
    changed[:3] += 1.0
    with torch.no_grad():
        one, _ = core.sequence(features, warm(core), started)
        other, _ = core.sequence(changed, core.initial_state(ROWS), started)
    assert torch.equal(one[3:], other[3:])
    assert not torch.equal(one[:3], other[:3])

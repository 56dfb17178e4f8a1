from __future__ import annotations

import torch
from torch import nn

from longhaul.learn.config import PPOConfig
from longhaul.learn.optimizer import AdamW

CONFIG = PPOConfig(weight_decay=0.05, adam_beta1=0.8, adam_beta2=0.95, adam_epsilon=1e-6)


def two_layers() -> nn.Sequential:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(3, 5), nn.Linear(5, 2))


def test_it_is_torchs_fused_adamw_bit_for_bit() -> None:
    ours, theirs = two_layers(), two_layers()
    adam = AdamW(dict(ours.named_parameters()), CONFIG)
    reference = torch.optim.AdamW(
        theirs.parameters(), lr=0.01, betas=(0.8, 0.95), eps=1e-6, weight_decay=0.05, fused=True
    )
    draw = torch.Generator().manual_seed(1)
    for step in range(6):
        for left, right in zip(ours.parameters(), theirs.parameters(), strict=True):
            gradient = torch.randn(left.shape, generator=draw)
            left.grad, right.grad = gradient.clone(), gradient.clone()
        if step == 2:  # a layer no output used
            for unused in (*ours[0].parameters(), *theirs[0].parameters()):
                unused.grad = None
        adam.step(0.01, gradient_divisor=1.0)
        reference.step()
    for left, right in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert torch.equal(left, right)
    assert adam.steps["0.weight"] == 5
    assert adam.steps["1.weight"] == 6


def test_dividing_inside_the_step_shortens_the_gradient() -> None:
    ours, theirs = two_layers(), two_layers()
    results = []
    for layers, shorten in ((ours, 4.0), (theirs, 1.0)):
        adam = AdamW(dict(layers.named_parameters()), CONFIG)
        for parameter in layers.parameters():
            parameter.grad = torch.full_like(parameter, 2.0) / (4.0 / shorten)
        adam.step(0.01, gradient_divisor=shorten)
        results.append(adam.exp_avg["0.weight"])
    torch.testing.assert_close(*results)

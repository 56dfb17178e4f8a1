"""Policies of every kind that native code computes, and rollouts they could have played."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from longhaul.core.policy import NO_NOISE, Policy
from longhaul.core.rollout import Bootstrap, Rollout, TensorTree
from longhaul.core.settings import Settings
from longhaul.core.spaces import ActionSpec, Continuous, Discrete, EnvSpec, MultiDiscrete, Part
from longhaul.nets.actor_critic import ActorCritic, build_policy
from longhaul.nets.config import PolicyConfig


@dataclass(frozen=True)
class Case:
    """One network, and what it sees and does."""

    action: ActionSpec
    policy: Mapping[str, Any] = field(default_factory=dict)
    inputs: int = 5
    masked: bool = False
    images: tuple[tuple[int, int, int], ...] = ()

    @property
    def spec(self) -> EnvSpec:
        """Return the shapes of what is seen and done."""
        parts = {f"image{n}": Part(shape, "uint8") for n, shape in enumerate(self.images)}
        if self.inputs:
            parts["x"] = Part((self.inputs,), "float32")
        return EnvSpec("case", parts, self.action, has_masks=self.masked)

    def build(self, seed: int = 0) -> ActorCritic:
        """Return the policy with weights that are not tiny, so that all gradients matter."""
        spec = self.spec
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            policy = build_policy(spec, PolicyConfig(**self.policy))
            with torch.no_grad():
                for parameter in policy.parameters():
                    parameter.add_(0.1 * torch.randn_like(parameter))
        return policy

    def rollout(
        self, policy: Policy, settings: Settings, *, seed: int, steps: int = 37, rows: int = 11
    ) -> Rollout:
        """Return random observations with the actions of a policy that is a little off."""
        torch_generator = torch.Generator().manual_seed(seed)
        random = np.random.default_rng(seed)

        def normal(*shape: int) -> torch.Tensor:
            return torch.from_numpy(random.standard_normal(shape).astype(np.float32))

        def chance(share: float) -> torch.Tensor:
            return torch.from_numpy(random.random((steps, rows)) < share)

        def look(*shape: int) -> TensorTree:
            """Return what is seen; nearly all numbers of images are equal, as in games."""
            found = {}
            for name, part in self.spec.observation.items():
                if part.dtype == "uint8":
                    bytes_ = 255 * (random.random((*shape, *part.shape)) < 0.2)
                    found[name] = torch.from_numpy(bytes_.astype(np.uint8))
                else:
                    found[name] = normal(*shape, *part.shape)
            return found

        obs = look(steps, rows)
        mask = None
        if self.masked:
            assert isinstance(policy, ActorCritic)
            width = sum(policy.policy_head.choices)
            mask = torch.from_numpy(random.random((steps, rows, width)) < 0.7)
            mask[..., [0, -1]] = True
        with torch.no_grad():
            flat = {name: part.flatten(0, 1) for name, part in obs.items()}
            flat_mask = None if mask is None else mask.flatten(0, 1)
            act = policy.act(flat, {}, settings, mask=flat_mask, generator=torch_generator)
        none = _bootstrap(torch.zeros(0, dtype=torch.int64), look(0), 0)
        last = _bootstrap(torch.arange(rows), look(rows), steps - 1)
        no = torch.zeros(steps, rows, dtype=torch.bool)
        return Rollout(
            obs=obs,
            action=act.action.unflatten(0, (steps, rows)),
            log_prob=act.log_prob.view(steps, rows) + 0.3 * normal(steps, rows),
            value=act.value.view(steps, rows) + 0.3 * normal(steps, rows),
            reward=normal(steps, rows),
            terminated=chance(0.05),
            truncated=no,
            started=no,
            active=~chance(0.1),
            forced=chance(0.1),
            lost=no,
            mask=mask,
            memory={},
            chunk=steps,
            truncations=none,
            last=last,
            episodes=(),
            terms={},
            noise_seed=NO_NOISE,
            env_steps=steps * rows,
        )


def _bootstrap(rows: torch.Tensor, obs: TensorTree, step: int) -> Bootstrap:
    """Return observations of these rows after a step, of no value."""
    return Bootstrap(torch.full_like(rows, step), rows, obs, {}, torch.zeros(len(rows)))


SMALL = {"hidden": (24, 40)}
TILES = {"trunk": "lean", "image_features": 21, "activation": "relu"}
CASES = {
    "separate": Case(Discrete(3), SMALL),
    "shared": Case(Discrete(2), {"hidden": (64, 64), "value_network": "shared"}),
    "joint": Case(Discrete(4), {**SMALL, "value_network": "shared", "joint": (17,)}),
    "relu": Case(Discrete(7), {**SMALL, "activation": "relu"}),
    "one-layer": Case(Discrete(2), {"hidden": (8,)}, inputs=33),
    "linear": Case(Discrete(2), {"hidden": ()}),
    "masked": Case(Discrete(23), SMALL, masked=True),
    "choices": Case(MultiDiscrete((3, 2, 5)), SMALL),
    "masked-choices": Case(MultiDiscrete((3, 4)), SMALL, masked=True),
    "gaussian": Case(Continuous((-1.0,) * 3, (1.0,) * 3), SMALL),
    "shared-gaussian": Case(
        Continuous((-1.0,), (1.0,)), {"hidden": (32,), "value_network": "shared"}
    ),
    "tiles": Case(
        Discrete(7),
        {**TILES, "hidden": (20,), "joint": (24,)},
        inputs=13,
        images=((10, 13, 16),),
    ),
    "tiles-alone": Case(Discrete(3), TILES, inputs=0, images=((4, 6, 9),)),
    "two-images": Case(
        Discrete(3), {**TILES, "hidden": (9,)}, images=((1, 5, 5), (3, 8, 7)), masked=True
    ),
    "normalized": Case(Discrete(3), {**SMALL, "normalize_observations": True}),
}

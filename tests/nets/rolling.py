"""A fake environment rolled through `act`, for comparison with `evaluate_actions`."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from longhaul.core.policy import Act
from longhaul.core.rollout import Memory, Sequences, clear_started
from longhaul.core.settings import Settings
from longhaul.core.spaces import ActionSpec, Continuous, Discrete, EnvSpec, MultiDiscrete, Part
from longhaul.nets.actor_critic import ActorCritic

SETTINGS = Settings([])
VECTOR = {"obs": Part((4,))}
MIXED = {"image": Part((2, 40, 36), "uint8"), "speed": Part((3,)), "goal": Part((2, 2))}
ACTIONS: dict[str, ActionSpec] = {
    "categorical": Discrete(5),
    "multi": MultiDiscrete((3, 2, 4)),
    "continuous": Continuous((-1.0, -1.0), (1.0, 1.0)),
}


@dataclass(frozen=True)
class Rolled:
    """What a policy did over some steps, and the sequences that tell it again."""

    sequences: Sequences
    log_prob: Tensor  # [L, B]
    value: Tensor  # [L, B]
    memory: Memory  # after the last step


def random_obs(spec: EnvSpec, shape: tuple[int, ...], source: torch.Generator) -> dict[str, Tensor]:
    obs = {}
    for name, part in spec.observation.items():
        if part.dtype == "uint8":
            obs[name] = torch.randint(
                0, 256, (*shape, *part.shape), dtype=torch.uint8, generator=source
            )
        else:
            obs[name] = torch.randn(*shape, *part.shape, generator=source)
    return obs


def random_mask(spec: EnvSpec, rows: int, source: torch.Generator) -> Tensor | None:
    if not spec.has_masks:
        return None
    return torch.rand(rows, spec.choices, generator=source) < 0.6


def roll(
    policy: ActorCritic,
    spec: EnvSpec,
    *,
    steps: int,
    rows: int,
    seed: int,
    memory: Memory | None = None,
    noise_seed: int = 3,
) -> Rolled:
    """Act for some steps with episodes that end at random; continue from `memory` if given."""
    source = torch.Generator().manual_seed(seed)
    policy.set_noise(noise_seed)
    memory = before = policy.initial_state(rows) if memory is None else memory
    started = torch.rand(steps, rows, generator=source) < 0.2
    obs = random_obs(spec, (steps, rows), source)
    acts: list[Act] = []
    masks = []
    with torch.inference_mode():
        for t in range(steps):
            mask = random_mask(spec, rows, source)
            memory = clear_started(memory, started[t])
            acts.append(
                policy.act(
                    {name: part[t] for name, part in obs.items()},
                    memory,
                    SETTINGS,
                    mask=mask,
                    generator=source,
                )
            )
            memory = acts[-1].memory
            masks.append(mask)
    known = [mask for mask in masks if mask is not None]
    return Rolled(
        sequences=Sequences(
            obs=obs,
            action=torch.stack([act.action for act in acts]).clone(),
            started=started,
            mask=torch.stack(known) if known else None,
            memory={name: part.clone() for name, part in before.items()},
            noise_seed=noise_seed,
        ),
        log_prob=torch.stack([act.log_prob for act in acts]),
        value=torch.stack([act.value for act in acts]),
        memory={name: part.clone() for name, part in memory.items()},
    )

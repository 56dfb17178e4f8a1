"""What the network thought in each step of an episode that was played again."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from longhaul.core.evaluation import Playback
from longhaul.core.settings import Settings
from longhaul.tasks.nethack.policy import health as losses
from longhaul.tasks.nethack.policy.network import ExpertPolicy
from longhaul.tasks.nethack.vocabulary import ATOM_BITS

Floats = NDArray[np.float32]
Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Track:
    """One episode and what the network thought in each of its T steps."""

    played: Playback
    atoms: NDArray[np.uint8]  # [T, C]
    alpha: Floats  # [T, K]
    situation: Integers  # [T]
    score: Floats  # [T, R], of each rule
    match: Floats  # [T, R]
    likeness: Floats  # [T, K, K]
    logits: Floats  # [T, K, A], of each expert
    intent: Floats  # [T, G]
    chances: Floats  # [T, A], of each choice, under the mask

    @property
    def leading(self) -> Integers:
        """[T], the expert that weighs most."""
        return np.asarray(self.alpha.argmax(1))


@torch.no_grad()
def follow(policy: ExpertPolicy, settings: Settings, played: Playback) -> Track:
    """Return what the network thought in an episode of an env with one row."""
    obs = {name: torch.from_numpy(part[:, 0]) for name, part in played.obs.items()}
    mask = None if played.mask is None else torch.from_numpy(played.mask[:, 0])
    thought = policy.think(obs, settings)
    return Track(
        played=played,
        atoms=played.obs[ATOM_BITS][:, 0],
        alpha=thought.alpha.numpy(),
        situation=policy.situations.forward(obs[ATOM_BITS]).numpy(),
        score=thought.spoken.score.numpy(),
        match=policy.graph.patterns.match(obs[ATOM_BITS].float()).numpy(),
        likeness=losses.similarity(thought.expert_logits).numpy(),
        logits=thought.expert_logits.numpy(),
        intent=thought.spoken.intent.numpy(),
        chances=policy.chances(thought, mask).numpy(),
    )

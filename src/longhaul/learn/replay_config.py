"""How a learner remembers earlier rollouts, as fixed for a run."""

from __future__ import annotations

import math
from dataclasses import dataclass

from longhaul.core.errors import ConfigError


@dataclass(frozen=True, slots=True)
class ReplayConfig:
    """Prioritized replay of short sequences; off unless `enabled`."""

    enabled: bool = False
    """Keep every rollout and learn again from the sequences that were predicted worst."""
    capacity: int = 200_000
    """Transitions to keep; fewer, with a notice, if they do not fit into `memory_megabytes`."""
    memory_megabytes: float = 2048.0
    """Most memory for what is kept, in MiB."""
    length: int = 0
    """Steps per sequence; must divide collect.steps and be a multiple of collect.chunk for a policy
    with a memory. 0 takes collect.chunk for such a policy, and for others the greatest divisor of
    collect.steps up to 16."""
    cut_room: float = 0.25
    """Room for last observations of truncated episodes within sequences, per sequence. A truncated
    step whose last observation had to make room counts as lost."""
    interval: int = 1
    """Sample after every so many rollouts. Every rollout is kept whatever this says."""
    batch: int = 256
    """Transitions per sample, rounded up to whole sequences."""
    batches: int = 1
    """Samples per time: the first optimizer steps of a rollout take in one each."""
    warm_up: int = 0
    """Transitions to keep before the first sample; at least one batch."""
    weight: float = 1.0
    """Weight of the replay loss beside that of the rollout; the setting `learn.replay_weight`."""
    policy_weight: float = 1.0
    """Weight of the policy's part within the replay loss, 0 to replay for the values only; the
    setting `learn.replay_policy_weight`."""
    alpha: float = 0.6
    """How much priorities count, 0 for not at all; the setting `learn.replay_alpha`."""
    beta: float = 0.4
    """How far importance weights correct for the priorities, 1 in full; the setting
    `learn.replay_beta`."""
    peak: float = 0.9
    """Share of the largest error in a sequence's priority, the rest is the mean error's."""
    saved: bool = True
    """Save what is kept in checkpoints. Without it they stay small, but a resumed run fills its
    memory anew and is not bit for bit the uninterrupted one."""

    def __post_init__(self) -> None:
        for name, value, low, high in (
            ("capacity", self.capacity, 1, math.inf),
            ("memory_megabytes", self.memory_megabytes, 0.0, math.inf),
            ("length", self.length, 0, math.inf),
            ("cut_room", self.cut_room, 0.0, math.inf),
            ("interval", self.interval, 1, math.inf),
            ("batch", self.batch, 1, math.inf),
            ("batches", self.batches, 1, math.inf),
            ("warm_up", self.warm_up, 0, math.inf),
            ("weight", self.weight, 0.0, math.inf),
            ("policy_weight", self.policy_weight, 0.0, math.inf),
            ("alpha", self.alpha, 0.0, 1.0),
            ("beta", self.beta, 0.0, 1.0),
            ("peak", self.peak, 0.0, 1.0),
        ):
            if not (math.isfinite(value) and low <= value <= high):
                limits = f"between {low:g} and {high:g}" if high < math.inf else f"{low:g} or more"
                raise ConfigError(f"learn.replay.{name} = {value!r} must be {limits}")

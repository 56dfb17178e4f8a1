"""How a policy learns, as fixed for a run."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from typing import Literal

from longhaul.core.errors import ConfigError
from longhaul.learn.replay_config import ReplayConfig


@dataclass(frozen=True, slots=True)
class LearnConfig:
    """The learner and its numbers; those that are settings too may change during the run."""

    algorithm: Literal["ppo", "vtrace"] = "ppo"
    """The learner: `ppo`, or `vtrace` (IMPALA), which corrects for rollouts of older weights."""
    learning_rate: float = 3e-4
    """Step size of AdamW; the first value of the setting `learn.learning_rate`."""
    discount: float = 0.99
    """How much the next step's reward is worth now; the setting `learn.discount`."""
    gae_decay: float = 0.95
    """PPO: lambda of generalised advantage estimation; 1 trusts returns, 0 trusts the values."""
    clip_range: float = 0.2
    """PPO: how far the probability ratio may leave 1; the setting `learn.clip_range`."""
    value_clip: float = 0.0
    """PPO: how far a value may move from the recorded one per rollout; 0 turns it off."""
    epochs: int = 4
    """Passes over each rollout. V-trace is usually run with 1."""
    minibatch: int = 512
    """Transitions per gradient: at most this many, in equal shares of the rollout. Rounded to whole
    sequences for policies with a memory, and to whole rows for V-trace."""
    accumulate: int = 1
    """Gradients averaged into one optimizer step, for batches larger than memory allows."""
    kl_stop: float = 0.0
    """PPO: end the epochs when the policy has moved further than 1.5 times this divergence; 0
    turns it off."""
    entropy_weight: float = 0.0
    """Weight of the entropy bonus; the setting `learn.entropy_weight`."""
    value_weight: float = 0.5
    """Weight of the value loss; the setting `learn.value_weight`."""
    max_grad_norm: float = 0.5
    """Longest gradient that is followed as it is; longer ones are shortened. 0 turns it off."""
    weight_decay: float = 0.0
    """Decoupled weight decay of AdamW."""
    adam_epsilon: float = 1e-5
    """Smallest divisor of AdamW."""
    adam_beta1: float = 0.9
    """How slowly AdamW's mean gradient moves."""
    adam_beta2: float = 0.999
    """How slowly AdamW's mean squared gradient moves."""
    normalise_advantage: bool = True
    """Shift and scale advantages to mean 0 and deviation 1: over the rollout in PPO, over each
    minibatch in V-trace."""
    normalise_reward: bool = False
    """Divide rewards by the running deviation of the discounted return."""
    reward_clip: float = 0.0
    """Largest absolute reward after normalisation; 0 turns it off."""
    rho_bar: float = 1.0
    """V-trace: largest importance weight of a step's own error."""
    c_bar: float = 1.0
    """V-trace: largest importance weight of what later steps contribute."""
    vtrace_decay: float = 1.0
    """V-trace: lambda, by which contributions of later steps fade."""
    max_bad_updates: int = 5
    """Optimizer steps in a row that may be skipped for numbers that are not finite, before the
    weights go back to those before the rollout and the learning rate is halved."""
    max_bad_rollouts: int = 3
    """Rollouts in a row that may be given up in that way before the run stops."""
    replay: ReplayConfig = field(default_factory=ReplayConfig)
    """What is kept of earlier rollouts and learned from again."""

    def __post_init__(self) -> None:
        self.validate()

    def validate(self) -> None:
        """Raise a ConfigError that names the first value out of range."""
        if self.algorithm not in ("ppo", "vtrace"):
            raise ConfigError(
                f"learn.algorithm = {self.algorithm!r} is not known; use 'ppo' or 'vtrace'"
            )
        values = asdict(self)
        for names, limits in _LIMITS.items():
            for name in names:
                limits.demand(name, values[name])


@dataclass(frozen=True, slots=True)
class _Limits:
    """The range of a number and how to say it."""

    remedy: str
    low: float
    high: float = math.inf

    def demand(self, name: str, value: float) -> None:
        if not (math.isfinite(value) and self.low <= value <= self.high):
            finite = "" if math.isfinite(value) else "a finite number "
            raise ConfigError(f"learn.{name} = {value!r} must be {finite}{self.remedy}")


_LIMITS = {
    ("epochs", "minibatch", "accumulate", "max_bad_updates", "max_bad_rollouts"): _Limits(
        "at least 1", low=1
    ),
    ("discount", "gae_decay", "vtrace_decay"): _Limits("between 0 and 1", low=0, high=1),
    ("adam_beta1", "adam_beta2"): _Limits(
        "at least 0 and below 1", low=0, high=math.nextafter(1.0, 0.0)
    ),
    ("learning_rate", "clip_range", "adam_epsilon", "rho_bar", "c_bar"): _Limits(
        "above 0", low=math.ulp(0.0)
    ),
    (
        "value_clip",
        "kl_stop",
        "entropy_weight",
        "value_weight",
        "max_grad_norm",
        "weight_decay",
        "reward_clip",
    ): _Limits("0 or more", low=0),
}

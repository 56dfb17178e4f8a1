"""How a policy learns: the config of each learner, and the settings learners read.

Schedules may change settings between rollouts; each begins with the value of a config key.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace

from longhaul.core.errors import ConfigError
from longhaul.core.settings import Setting, Settings


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
    """Steps per sequence; must divide collect.num_steps and, for a policy with a memory, be a
    multiple of collect.chunk. 0 takes collect.chunk for such a policy, and for others the greatest
    divisor of collect.num_steps up to 16."""
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


@dataclass(frozen=True, slots=True)
class OnPolicyConfig:
    """What every learner is configured with; a learner's own class adds its keys."""

    algorithm: str = "ppo"
    """The learner: `ppo`, or `vtrace` (IMPALA), which corrects for rollouts of older weights; or
    one of an installed package, by the name it gives or as `module:Class`."""
    learning_rate: float = 3e-4
    """Step size of AdamW; the first value of the setting `learn.learning_rate`."""
    gamma: float = 0.99
    """How much the next step's reward is worth now; the setting `learn.gamma`."""
    n_epochs: int = 4
    """Passes over each rollout. V-trace is usually run with 1."""
    minibatch_size: int = 512
    """Transitions per gradient: at most this many, in equal shares of the rollout. Rounded to whole
    sequences for policies with a memory, and to whole rows for V-trace."""
    accumulate: int = 1
    """Gradients averaged into one optimizer step, for batches larger than memory allows."""
    ent_coef: float = 0.0
    """Weight of the entropy bonus; the setting `learn.ent_coef`."""
    vf_coef: float = 0.5
    """Weight of the value loss; the setting `learn.vf_coef`."""
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
    normalize_advantage: bool = True
    """Shift and scale advantages to mean 0 and deviation 1: over the rollout in PPO, over each
    minibatch in V-trace."""
    normalize_reward: bool = False
    """Divide rewards by the running deviation of the discounted return."""
    reward_clip: float = 0.0
    """Largest absolute reward after normalization; 0 turns it off."""
    rho_bar: float = 1.0
    """V-trace and replay: largest importance weight of a step's own error."""
    c_bar: float = 1.0
    """V-trace and replay: largest importance weight of what later steps contribute."""
    vtrace_lambda: float = 1.0
    """V-trace and replay: lambda, by which contributions of later steps fade."""
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
        for one in fields(self):
            value = getattr(self, one.name)
            for names, limits in _LIMITS.items():
                if one.name in names:
                    limits.demand(one.name, value)
            if isinstance(value, float) and not math.isfinite(value):
                raise ConfigError(f"learn.{one.name} = {value!r} must be a finite number")


@dataclass(frozen=True, slots=True)
class PPOConfig(OnPolicyConfig):
    """Proximal policy optimization."""

    gae_lambda: float = 0.95
    """Lambda of generalized advantage estimation; 1 trusts returns, 0 trusts the values."""
    clip_range: float = 0.2
    """How far the probability ratio may leave 1; the setting `learn.clip_range`."""
    clip_range_vf: float = 0.0
    """How far a value may move from the recorded one per rollout; 0 turns it off."""
    target_kl: float = 0.0
    """End the epochs when the policy has moved further than 1.5 times this divergence; 0
    turns it off."""


@dataclass(frozen=True, slots=True)
class VTraceConfig(OnPolicyConfig):
    """V-trace; its importance weights are shared with replay."""

    algorithm: str = "vtrace"
    """The learner."""


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
    ("n_epochs", "minibatch_size", "accumulate", "max_bad_updates", "max_bad_rollouts"): _Limits(
        "at least 1", low=1
    ),
    ("gamma", "gae_lambda", "vtrace_lambda"): _Limits("between 0 and 1", low=0, high=1),
    ("adam_beta1", "adam_beta2"): _Limits(
        "at least 0 and below 1", low=0, high=math.nextafter(1.0, 0.0)
    ),
    ("learning_rate", "clip_range", "adam_epsilon", "rho_bar", "c_bar"): _Limits(
        "above 0", low=math.ulp(0.0)
    ),
    (
        "clip_range_vf",
        "target_kl",
        "ent_coef",
        "vf_coef",
        "max_grad_norm",
        "weight_decay",
        "reward_clip",
    ): _Limits("0 or more", low=0),
}

_DEFAULTS = PPOConfig()

LEARNING_RATE = Setting(
    "learn.learning_rate", _DEFAULTS.learning_rate, "step size of AdamW", low=0.0
)
GAMMA = Setting(
    "learn.gamma", _DEFAULTS.gamma, "worth of the next step's reward", low=0.0, high=1.0
)
CLIP_RANGE = Setting(
    "learn.clip_range", _DEFAULTS.clip_range, "how far PPO's ratio may leave 1", low=0.0
)
ENT_COEF = Setting("learn.ent_coef", _DEFAULTS.ent_coef, "weight of the entropy bonus", low=0.0)
VF_COEF = Setting("learn.vf_coef", _DEFAULTS.vf_coef, "weight of the value loss", low=0.0)
REPLAY_WEIGHT = Setting(
    "learn.replay_weight", _DEFAULTS.replay.weight, "weight of the replay loss, if any", low=0.0
)
REPLAY_POLICY_WEIGHT = Setting(
    "learn.replay_policy_weight",
    _DEFAULTS.replay.policy_weight,
    "weight of the policy's part within the replay loss",
    low=0.0,
)
REPLAY_ALPHA = Setting(
    "learn.replay_alpha",
    _DEFAULTS.replay.alpha,
    "how much priorities count when sequences are drawn",
    low=0.0,
    high=1.0,
)
REPLAY_BETA = Setting(
    "learn.replay_beta",
    _DEFAULTS.replay.beta,
    "how far importance weights correct for the priorities",
    low=0.0,
    high=1.0,
)


_OWN = (LEARNING_RATE, GAMMA, CLIP_RANGE, ENT_COEF, VF_COEF)
_REPLAY = (REPLAY_WEIGHT, REPLAY_POLICY_WEIGHT, REPLAY_ALPHA, REPLAY_BETA)

CONFIG_KEYS: Mapping[str, str] = {
    **{setting.name: setting.name for setting in _OWN},
    **{setting.name: setting.name.replace("replay_", "replay.") for setting in _REPLAY},
}
"""For each setting the config key it begins with."""


def learn_settings(config: OnPolicyConfig) -> tuple[Setting[float], ...]:
    """Return the declarations of all settings learners read, beginning at the config's values."""
    return (
        *(_starting(setting, config, "learn.") for setting in _OWN),
        *(_starting(setting, config.replay, "learn.replay_") for setting in _REPLAY),
    )


def _starting(
    setting: Setting[float], config: OnPolicyConfig | ReplayConfig, prefix: str
) -> Setting[float]:
    # A setting the learner has no key for keeps its default; it does not read it.
    value = getattr(config, setting.name.removeprefix(prefix), setting.default)
    return replace(setting, default=value)


def aux_weight(settings: Settings, name: str) -> float:
    """Return the weight of a policy's own loss: the setting `loss.<name>`, or 1 without one."""
    full_name = f"loss.{name}"
    if full_name not in settings:
        return 1.0
    value = settings[settings.declaration(full_name)]
    assert isinstance(value, (int, float)), "a loss weight is declared as a number"
    return float(value)

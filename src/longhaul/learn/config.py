"""How a policy learns: the config of each learner, and the settings learners read.

Schedules may change settings between rollouts; each begins with the value of a config key.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Literal

from longhaul.core.config import (
    ABOVE_0,
    AT_LEAST_0,
    AT_LEAST_1,
    SHARE,
    Bounds,
    Ranges,
    check_ranges,
)
from longhaul.core.errors import ConfigError, suggestion
from longhaul.core.metrics import Metric
from longhaul.core.plugins import find_plugin, plugin_names
from longhaul.core.settings import Setting, Settings

if TYPE_CHECKING:
    from longhaul.learn.base import Learner

Backend = Literal["auto", "torch", "native"]


@dataclass(frozen=True, slots=True)
class ReplayConfig:
    """Prioritized replay of short sequences; off unless `enabled`."""

    enabled: bool = False
    """Keep every rollout and learn again from the sequences with the largest errors."""
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
    """Save the buffer in checkpoints. Without it they stay small, but a resumed run starts with an
    empty buffer and differs from the uninterrupted one."""

    def __post_init__(self) -> None:
        check_ranges(self, "learn.replay", _REPLAY_RANGES, finite=True)


SCRIPT = "script"
"""The source of a teacher that is the task's own script."""


@dataclass(frozen=True, slots=True)
class TeacherConfig:
    """A player whose choices the policy learns to make; none unless `sources` names one."""

    sources: tuple[str, ...] = ()
    """What teaches: `script` for the task's own script; or a run directory, a checkpoint, an
    exported folder or `zoo:NAME`. Several share the observations as the task assigns them."""
    coef: float = 1.0
    """Weight of the KL divergence from the teacher; the setting `learn.teacher_coef`, which a
    schedule may lower."""
    policy_coef: float = 1.0
    """Weight of the algorithm's own policy gradient beside it, 0 for cloning; the setting
    `learn.teacher_policy_coef`."""
    smoothing: float = 0.0
    """Share of the teacher's probability that is spread evenly over all open choices: a script is
    otherwise certain."""

    def __post_init__(self) -> None:
        check_ranges(self, "learn.teacher", _TEACHER_RANGES, finite=True)


@dataclass(frozen=True, slots=True)
class OnPolicyConfig:
    """What every learner is configured with; a learner's own class adds its keys."""

    algorithm: str = "ppo"
    """The learner: `ppo`, or `vtrace` (IMPALA), which corrects for rollouts of older weights; or
    one of an installed package, by the name it gives or as `module:Class`."""
    backend: Backend = "auto"
    """What computes updates and the actions of training. `native` is compiled code, several times
    as fast for small networks: PPO on MLPs with tanh or relu and on the trunk `lean` over tiles, on
    the processor, without memory, other images, noise and replay. `auto` takes it where it applies,
    and `torch` elsewhere; a run keeps what it was begun with, because the two round differently."""
    learning_rate: float = 3e-4
    """Step size of AdamW; the first value of the setting `learn.learning_rate`."""
    gamma: float = 0.99
    """Discount factor; the setting `learn.gamma`."""
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
    """Gradients are clipped to this norm; 0 disables clipping."""
    weight_decay: float = 0.0
    """Decoupled weight decay of AdamW."""
    adam_epsilon: float = 1e-5
    """AdamW's epsilon."""
    adam_beta1: float = 0.9
    """AdamW's beta1."""
    adam_beta2: float = 0.999
    """AdamW's beta2."""
    normalize_advantage: bool = True
    """Shift and scale advantages to mean 0 and deviation 1: over the rollout in PPO, over each
    minibatch in V-trace."""
    normalize_reward: bool = False
    """Divide rewards by the running deviation of the discounted return."""
    center_reward: bool = False
    """Subtract the running mean of the rewards and divide by their own running deviation instead.
    It changes what is best where episodes differ in length; for comparison with older work."""
    reward_clip: float = 0.0
    """Largest absolute reward after normalization; 0 turns it off."""
    rho_bar: float = 1.0
    """V-trace and replay: upper bound of rho, the importance weight of a step's error."""
    c_bar: float = 1.0
    """V-trace and replay: upper bound of c, the importance weight of later steps."""
    vtrace_lambda: float = 1.0
    """V-trace and replay: lambda, which discounts later steps."""
    max_bad_updates: int = 5
    """Optimizer steps in a row that may be skipped for numbers that are not finite, before the
    weights are restored to those before the rollout and the learning rate is halved."""
    max_bad_rollouts: int = 3
    """Rollouts in a row that may be given up in this way before the run stops."""
    replay: ReplayConfig = field(default_factory=ReplayConfig)
    """What is kept of earlier rollouts and learned from again."""
    teacher: TeacherConfig = field(default_factory=TeacherConfig)
    """Who shows the policy what to do."""

    def __post_init__(self) -> None:
        check_ranges(self, "learn", _RANGES, finite=True)


@dataclass(frozen=True, slots=True)
class PPOConfig(OnPolicyConfig):
    """Proximal policy optimization."""

    gae_lambda: float = 0.95
    """Lambda of generalized advantage estimation; 1 trusts returns, 0 trusts the values."""
    clip_range: float = 0.2
    """Epsilon: the probability ratio is clipped to 1 +- this; the setting `learn.clip_range`."""
    clip_range_vf: float = 0.0
    """Clips the change of a value from the recorded one, per rollout; 0 turns it off."""
    target_kl: float = 0.0
    """Stop the epochs when the KL divergence exceeds 1.5 times this; 0 turns it off."""


@dataclass(frozen=True, slots=True)
class VTraceConfig(OnPolicyConfig):
    """V-trace; its importance weights are shared with replay."""

    algorithm: str = "vtrace"
    """The learner."""


_BETA = Bounds("at least 0 and below 1", low=0, high=math.nextafter(1.0, 0.0))
_RANGES: Ranges = {
    AT_LEAST_1: "n_epochs minibatch_size accumulate max_bad_updates max_bad_rollouts",
    SHARE: "gamma gae_lambda vtrace_lambda",
    _BETA: "adam_beta1 adam_beta2",
    ABOVE_0: "learning_rate clip_range adam_epsilon rho_bar c_bar",
    AT_LEAST_0: "clip_range_vf target_kl ent_coef vf_coef max_grad_norm weight_decay reward_clip",
}
_REPLAY_RANGES: Ranges = {
    AT_LEAST_1: "capacity interval batch batches",
    AT_LEAST_0: "memory_megabytes length cut_room warm_up weight policy_weight",
    SHARE: "alpha beta peak",
}


_TEACHER_RANGES: Ranges = {AT_LEAST_0: "coef policy_coef", SHARE: "smoothing"}


_DEFAULTS = PPOConfig()


def _setting(key: str, meaning: str, high: float | None = None) -> Setting[float]:
    """Return the setting `learn.<key>`; `replay.alpha` becomes `learn.replay_alpha`."""
    default: float = attrgetter(key)(_DEFAULTS)
    return Setting(f"learn.{key.replace('.', '_')}", default, meaning, low=0.0, high=high)


LEARNING_RATE = _setting("learning_rate", "step size of AdamW")
GAMMA = _setting("gamma", "discount factor", high=1.0)
CLIP_RANGE = _setting("clip_range", "PPO's clip range")
ENT_COEF = _setting("ent_coef", "weight of the entropy bonus")
VF_COEF = _setting("vf_coef", "weight of the value loss")
REPLAY_WEIGHT = _setting("replay.weight", "weight of the replay loss, if any")
REPLAY_POLICY_WEIGHT = _setting(
    "replay.policy_weight", "weight of the policy's part within the replay loss"
)
REPLAY_ALPHA = _setting(
    "replay.alpha", "how much priorities count when sequences are drawn", high=1.0
)
REPLAY_BETA = _setting(
    "replay.beta", "how far importance weights correct for the priorities", high=1.0
)
TEACHER_COEF = _setting("teacher.coef", "weight of the KL divergence from the teacher")
TEACHER_POLICY_COEF = _setting(
    "teacher.policy_coef", "weight of the policy gradient beside a teacher"
)

_OWN = (LEARNING_RATE, GAMMA, CLIP_RANGE, ENT_COEF, VF_COEF)
_REPLAY = (REPLAY_WEIGHT, REPLAY_POLICY_WEIGHT, REPLAY_ALPHA, REPLAY_BETA)
_TEACHER = (TEACHER_COEF, TEACHER_POLICY_COEF)

CONFIG_KEYS: Mapping[str, str] = {
    **{setting.name: setting.name for setting in _OWN},
    **{setting.name: setting.name.replace("replay_", "replay.") for setting in _REPLAY},
    **{setting.name: setting.name.replace("teacher_", "teacher.") for setting in _TEACHER},
}
"""For each setting the config key it begins with."""


def learn_settings(config: OnPolicyConfig) -> tuple[Setting[float], ...]:
    """Return the declarations of all settings learners read, beginning at the config's values."""
    teacher = _TEACHER if config.teacher.sources else ()
    return (
        *(_starting(setting, config, "learn.") for setting in _OWN),
        *(_starting(setting, config.replay, "learn.replay_") for setting in _REPLAY),
        *(_starting(setting, config.teacher, "learn.teacher_") for setting in teacher),
    )


def _starting(
    setting: Setting[float], config: OnPolicyConfig | ReplayConfig | TeacherConfig, prefix: str
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


GROUP = "longhaul.learners"
BUILT_IN = {"ppo": "longhaul.learn.ppo:PPO", "vtrace": "longhaul.learn.vtrace:VTrace"}
CONFIGS: Mapping[str, type[OnPolicyConfig]] = {"ppo": PPOConfig, "vtrace": VTraceConfig}
"""The configs of the built-in learners, without importing the learners."""
_KEY = "learn.algorithm"


def find_learner(name: str) -> type[Learner[Any]]:
    """Return the learner a config names: a built-in one, an installed one or `module:Class`."""
    from longhaul.learn.base import Learner

    found = find_plugin(name, group=GROUP, built_in=BUILT_IN, where=_KEY)
    if found is None:
        known = plugin_names(GROUP, BUILT_IN)
        raise ConfigError(
            f"{_KEY}: there is no choice {name!r}{suggestion(name, known)} "
            f"(choices: {', '.join(known)}); or name one as module:Class"
        )
    if not (isinstance(found, type) and issubclass(found, Learner)):
        raise ConfigError(f"{_KEY} = {name!r} is {found!r}, not a subclass of Learner")
    config = found.config_class
    if not (is_dataclass(config) and issubclass(config, OnPolicyConfig)):
        raise ConfigError(
            f"{_KEY} = {name!r}: its config_class is {config!r}, not a dataclass derived from "
            "OnPolicyConfig"
        )
    return found


def config_class(name: str) -> type[OnPolicyConfig]:
    """Return the class of `[learn]` for the learner a config names."""
    return CONFIGS[name] if name in CONFIGS else find_learner(name).config_class


def foreign_keys(kind: type[OnPolicyConfig]) -> frozenset[str]:
    """Return the keys that only other built-in learners have.

    A preset may contain them; they are ignored when another learner is chosen.
    """
    known = {one.name for other in CONFIGS.values() for one in fields(other)}
    return frozenset(known - {one.name for one in fields(kind)})


METRICS = (
    Metric(
        "train/approx_kl",
        "mean KL divergence from the policy that acted, in the last epoch",
        "nats",
    ),
    Metric("train/clip_fraction", "share of probability ratios outside PPO's clip range"),
    Metric("train/entropy_loss", "minus the mean entropy of the policy", "nats"),
    Metric("train/epochs_run", "epochs started before `target_kl` stopped them"),
    Metric("train/explained_variance", "share of the targets' variance the values explain"),
    Metric("train/td_error_p50", "median distance of values from their targets"),
    Metric("train/td_error_p90", "90th percentile of the distances of values from their targets"),
    Metric("train/td_error_p99", "99th percentile of the distances of values from their targets"),
    Metric("train/policy_gradient_loss", "the policy's part of the loss"),
    Metric("train/value_loss", "mean squared error of the values"),
    Metric("train/teacher_kl", "KL divergence of the policy from its teacher", "nats"),
    Metric("train/loss", "the weighted sum of all terms"),
    Metric("train/grad_norm", "mean gradient norm before clipping"),
    Metric("train/learning_rate", "learning rate used, reduced after a rollback"),
    Metric("train/clip_range", "PPO's clip range"),
    Metric("train/n_updates", "optimizer steps since the run began"),
    Metric("train/vtrace_rho_mean", "mean clipped importance weight"),
    Metric("train/vtrace_rho_clip_fraction", "share of importance weights above their bound"),
    Metric("train/aux_<loss>", "one of the policy's own losses, weighted by setting loss.<loss>"),
    Metric("policy/<measure>", "a measurement the policy itself makes"),
    Metric("replay/capacity", "transitions that can be kept for replay", "steps"),
    Metric("replay/size", "transitions that are kept", "steps"),
    Metric("replay/fill", "size as a share of the capacity"),
    Metric("replay/pushed_total", "transitions kept since the run began, overwritten ones too"),
    Metric("replay/samples_total", "samples drawn since the run began"),
    Metric("replay/batch_mean", "mean number of steps to learn from in a sample", "steps"),
    Metric("replay/unique_ratio", "distinct sequences in the last sample, as a share of all"),
    Metric("replay/unique_ratio_mean", "mean of that share over all samples"),
    Metric("replay/priority_mean", "mean priority of the kept sequences"),
    Metric("replay/priority_p50", "median of the priorities"),
    Metric("replay/priority_p90", "90th percentile of the priorities"),
    Metric("replay/priority_p99", "99th percentile of the priorities"),
    Metric("replay/policy_loss", "the policy's part of the replay loss, importance-weighted"),
    Metric("replay/value_loss", "the values' part of the replay loss, importance-weighted"),
    Metric("replay/td_error", "mean distance of replayed values from their V-trace targets"),
    Metric("replay/weight_mean", "mean importance weight of the replayed steps, at most 1"),
    Metric("replay/rho_mean", "mean clipped ratio of the present policy to the one that acted"),
    Metric("replay/rho_clip_fraction", "share of importance ratios above `learn.rho_bar`"),
    Metric("fault/skipped_updates", "optimizer steps of this rollout that were not finite"),
    Metric("fault/rollbacks", "1 if the weights were restored to those before this rollout"),
)

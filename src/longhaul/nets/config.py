"""How the generic policy is built."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

from longhaul.core.config import ABOVE_0, AT_LEAST_1, Ranges, check_ranges
from longhaul.core.errors import ConfigError, suggestion
from longhaul.core.metrics import Metric
from longhaul.core.spaces import EnvSpec

if TYPE_CHECKING:
    from longhaul.core.policy import Policy

Activation = Literal["tanh", "relu", "silu", "gelu"]
TrunkKind = Literal["auto", "mlp", "nature", "impala", "lean"]
ValueNetwork = Literal["auto", "separate", "shared"]
CoreKind = Literal["none", "gru", "lstm", "transformer"]
NoisyLayers = Literal["none", "heads", "trunk", "both"]
ImagePrecision = Literal["float32", "bfloat16", "auto"]


@dataclass(frozen=True, slots=True)
class PolicyConfig:
    """The generic actor-critic: a trunk, perhaps a memory, and heads for policy and value."""

    trunk: str = "auto"
    """How observations are read. `auto` takes `nature` for images of 36x36 pixels and more, `lean`
    for smaller ones down to 5x5, and `mlp` for the rest; `impala` is the residual network, slower
    and often better on images; `lean` has two small convolutions, for images of tiles and for
    speed; `module:Class` is your class, an `nn.Module` that turns observations into features, or a
    whole `Policy`. Images are uint8 parts of shape channels x height x width; parts that are not
    images go through the MLP."""
    hidden: tuple[int, ...] = (64, 64)
    """Sizes of the MLP's layers, for the observation's parts that are not images."""
    activation: Activation = "tanh"
    """Activation of the MLP's layers."""
    image_features: int = 512
    """Outputs of an image network."""
    image_precision: ImagePrecision = "float32"
    """What image networks compute with. `bfloat16` takes half the memory and, on processors that
    have it, about two thirds of the time; weights, their gradients and everything behind the image
    network stay float32. `auto` is bfloat16 on a processor that has it and float32 elsewhere."""
    joint: tuple[int, ...] = ()
    """Sizes of further layers over the outputs of image networks and MLP together; only where
    policy and value share the trunk."""
    impala_width: int = 1
    """Multiplies the 16, 32 and 32 channels of the `impala` trunk."""
    value_network: ValueNetwork = "auto"
    """Whether the value has a separate MLP. `auto` means `separate` for observations without
    images and policies without memory, `shared` for all others."""
    core: CoreKind = "none"
    """The policy's memory of earlier steps of the episode."""
    core_size: int = 128
    """Outputs of the memory, and its width."""
    core_layers: int = 2
    """Layers of the transformer; GRU and LSTM have one."""
    core_heads: int = 4
    """Attention heads of the transformer; must divide `core_size`."""
    memory_length: int = 32
    """How many earlier steps each layer of the transformer looks at."""
    noisy: NoisyLayers = "none"
    """Which layers explore by learned noise in their weights: the heads, the trunk's last layer,
    or both."""
    noise_scale: float = 0.5
    """Initial scale of the noise of noisy layers."""
    normalize_observations: bool = False
    """Whether float observations are shifted and scaled by their running mean and deviation."""
    observation_clip: float = 10.0
    """Normalized observations are clipped to plus and minus this."""
    initial_log_std: float = 0.0
    """Logarithm of the first standard deviation of continuous actions."""
    compile: bool = False
    """Whether learning computes the network by torch.compile, which needs a C++ compiler; acting
    does not. Numbers differ in their last digits; a resumed run may change this."""

    def __post_init__(self) -> None:
        kinds = get_args(TrunkKind)
        if self.trunk not in kinds and ":" not in self.trunk:
            raise ConfigError(
                f"policy.trunk: there is no choice {self.trunk!r}{suggestion(self.trunk, kinds)} "
                f"(choices: {', '.join(kinds)}, or module:Class)"
            )
        check_ranges(self, "policy", _RANGES)
        if self.core == "transformer" and self.core_size % self.core_heads:
            raise ConfigError(
                f"policy.core_heads = {self.core_heads} does not divide "
                f"policy.core_size = {self.core_size}"
            )


_RANGES: Ranges = {
    AT_LEAST_1: "hidden joint image_features impala_width core_size core_layers core_heads "
    "memory_length",
    ABOVE_0: "noise_scale observation_clip",
}

METRICS = (Metric("policy/std", "mean standard deviation of continuous actions"),)


def build_policy(spec: EnvSpec, config: PolicyConfig) -> Policy:
    """Return a fresh policy for an environment, as the config describes it."""
    from longhaul.nets import actor_critic, custom

    whole = custom.find_policy(config)
    return actor_critic.build_policy(spec, config) if whole is None else whole(spec, config)


def image_warnings(spec: EnvSpec, config: PolicyConfig) -> tuple[str, ...]:
    """Return a warning for every part that looks like an image but is read by an MLP."""
    from longhaul.nets import encoder

    return encoder.image_warnings(spec.observation, config)

"""The generic actor-critic, built from an environment's shapes and a config."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, assert_never, cast

import torch
from torch import Tensor

from longhaul.core.errors import ConfigError
from longhaul.core.policy import (
    NO_NOISE,
    Act,
    ActionEvaluation,
    Generators,
    PlainNetwork,
    Policy,
)
from longhaul.core.rollout import Memory, Sequences, TensorTree
from longhaul.core.settings import Settings
from longhaul.core.spaces import Continuous, EnvSpec
from longhaul.nets.config import PolicyConfig
from longhaul.nets.custom import CustomTrunk, is_custom
from longhaul.nets.dense import DirectLayer, Mlp, NoisyLinear, draw_noise
from longhaul.nets.encoder import (
    Body,
    Encoder,
    Outlets,
    SeparateBody,
    SharedBody,
    Vector,
    image_parts,
    module_name,
)
from longhaul.nets.heads import GaussianHead, Head, ValueHead, action_head
from longhaul.nets.plain import describe
from longhaul.nets.recurrent import Gru, Lstm, NoCore, SequenceCore, Transformer


class ActorCritic(Policy):
    """A body with one head for the policy and one for the value."""

    def __init__(
        self, body: Body, policy_head: Head, value_head: ValueHead, *, compiles: bool = False
    ) -> None:
        super().__init__()
        self._compile = compiles
        self.body = body
        self.policy_head = policy_head
        self.value_head = value_head
        outlets = Outlets(DirectLayer(policy_head.layer), DirectLayer(value_head.layer))
        # A plain tuple: reaching modules through nn.Module costs a microsecond each on every step.
        self._direct = (body, policy_head, value_head, outlets)
        self._noisy = any(isinstance(module, NoisyLinear) for module in self.modules())
        self._noise_seed = NO_NOISE

    @property
    def recurrent(self) -> bool:
        """Whether the body has a memory."""
        return bool(self.body.initial_state(0))

    def initial_state(self, rows: int) -> Memory:
        """Return zeros."""
        return self.body.initial_state(rows)

    def act(
        self,
        obs: TensorTree,
        memory: Memory,
        settings: Settings,
        *,
        mask: Tensor | None = None,
        generator: Generators | None = None,
    ) -> Act:
        """Choose actions for [N] rows; without a generator, the most likely ones."""
        body, policy_head, value_head, outlets = self._direct
        for_policy, for_value, memory = body.step(obs, memory, outlets)
        action, log_prob, logits = policy_head.act(for_policy, mask, generator)
        value = value_head.forward(for_value)
        return Act(action, log_prob, value, memory, logits=logits)

    def choose(
        self,
        obs: TensorTree,
        memory: Memory,
        settings: Settings,
        *,
        mask: Tensor | None = None,
        generator: Generators | None = None,
    ) -> tuple[Tensor, Memory]:
        """Return the actions of `act` without estimating a value."""
        body, policy_head, _, outlets = self._direct
        for_policy, memory = body.policy_step(obs, memory, outlets)
        return policy_head.act(for_policy, mask, generator)[0], memory

    def value(self, obs: TensorTree, memory: Memory, settings: Settings) -> Tensor:
        """Return the value [N] of observations seen with this memory."""
        body, _, value_head, outlets = self._direct
        return value_head.forward(body.value_step(obs, memory, outlets))

    def evaluate_actions(self, sequences: Sequences, settings: Settings) -> ActionEvaluation:
        """Return log-probability, entropy and value of each recorded step."""
        self.set_noise(sequences.noise_seed)
        return (
            compiled_evaluation()(self, sequences) if self._compile else self._evaluate(sequences)
        )

    def _evaluate(self, sequences: Sequences) -> ActionEvaluation:
        body, policy_head, value_head, outlets = self._direct
        shape = sequences.started.shape
        obs = {name: part.flatten(0, 1) for name, part in sequences.obs.items()}
        for_policy, for_value = body.sequence(obs, sequences.memory, sequences.started, outlets)
        mask = None if sequences.mask is None else sequences.mask.flatten(0, 1)
        log_prob, entropy, logits = policy_head.evaluate_actions(
            for_policy, sequences.action.flatten(0, 1), mask
        )
        metrics = {}
        if isinstance(policy_head, GaussianHead):
            metrics["policy/std"] = policy_head.log_std.detach().exp().mean()
        return ActionEvaluation(
            log_prob=log_prob.view(shape),
            entropy=entropy.view(shape),
            value=value_head.forward(for_value).view(shape),
            metrics=metrics,
            logits=None if logits is None else logits.unflatten(0, shape),
        )

    def set_noise(self, seed: int) -> None:
        """Draw the noise of noisy layers from a seed; `NO_NOISE` acts without noise."""
        if self._noisy and seed != self._noise_seed:
            draw_noise(self, seed)
            self._noise_seed = seed

    def observe(self, obs: TensorTree, active: Tensor) -> None:
        """Update the observation normalizers from a learned rollout."""
        self.body.observe(obs, active)

    def plain_network(self) -> PlainNetwork | None:
        """Describe the network; None with memory, noise, torch.compile or a subclass."""
        if self._noisy or self._compile or type(self) is not ActorCritic:
            return None
        return describe(self, self.body, self.policy_head, self.value_head)


@functools.cache
def compiled_evaluation() -> Callable[[ActorCritic, Sequences], ActionEvaluation]:
    """Return what `evaluate_actions` computes, compiled at its first call for each network.

    It belongs to no policy: weights have the same names, and policies are copied and sent, as ever.
    """
    evaluate: Any = torch.compile(ActorCritic._evaluate, dynamic=True)
    return cast(Callable[[ActorCritic, Sequences], ActionEvaluation], evaluate)


def build_policy(spec: EnvSpec, config: PolicyConfig) -> ActorCritic:
    """Return the policy for an environment; weights are drawn from torch's own generator."""
    images = _checked(spec, config)
    vector = Vector(
        {name: part for name, part in spec.observation.items() if name not in images},
        normalize=config.normalize_observations,
        clip=config.observation_clip,
    )
    body = _body(spec, config, images, vector)
    noise_scale = config.noise_scale if config.noisy in ("heads", "both") else 0.0
    head = action_head(
        spec.action, body.outputs, noise_scale=noise_scale, initial_log_std=config.initial_log_std
    )
    value_head = ValueHead(body.outputs, noise_scale=noise_scale)
    return ActorCritic(body, head, value_head, compiles=config.compile)


def _body(spec: EnvSpec, config: PolicyConfig, images: tuple[str, ...], vector: Vector) -> Body:
    if is_custom(config):
        trunk = CustomTrunk(spec.observation, vector, config)
        return SharedBody(trunk, _core(trunk.outputs, config))
    shared = bool(images) or config.core != "none"
    if config.value_network == "shared" or (config.value_network == "auto" and shared):
        encoder = Encoder(spec.observation, images, vector, config)
        return SharedBody(encoder, _core(encoder.outputs, config))
    if config.joint:
        raise ConfigError(
            f"policy.joint = {list(config.joint)} needs a trunk shared by policy and value; "
            "set policy.value_network = 'shared' or leave it empty"
        )
    noise_scale = config.noise_scale if config.noisy in ("trunk", "both") else 0.0

    def mlp() -> Mlp:
        return Mlp(
            vector.outputs, config.hidden, activation=config.activation, noise_scale=noise_scale
        )

    return SeparateBody(vector, mlp(), mlp())


def _core(inputs: int, config: PolicyConfig) -> SequenceCore:
    match config.core:
        case "none":
            return NoCore(inputs)
        case "gru":
            return Gru(inputs, config.core_size)
        case "lstm":
            return Lstm(inputs, config.core_size)
        case "transformer":
            return Transformer(
                inputs,
                config.core_size,
                layers=config.core_layers,
                heads=config.core_heads,
                memory_length=config.memory_length,
            )
        case _:
            assert_never(config.core)


def _checked(spec: EnvSpec, config: PolicyConfig) -> tuple[str, ...]:
    """Return the names of the image parts; raise if the combination is not supported."""
    parts = spec.observation
    if not parts:
        raise ConfigError(f"environment {spec.id!r} has no observation: it lists no parts")
    if len({module_name(name) for name in parts}) < len(parts) or "" in parts:
        raise ConfigError(
            f"observation parts {sorted(parts)} need names that differ in more than dots"
        )
    if spec.has_masks and isinstance(spec.action, Continuous):
        raise ConfigError(
            f"environment {spec.id!r} masks continuous actions; only discrete ones can be"
        )
    images, own = image_parts(parts, config), is_custom(config)
    if config.value_network == "separate" and (images or config.core != "none" or own):
        reason = f"images {list(images)}" if images else f"policy.core = {config.core!r}"
        reason = f"policy.trunk = {config.trunk!r}" if own else reason
        raise ConfigError(
            f"policy.value_network = 'separate' conflicts with {reason}; use 'shared' or 'auto'"
        )
    if own and (config.noisy in ("trunk", "both") or config.joint):
        raise ConfigError(
            f"policy.trunk = {config.trunk!r} is used as it is; leave policy.joint empty and "
            "policy.noisy at 'none' or 'heads'"
        )
    if config.noisy in ("trunk", "both") and not config.hidden and len(images) < len(parts):
        raise ConfigError(
            f"policy.noisy = {config.noisy!r} makes the trunk's last layer noisy, "
            "but policy.hidden is empty"
        )
    return images

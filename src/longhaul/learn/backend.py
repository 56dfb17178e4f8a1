"""What a learner computes with: torch, or native code where policy and config allow it."""

from __future__ import annotations

from typing import Any

from longhaul.core.errors import ConfigError
from longhaul.core.policy import Policy
from longhaul.learn.base import Learner
from longhaul.learn.config import OnPolicyConfig, find_learner

NATIVE, TORCH = "native", "torch"


def find_backend(policy: Policy, config: OnPolicyConfig, *, learners: int, begun: str) -> str:
    """Return the backend of a run: what it was begun with, what is asked for, or the faster one."""
    if config.backend != "auto":
        if config.backend == NATIVE and (obstacle := _obstacle(policy, config, learners)):
            raise ConfigError(
                f"learn.backend = 'native' does not support {obstacle}; use 'auto' or 'torch'"
            )
        return config.backend
    return begun or (TORCH if _obstacle(policy, config, learners) else NATIVE)


def _obstacle(policy: Policy, config: OnPolicyConfig, learners: int) -> str:
    """Return what native code has no counterpart for; the empty string if there is nothing."""
    device = next(policy.parameters()).device
    if config.algorithm != "ppo":
        return f"learn.algorithm = {config.algorithm!r}"
    if config.replay.enabled:
        return "learn.replay"
    if config.teacher.sources:
        return "learn.teacher"
    if learners > 1:
        return f"{learners} learners"
    if device.type != "cpu":
        return f"the device {device}"
    if policy.dense_network() is None:
        return "this policy, only MLPs with tanh or relu: no memory, images, noise or torch.compile"
    return ""


def learner_class(config: OnPolicyConfig, backend: str) -> type[Learner[Any]]:
    """Return the learner a config names, for this backend."""
    if backend != NATIVE:
        return find_learner(config.algorithm)
    from longhaul.learn.native.ppo import NativePPO

    return NativePPO


def compile_ahead() -> None:
    """Compile the native backend, unless this machine has kept it."""
    from longhaul.learn.native import ppo

    ppo.compile_ahead()

"""What computes a policy: torch, or native code where policy and config allow it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from longhaul.core.errors import ConfigError
from longhaul.core.policy import Policy
from longhaul.learn.base import Learner
from longhaul.learn.config import OnPolicyConfig, find_learner

NATIVE, TORCH = "native", "torch"


@dataclass(frozen=True, slots=True)
class Backends:
    """What a run's policy is computed with."""

    learning: str
    acting: str
    """In training; evaluations always act with torch."""


def find_backends(
    policy: Policy, config: OnPolicyConfig, *, learners: int, begun: Backends | None
) -> Backends:
    """Return the backends of a run: those it was begun with, what is asked for, or the faster."""
    obstacle = _obstacle(policy, config, learners)
    if config.backend != "auto":
        learning: str = config.backend
    elif begun is None:
        learning = TORCH if obstacle else NATIVE
    else:
        learning = begun.learning
    if learning == NATIVE and obstacle:
        raise ConfigError(
            f"learn.backend = 'native' does not support {obstacle}; use 'auto' or 'torch'"
            if begun is None
            else f"the run was begun with native updates, which do not support {obstacle}; go on "
            "without that, or with learn.backend = 'torch'"
        )
    return Backends(learning, learning if begun is None or learning == TORCH else begun.acting)


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
    if policy.plain_network() is None:
        return (
            "this policy, only MLPs with tanh or relu and the trunk 'lean' for tiles: no memory, "
            "other images, noise or torch.compile"
        )
    return ""


def learner_class(config: OnPolicyConfig, backend: str) -> type[Learner[Any]]:
    """Return the learner a config names, for this backend."""
    if backend != NATIVE:
        return find_learner(config.algorithm)
    from longhaul.learn.native.ppo import NativePPO

    return NativePPO


def compile_ahead() -> None:
    """Compile the native backend, unless this machine has kept it."""
    from longhaul.learn.native import acting, update

    acting.compiled()
    update.compiled()

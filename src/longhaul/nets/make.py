"""Making a policy. Torch is imported only then: most commands do not need it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from longhaul.core.spaces import EnvSpec
from longhaul.nets.config import PolicyConfig

if TYPE_CHECKING:
    from longhaul.nets.actor_critic import ActorCritic


def build_policy(spec: EnvSpec, config: PolicyConfig) -> ActorCritic:
    """Return a fresh policy for an environment, as the config describes it."""
    from longhaul.nets import actor_critic

    return actor_critic.build_policy(spec, config)


def image_warnings(spec: EnvSpec, config: PolicyConfig) -> tuple[str, ...]:
    """Return a warning for every part that looks like an image but is read by an MLP."""
    from longhaul.nets import encoder

    return encoder.image_warnings(spec.observation, config)

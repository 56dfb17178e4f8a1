"""Networks that a user brings: a trunk for the general policy, or a whole policy."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn

from longhaul.core.errors import ConfigError
from longhaul.core.plugins import find_reference
from longhaul.core.policy import Policy
from longhaul.core.rollout import TensorTree
from longhaul.core.spaces import EnvSpec, Part
from longhaul.nets.config import PolicyConfig
from longhaul.nets.encoder import Vector


def is_custom(config: PolicyConfig) -> bool:
    """Whether the trunk is a class of the user's."""
    return ":" in config.trunk


def find_policy(config: PolicyConfig) -> Callable[[EnvSpec, PolicyConfig], Policy] | None:
    """Return the class of policies that the trunk names; None if it names a trunk alone."""
    if not is_custom(config):
        return None
    found = _find_network(config.trunk)
    return found if issubclass(found, Policy) else None


def _find_network(name: str) -> type[nn.Module]:
    found = find_reference(name, "policy.trunk")
    if not (isinstance(found, type) and issubclass(found, nn.Module)):
        raise ConfigError(f"policy.trunk = {name!r} is {found!r}, not a class of torch.nn.Module")
    return found


class CustomTrunk(nn.Module):
    """One feature vector from all parts, by a network of the user's.

    Its class is called with the observation's shape, and the network with the observation
    [N, *shape] as floats: bytes are scaled by 1/255. With several parts both are dicts.
    """

    def __init__(self, parts: Mapping[str, Part], vector: Vector, config: PolicyConfig) -> None:
        super().__init__()
        self.vector = vector
        self._names = tuple(parts)
        shapes = {name: part.shape for name, part in parts.items()}
        shape = shapes if len(shapes) > 1 else next(iter(shapes.values()))
        try:
            self.network = _find_network(config.trunk)(shape)
            self.outputs = self._count_outputs(shapes)
        except (TypeError, ValueError, RuntimeError) as error:
            name = f"policy.trunk = {config.trunk!r}"
            raise ConfigError(f"{name} does not fit the observation {shape}: {error}") from error

    def forward(self, obs: TensorTree) -> Tensor:
        """Return [N, outputs]."""
        floats = {name: self.vector.floats(name, obs[name]) for name in self._names}
        features: Tensor = self.network(floats if len(floats) > 1 else next(iter(floats.values())))
        return features

    def _count_outputs(self, shapes: Mapping[str, tuple[int, ...]]) -> int:
        """Return the number of features by trying one observation of zeros."""
        self.eval()
        with torch.no_grad():
            features = self.forward(
                {name: torch.zeros(1, *shape) for name, shape in shapes.items()}
            )
        self.train()
        if features.dim() != 2 or len(features) != 1:
            raise ValueError(f"it returns {tuple(features.shape)} for one, not (1, features)")
        return features.shape[1]
